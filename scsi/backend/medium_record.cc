#include "scsi/backend/medium_record.h"

#include <random>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace skiff::scsi {
namespace {

constexpr absl::string_view kFirst = "skiff-medium-1";
constexpr size_t kIdentityDigits = 32;

// FNV-1a. Not against forgery: whoever names devices can do as he likes.
uint64_t Hash(absl::string_view text, uint64_t hash) {
  for (const char c : text) {
    hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  }
  return hash;
}

bool IsIdentity(absl::string_view text) {
  if (text.size() != kIdentityDigits) return false;
  for (const char c : text) {
    if (!absl::ascii_isxdigit(static_cast<unsigned char>(c))) return false;
  }
  return true;
}

template <typename T>
bool TakeNumber(absl::string_view field, absl::string_view name, T* out) {
  return absl::ConsumePrefix(&field, name) && absl::SimpleAtoi(field, out);
}

}  // namespace

std::string EncodeMediumRecord(const MediumRecord& record) {
  std::string text = absl::StrFormat(
      "%s id=%s inode=%d born=%d lost=%d errno=%d", kFirst, record.identity,
      record.inode, record.born_ns, record.lost_at, record.lost_for);
  text.resize(kMediumRecordBytes - 1, ' ');
  text.push_back('\n');
  return text;
}

std::optional<MediumRecord> DecodeMediumRecord(absl::string_view text) {
  if (text.size() != kMediumRecordBytes || text.back() != '\n') {
    return std::nullopt;
  }
  const std::vector<absl::string_view> fields =
      absl::StrSplit(absl::StripAsciiWhitespace(text), ' ');
  MediumRecord record;
  if (fields.size() != 6 || fields[0] != kFirst) return std::nullopt;
  absl::string_view identity = fields[1];
  if (!absl::ConsumePrefix(&identity, "id=") || !IsIdentity(identity) ||
      !TakeNumber(fields[2], "inode=", &record.inode) ||
      !TakeNumber(fields[3], "born=", &record.born_ns) ||
      !TakeNumber(fields[4], "lost=", &record.lost_at) ||
      !TakeNumber(fields[5], "errno=", &record.lost_for)) {
    return std::nullopt;
  }
  record.identity = std::string(identity);
  return record;
}

std::string MakeMediumIdentity() {
  std::random_device random;
  std::string identity;
  for (int i = 0; i < 4; ++i) {
    absl::StrAppendFormat(&identity, "%08x", random());
  }
  return identity;
}

std::string MediumIdentityOf(absl::string_view name) {
  return absl::StrFormat("%016x%016x", Hash(name, 0xcbf29ce484222325),
                         Hash(name, 0x84222325cbf29ce4));
}

}  // namespace skiff::scsi
