#ifndef SKIFF_TOOLS_LIBRARY_OPTIONS_H_
#define SKIFF_TOOLS_LIBRARY_OPTIONS_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace skiff::library {

// What is common to structs that begin with their size: reads one of `given`,
// which may be NULL, into `known`, of `size` bytes. 0, or a remembered error.
int ReadStruct(const void* given, absl::string_view name, void* known,
               size_t size);
// Writes to a caller's struct what it has room for. 0, or a remembered error.
int WriteStruct(void* given, absl::string_view name, const void* known,
                size_t size);

// Reads a struct of options. One of an older caller is shorter: what it lacks
// is zero. One of a newer caller is longer: what is not known here must be
// zero. NULL: all is zero.
template <typename T>
int ReadOptions(const T* given, absl::string_view name, T* known) {
  return ReadStruct(given, name, known, sizeof(T));
}
// Gives a caller a struct of results, as long as he knows it.
template <typename T>
int WriteResult(T* given, absl::string_view name, const T& known) {
  return WriteStruct(given, name, &known, sizeof(T));
}

// 0 where `flags` has none but `known`; else a remembered error.
int CheckFlags(uint32_t flags, uint32_t known, absl::string_view name);

// A time of an option: 0 is the default, SKIFF_NEVER is `never`.
absl::Duration TimeOf(uint32_t milliseconds, absl::Duration otherwise,
                      absl::Duration never);

// A string of an option: NULL is the default.
std::string StringOf(const char* given, absl::string_view otherwise);

// Into an array of a struct of results: cut to what it holds.
void CopyText(absl::string_view text, char* out, size_t size);
template <size_t kSize>
void CopyText(absl::string_view text, char (&out)[kSize]) {
  CopyText(text, out, kSize);
}

}  // namespace skiff::library

#endif  // SKIFF_TOOLS_LIBRARY_OPTIONS_H_
