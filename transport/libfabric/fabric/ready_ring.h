#ifndef SKIFF_TRANSPORT_LIBFABRIC_FABRIC_READY_RING_H_
#define SKIFF_TRANSPORT_LIBFABRIC_FABRIC_READY_RING_H_

#include <bit>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/types/span.h"
#include "transport/libfabric/fabric/operation_ring.h"
#include "transport/rdma_endpoint.h"

namespace skiff::transport {

// Operations that are over, for the user of a completion queue to take in
// order: a ring with room for every entry, and a descriptor that tells of them.
// While the user polls, they go to him at once.
class ReadyRing {
 public:
  // At least one.
  explicit ReadyRing(uint32_t entries)
      : mask_(std::bit_ceil(entries) - 1),
        slots_(new OperationSlot*[mask_ + 1]) {}
  ReadyRing(const ReadyRing&) = delete;
  ReadyRing& operator=(const ReadyRing&) = delete;
  ~ReadyRing();

  // Makes the descriptor. False: errno says why.
  bool Open();
  int fd() const { return fd_; }

  bool empty() const { return taken_ == put_; }
  // True: the user has it. False: it stays as it is until it is taken; so does
  // one whose user is gone.
  bool Push(OperationSlot* slot) {
    if (has_direct() && slot->outcome.endpoint != nullptr) {
      Report(slot->outcome);
      return true;
    }
    Put(slot);
    return false;
  }
  // Needs !empty().
  OperationSlot* Take() { return slots_[taken_++ & mask_]; }

  // The user polls: what comes goes there, while there is room and nothing
  // waits.
  void OpenDirect(absl::Span<Completion> out) {
    direct_ = out.data();
    direct_end_ = out.data() + out.size();
  }
  bool has_direct() const { return direct_ != direct_end_; }
  // Needs has_direct().
  void Report(const Completion& outcome) { *direct_++ = outcome; }
  // Returns what is behind the last that came.
  Completion* CloseDirect() {
    direct_end_ = nullptr;
    return std::exchange(direct_, nullptr);
  }

  // The next one makes the descriptor readable. False: there is one.
  bool Arm() {
    armed_ = empty();
    return armed_;
  }
  bool armed() const { return armed_; }
  void Disarm();

 private:
  void Put(OperationSlot* slot);

  const uint32_t mask_;
  const std::unique_ptr<OperationSlot*[]> slots_;
  uint64_t taken_ = 0;
  uint64_t put_ = 0;
  // No room once one is in the ring.
  Completion* direct_ = nullptr;
  Completion* direct_end_ = nullptr;
  int fd_ = -1;
  bool armed_ = false;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_FABRIC_READY_RING_H_
