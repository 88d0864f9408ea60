#ifndef SKIFF_SCSI_IOVEC_CURSOR_H_
#define SKIFF_SCSI_IOVEC_CURSOR_H_

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>

namespace skiff::scsi {

// A position in scattered memory. It refers to the caller's array and copies
// nothing but the bytes it is asked to. Going past the end stops there: every
// method returns how many bytes it covered.
class IovecCursor {
 public:
  IovecCursor(const iovec* iov, int count) : iov_(iov), count_(count) {}

  uint64_t Skip(uint64_t length);
  uint64_t CopyTo(uint8_t* to, uint64_t length);
  uint64_t CopyFrom(const uint8_t* from, uint64_t length);
  // How many leading bytes equal those at `data`; less than `length` means that
  // the next one differs or is missing. Leaves the cursor after the equal ones.
  uint64_t Match(const uint8_t* data, uint64_t length);

  // Describes up to `length` bytes from here with at most `max_count` elements,
  // without moving. Returns the number of elements; `*covered` is their length.
  int Describe(uint64_t length, iovec* out, int max_count,
               uint64_t* covered) const;

 private:
  // The contiguous bytes at the cursor; null at the end.
  uint8_t* Segment(uint64_t* length);
  // Calls visit(segment, done, step) for each contiguous piece of up to
  // `length` bytes, `done` of which came before, and moves by what it returns;
  // stops when that is less than `step`. Returns how far it got.
  template <typename Visit>
  uint64_t Walk(uint64_t length, Visit visit);
  void Advance(uint64_t length) { offset_ += length; }

  const iovec* iov_;
  int count_;
  uint64_t offset_ = 0;  // In iov_[0].
};

// The bytes in `iov`.
uint64_t TotalLength(const iovec* iov, int count);

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_IOVEC_CURSOR_H_
