#ifndef SKIFF_TOOLS_LIBRARY_IO_CHECK_H_
#define SKIFF_TOOLS_LIBRARY_IO_CHECK_H_

#include <skiff/disk.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace skiff::library {

// What can be wrong with I/O before it is given to a disk. Each returns 0, or a
// remembered error that names the mistake.

// One of several: `*known` gets it, with zeroes for what an older caller lacks.
int ReadIo(const skiff_io* given, size_t index, skiff_io* known);
// A command: `*known` gets it.
int ReadCommand(const skiff_command* given, skiff_command* known);
// Iovecs, and what they add up to.
int CheckIov(const iovec* iov, uint32_t count, absl::string_view name,
             uint64_t* bytes);

}  // namespace skiff::library

#endif  // SKIFF_TOOLS_LIBRARY_IO_CHECK_H_
