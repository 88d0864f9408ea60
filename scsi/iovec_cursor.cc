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

uint64_t IovecCursor::Skip(uint64_t length) {
  uint64_t done = 0;
  uint64_t available = 0;
  while (done < length && Segment(&available) != nullptr) {
    const uint64_t step = std::min(available, length - done);
    Advance(step);
    done += step;
  }
  return done;
}

uint64_t IovecCursor::CopyTo(uint8_t* to, uint64_t length) {
  uint64_t done = 0;
  uint64_t available = 0;
  while (done < length) {
    const uint8_t* segment = Segment(&available);
    if (segment == nullptr) break;
    const uint64_t step = std::min(available, length - done);
    std::memcpy(to + done, segment, step);
    Advance(step);
    done += step;
  }
  return done;
}

uint64_t IovecCursor::CopyFrom(const uint8_t* from, uint64_t length) {
  uint64_t done = 0;
  uint64_t available = 0;
  while (done < length) {
    uint8_t* segment = Segment(&available);
    if (segment == nullptr) break;
    const uint64_t step = std::min(available, length - done);
    std::memcpy(segment, from + done, step);
    Advance(step);
    done += step;
  }
  return done;
}

uint64_t IovecCursor::Match(const uint8_t* data, uint64_t length) {
  uint64_t done = 0;
  uint64_t available = 0;
  while (done < length) {
    const uint8_t* segment = Segment(&available);
    if (segment == nullptr) break;
    const uint64_t step = std::min(available, length - done);
    const uint64_t equal = CommonPrefix(segment, data + done, step);
    Advance(equal);
    done += equal;
    if (equal < step) break;
  }
  return done;
}

int IovecCursor::Describe(uint64_t length, iovec* out, int max_count,
                          uint64_t* covered) const {
  IovecCursor at = *this;
  int count = 0;
  uint64_t available = 0;
  *covered = 0;
  while (count < max_count && *covered < length) {
    uint8_t* segment = at.Segment(&available);
    if (segment == nullptr) break;
    const uint64_t step = std::min(available, length - *covered);
    out[count++] = {segment, step};
    *covered += step;
    at.Advance(step);
  }
  return count;
}

uint64_t TotalLength(const iovec* iov, int count) {
  uint64_t total = 0;
  for (int i = 0; i < count; ++i) total += iov[i].iov_len;
  return total;
}

}  // namespace skiff::scsi
