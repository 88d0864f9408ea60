#include "tools/library/options.h"

#include <skiff/common.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "tools/library/error.h"

namespace skiff::library {
namespace {

// No struct of this interface will be as long: a size beyond it is none.
constexpr size_t kMaxStruct = 4096;

int ReadSize(const void* given, absl::string_view name, size_t* size) {
  std::memcpy(size, given, sizeof(*size));
  if (*size == 0) {
    return Fail(EINVAL, absl::StrCat("the struct_size of ", name,
                                     " is 0: write SKIFF_INIT() before setting "
                                     "members"));
  }
  if (*size <= sizeof(*size) || *size > kMaxStruct ||
      *size % alignof(uint64_t) != 0) {
    return Fail(EINVAL, absl::StrCat("the struct_size of ", name, " is ", *size,
                                     ": it has to be sizeof(", name, ")"));
  }
  return 0;
}

}  // namespace

int ReadStruct(const void* given, absl::string_view name, void* known,
               size_t size) {
  std::memset(known, 0, size);
  if (given == nullptr) return 0;
  size_t given_size = 0;
  if (const int error = ReadSize(given, name, &given_size)) return error;
  const auto* bytes = static_cast<const uint8_t*>(given);
  for (size_t i = size; i < given_size; ++i) {
    if (bytes[i] == 0) continue;
    return Fail(EINVAL, absl::StrCat(name, " sets a member at byte ", i,
                                     ", which this version of the library (",
                                     skiff_version(), ") does not have"));
  }
  std::memcpy(known, given, std::min(size, given_size));
  return 0;
}

int WriteStruct(void* given, absl::string_view name, const void* known,
                size_t size) {
  if (given == nullptr) {
    return Fail(EINVAL, absl::StrCat("the ", name, " is NULL"));
  }
  size_t given_size = 0;
  if (const int error = ReadSize(given, name, &given_size)) return error;
  std::memset(given, 0, given_size);
  std::memcpy(given, known, std::min(size, given_size));
  std::memcpy(given, &given_size, sizeof(given_size));
  return 0;
}

int CheckFlags(uint32_t flags, uint32_t known, absl::string_view name) {
  if ((flags & ~known) == 0) return 0;
  return Fail(EINVAL, absl::StrCat("the flags of ", name, " have 0x",
                                   absl::Hex(flags & ~known),
                                   ", which means nothing there"));
}

absl::Duration TimeOf(uint32_t milliseconds, absl::Duration otherwise,
                      absl::Duration never) {
  if (milliseconds == 0) return otherwise;
  if (milliseconds == SKIFF_NEVER) return never;
  return absl::Milliseconds(milliseconds);
}

std::string StringOf(const char* given, absl::string_view otherwise) {
  return given != nullptr ? std::string(given) : std::string(otherwise);
}

void CopyText(absl::string_view text, char* out, size_t size) {
  const size_t length = std::min(text.size(), size - 1);
  std::memcpy(out, text.data(), length);
  std::memset(out + length, 0, size - length);
}

}  // namespace skiff::library
