#include "transport/libfabric/fabric/ready_ring.h"

#include <sys/eventfd.h>
#include <unistd.h>

namespace skiff::transport {

ReadyRing::~ReadyRing() {
  if (fd_ >= 0) close(fd_);
}

bool ReadyRing::Open() {
  fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  return fd_ >= 0;
}

void ReadyRing::Put(OperationSlot* slot) {
  slots_[put_++ & mask_] = slot;
  // None may overtake it.
  direct_end_ = direct_;
  if (!std::exchange(armed_, false)) return;
  const uint64_t one = 1;
  // Fails only when the counter is full, and so readable.
  [[maybe_unused]] const ssize_t written = write(fd_, &one, sizeof(one));
}

void ReadyRing::Disarm() {
  armed_ = false;
  uint64_t count = 0;
  // Nothing to read is fine.
  [[maybe_unused]] const ssize_t taken = read(fd_, &count, sizeof(count));
}

}  // namespace skiff::transport
