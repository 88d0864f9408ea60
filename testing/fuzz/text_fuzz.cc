#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "protocol/codec/text.h"
#include "protocol/codec/text_value.h"
#include "protocol/negotiation/names.h"
#include "protocol/negotiation/send_targets.h"
#include "protocol/negotiation/url.h"
#include "testing/fuzz/check.h"

// Any bytes as text, in one data segment and in two, and each value as each
// kind of value.

namespace skiff::protocol {
namespace {

constexpr size_t kLimit = 4096;

void TryValue(absl::string_view value) {
  const auto range = ParseRange(value);
  SKIFF_FUZZ_CHECK(!range || range->low <= range->high);
  std::vector<absl::string_view> items;
  if (ParseList(value, &items)) SKIFF_FUZZ_CHECK(!items.empty());
  std::vector<uint8_t> bytes;
  if (ParseBinary(value, 64, &bytes)) {
    SKIFF_FUZZ_CHECK(!bytes.empty() && bytes.size() <= 64);
    std::vector<uint8_t> again;
    SKIFF_FUZZ_CHECK(ParseBinary(EncodeBase64(bytes), 64, &again));
    SKIFF_FUZZ_CHECK(again == bytes);
  }
  const auto name = NormalizeName(value);
  if (name.ok()) SKIFF_FUZZ_CHECK(*NormalizeName(*name) == *name);
  const auto url = ParseUrl(value);
  if (url.ok()) SKIFF_FUZZ_CHECK(ParseUrl(FormatUrl(*url)).ok());
  SKIFF_FUZZ_CHECK(Quoted(value).size() < 300);
}

void TryText(absl::Span<const uint8_t> data, size_t cut) {
  TextCollector whole(kLimit);
  TextCollector parts(kLimit);
  if (!whole.Add(data, false).ok()) return;
  if (cut > 0 && cut <= data.size()) {
    SKIFF_FUZZ_CHECK(parts.Add(data.subspan(0, cut), true).ok());
    SKIFF_FUZZ_CHECK(!parts.complete());
    SKIFF_FUZZ_CHECK(parts.Add(data.subspan(cut), false).ok());
    SKIFF_FUZZ_CHECK(parts.text() == whole.text());
  }
  std::vector<TextPair> pairs;
  if (!ParseText(whole.text(), &pairs).ok()) return;
  TextWriter writer;
  for (const TextPair& pair : pairs) {
    TryValue(pair.value);
    writer.Add(pair.key, pair.value);
  }
  bool more = false;
  SKIFF_FUZZ_CHECK(writer.Next(kLimit, &more) == whole.text());
  SKIFF_FUZZ_CHECK(!more);
  const auto targets = ParseTargets(pairs, 4, 4);
  SKIFF_FUZZ_CHECK(!targets.ok() || targets->size() <= 4);
}

}  // namespace
}  // namespace skiff::protocol

// The first byte says where to cut.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  skiff::protocol::TryText(absl::MakeConstSpan(data + 1, size - 1), data[0]);
  return 0;
}
