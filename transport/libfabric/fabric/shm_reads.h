#ifndef SKIFF_TRANSPORT_LIBFABRIC_FABRIC_SHM_READS_H_
#define SKIFF_TRANSPORT_LIBFABRIC_FABRIC_SHM_READS_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "transport/libfabric/fabric/fabric_work.h"
#include "transport/libfabric/fabric/operation_ring.h"
#include "transport/libfabric/shm/shm_regions.h"

namespace skiff::transport {

// The fast path of shared memory: READs that this end does itself, and the
// provider does not. Each takes processor time, so there is an allowance of
// bytes between two looks at the queue. READs beyond it are due: they wait in a
// ring, in posting order, for the next look.
class ShmReads {
 public:
  // `allowance`: at least one READ is done for each look. The ring has room for
  // `indices` READs, which is a power of two, and none before one is due.
  ShmReads(uint64_t allowance, uint32_t indices)
      : full_allowance_(std::max<uint64_t>(1, allowance)),
        indices_(indices),
        allowance_(full_allowance_) {}

  // What can read the peer's memory without the provider, or why nothing can.
  void SetReader(absl::StatusOr<std::unique_ptr<ShmReader>> reader) {
    why_no_reader_ = reader.status();
    if (reader.ok()) reader_ = *std::move(reader);
  }
  bool available() const { return reader_ != nullptr; }
  // OK also where only the provider could.
  const absl::Status& why_no_reader() const { return why_no_reader_; }

  void RenewAllowance() { allowance_ = full_allowance_; }
  bool has_allowance() const { return allowance_ > 0; }
  // Needs available(). False: it is the provider's to do.
  bool Read(const FabricPieces& to, const RemoteBuffer& from) {
    if (!reader_->Read({to.iovecs, to.count}, to.length, from)) return false;
    allowance_ -= std::min<uint64_t>(allowance_, to.length);
    return true;
  }

  bool has_due() const { return taken_ != put_; }
  void PutDue(OperationSlot* slot) {
    due_.resize(indices_);
    due_[put_++ & (indices_ - 1)] = slot;
  }
  // Needs has_due().
  OperationSlot* OldestDue() const { return due_[taken_ & (indices_ - 1)]; }
  void DueDone() { ++taken_; }
  void DropDue() { taken_ = put_; }
  // How many were due and are done, ever.
  uint64_t due_done() const { return taken_; }
  // The provider, which has to do the next, was busy.
  bool refused() const { return refused_; }
  void SetRefused(bool refused) { refused_ = refused; }

 private:
  const uint64_t full_allowance_;
  const uint32_t indices_;
  std::unique_ptr<ShmReader> reader_;
  absl::Status why_no_reader_;
  uint64_t allowance_;
  std::vector<OperationSlot*> due_;
  uint64_t taken_ = 0;
  uint64_t put_ = 0;
  bool refused_ = false;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_FABRIC_SHM_READS_H_
