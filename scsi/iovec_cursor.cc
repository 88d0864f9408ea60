#include "scsi/iovec_cursor.h"

#include <algorithm>
#include <cstring>

namespace skiff::scsi {
namespace {

// The length of the common prefix of two memory areas.
uint64_t CommonPrefix(const uint8_t* a, const uint8_t* b, uint64_t length) {
  if (std::memcmp(a, b, length) == 0) return length;
  return static_cast<uint64_t>(std::mismatch(a, a + length, b).first - a);
}

}  // namespace

uint8_t* IovecCursor::Segment(uint64_t* length) {
  while (count_ > 0 && offset_ >= iov_->iov_len) {
    offset_ -= iov_->iov_len;
    ++iov_;
    --count_;
  }
  if (count_ <= 0) return nullptr;
  *length = iov_->iov_len - offset_;
  return static_cast<uint8_t*>(iov_->iov_base) + offset_;
}

template <typename Visit>
uint64_t IovecCursor::Walk(uint64_t length, Visit visit) {
  uint64_t done = 0;
  uint64_t available = 0;
  while (done < length) {
    uint8_t* segment = Segment(&available);
    if (segment == nullptr) break;
    const uint64_t step = std::min(available, length - done);
    const uint64_t covered = visit(segment, done, step);
    Advance(covered);
    done += covered;
    if (covered < step) break;
  }
  return done;
}

uint64_t IovecCursor::Skip(uint64_t length) {
  return Walk(length, [](uint8_t*, uint64_t, uint64_t step) { return step; });
}

uint64_t IovecCursor::CopyTo(uint8_t* to, uint64_t length) {
  return Walk(length, [to](uint8_t* segment, uint64_t done, uint64_t step) {
    std::memcpy(to + done, segment, step);
    return step;
  });
}

uint64_t IovecCursor::CopyFrom(const uint8_t* from, uint64_t length) {
  return Walk(length, [from](uint8_t* segment, uint64_t done, uint64_t step) {
    std::memcpy(segment, from + done, step);
    return step;
  });
}

uint64_t IovecCursor::Match(const uint8_t* data, uint64_t length) {
  return Walk(length, [data](uint8_t* segment, uint64_t done, uint64_t step) {
    return CommonPrefix(segment, data + done, step);
  });
}

int IovecCursor::Describe(uint64_t length, iovec* out, int max_count,
                          uint64_t* covered) const {
  IovecCursor at = *this;
  int count = 0;
  *covered = at.Walk(length, [&](uint8_t* segment, uint64_t, uint64_t step) {
    if (count == max_count) return uint64_t{0};
    out[count++] = {segment, step};
    return step;
  });
  return count;
}

uint64_t TotalLength(const iovec* iov, int count) {
  uint64_t total = 0;
  for (int i = 0; i < count; ++i) total += iov[i].iov_len;
  return total;
}

}  // namespace skiff::scsi
