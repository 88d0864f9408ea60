#include "tools/library/io_check.h"

#include <cerrno>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "scsi/initiator/command.h"
#include "tools/library/error.h"
#include "tools/library/options.h"

namespace skiff::library {
namespace {

constexpr uint32_t kMaxIov = 1024;

// How many times its length an operation moves; -1: it is none.
int DataFactor(uint32_t op) {
  switch (op) {
    case SKIFF_IO_READ:
    case SKIFF_IO_WRITE:
      return 1;
    case SKIFF_IO_COMPARE_AND_WRITE:
      return 2;
    case SKIFF_IO_FLUSH:
    case SKIFF_IO_UNMAP:
    case SKIFF_IO_WRITE_ZEROES:
      return 0;
    default:
      return -1;
  }
}

// Which flags mean something to it.
uint32_t FlagsOf(uint32_t op) {
  switch (op) {
    case SKIFF_IO_WRITE:
    case SKIFF_IO_COMPARE_AND_WRITE:
      return SKIFF_IO_FUA;
    case SKIFF_IO_WRITE_ZEROES:
      return SKIFF_IO_FUA | SKIFF_IO_MAY_UNMAP;
    default:
      return 0;
  }
}

std::string NameOf(size_t index) {
  return index == 0 ? "skiff_io" : absl::StrCat("skiff_io number ", index);
}

int CheckData(const skiff_io& io, int factor, size_t index) {
  uint64_t bytes = 0;
  if (io.iov_count == 1 && io.iov != nullptr && io.iov->iov_base != nullptr) {
    bytes = io.iov->iov_len;
  } else if (const int error = CheckIov(io.iov, io.iov_count, "iov", &bytes)) {
    return error;
  }
  // Half of the bytes, since twice the length may be too large a number.
  const uint64_t half = factor == 2 ? bytes / 2 : bytes;
  if (half == io.length && (factor != 2 || bytes % 2 == 0)) return 0;
  return Fail(
      EINVAL,
      absl::StrCat("the iovecs of ", NameOf(index), " add up to ", bytes,
                   " bytes, but its length is ", io.length,
                   factor == 2 ? ", of which they have to have two" : ""));
}

// As its operation code says (SPC-4 section 4.2.5.1); 0: any.
uint32_t CdbLength(uint8_t operation_code) {
  switch (operation_code >> 5) {
    case 0:
      return 6;
    case 1:
    case 2:
      return 10;
    case 4:
      return 16;
    case 5:
      return 12;
    default:  // Variable, or the vendor's.
      return 0;
  }
}

}  // namespace

int CheckIov(const iovec* iov, uint32_t count, absl::string_view name,
             uint64_t* bytes) {
  *bytes = 0;
  if (count > kMaxIov) {
    return Fail(EINVAL, absl::StrCat(name, "_count is ", count, ": more than ",
                                     kMaxIov, " iovecs are too many"));
  }
  if (iov == nullptr && count != 0) {
    return Fail(EINVAL, absl::StrCat(name, " is NULL, but ", name, "_count is ",
                                     count));
  }
  for (uint32_t i = 0; i < count; ++i) {
    if (iov[i].iov_base == nullptr && iov[i].iov_len != 0) {
      return Fail(EINVAL, absl::StrCat(name, "[", i, "] has ", iov[i].iov_len,
                                       " bytes at NULL"));
    }
    if (__builtin_add_overflow(*bytes, iov[i].iov_len, bytes)) {
      return Fail(EINVAL, absl::StrCat(name, "[", i, "] has ", iov[i].iov_len,
                                       " bytes, which cannot be"));
    }
  }
  return 0;
}

int ReadIo(const skiff_io* given, size_t index, skiff_io* known) {
  if (given->struct_size == sizeof(*known)) {
    *known = *given;
  } else if (const int error = ReadOptions(given, "skiff_io", known)) {
    return error;
  }
  const int factor = DataFactor(known->op);
  if (factor < 0) {
    return Fail(EINVAL, absl::StrCat("the op of ", NameOf(index), " is ",
                                     known->op, ", which is no skiff_io_op"));
  }
  if (const uint32_t wrong = known->flags & ~FlagsOf(known->op); wrong != 0) {
    return Fail(EINVAL,
                absl::StrCat("the flags of ", NameOf(index), " have 0x",
                             absl::Hex(wrong), ", which means nothing to op ",
                             known->op));
  }
  if (known->offset + known->length < known->offset) {
    return Fail(EINVAL, absl::StrCat(NameOf(index), " has ", known->length,
                                     " bytes from ", known->offset,
                                     " on: no disk has as many"));
  }
  if (known->op == SKIFF_IO_FLUSH && (known->length | known->offset) != 0) {
    return Fail(EINVAL, absl::StrCat(NameOf(index),
                                     " flushes all of the disk: its offset "
                                     "and length have to be 0"));
  }
  if (factor != 0) return CheckData(*known, factor, index);
  if (known->iov_count == 0) return 0;
  return Fail(EINVAL, absl::StrCat(NameOf(index),
                                   " moves no data: its iov_count has to be 0, "
                                   "not ",
                                   known->iov_count));
}

int ReadCommand(const skiff_command* given, skiff_command* known) {
  if (given == nullptr) return Fail(EINVAL, "command is NULL");
  if (const int error = ReadOptions(given, "skiff_command", known)) {
    return error;
  }
  if (const int error =
          CheckFlags(known->flags, SKIFF_COMMAND_ONCE, "skiff_command")) {
    return error;
  }
  if (known->cdb == nullptr) return Fail(EINVAL, "cdb is NULL");
  constexpr uint32_t kMaxCdb = sizeof(scsi::Command().cdb);
  const uint8_t code = *static_cast<const uint8_t*>(known->cdb);
  const uint32_t wanted = CdbLength(code);
  if (known->cdb_length < 6 || known->cdb_length > kMaxCdb ||
      (wanted != 0 && known->cdb_length != wanted)) {
    return Fail(EINVAL,
                absl::StrCat("cdb_length is ", known->cdb_length,
                             ", but a command of operation code 0x",
                             absl::Hex(code, absl::kZeroPad2), " has ",
                             wanted != 0 ? absl::StrCat(wanted)
                                         : absl::StrCat("6 to ", kMaxCdb),
                             " bytes"));
  }
  for (const auto& [iov, count, name] :
       {std::tuple(known->data_out, known->data_out_count, "data_out"),
        std::tuple(known->data_in, known->data_in_count, "data_in")}) {
    uint64_t bytes = 0;
    if (const int error = CheckIov(iov, count, name, &bytes)) return error;
    if (bytes > UINT32_MAX) {
      return Fail(EINVAL, absl::StrCat(name, " has ", bytes,
                                       " bytes: no command moves as many"));
    }
  }
  return 0;
}

}  // namespace skiff::library
