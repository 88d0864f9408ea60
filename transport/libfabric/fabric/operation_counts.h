#ifndef SKIFF_TRANSPORT_LIBFABRIC_FABRIC_OPERATION_COUNTS_H_
#define SKIFF_TRANSPORT_LIBFABRIC_FABRIC_OPERATION_COUNTS_H_

#include <cstddef>
#include <cstdint>

#include "transport/libfabric/fabric/operation_ring.h"

namespace skiff::transport {

// How many operations of each kind the provider has, and had, where somebody
// asks: what has to wait for others before it, a READ that must not overtake a
// WRITE, and the peer.
class OperationCounts {
 public:
  // What there is to count for.
  struct Needs {
    bool peer = false;  // It asks, or a READ can come before the provider's.
    // See FabricDomain.
    bool send_passes_write = false;
    bool completes_before_reads = false;
    // A WRITE of up to so many bytes completes when the peer has been sent it.
    size_t eager_message_bytes = SIZE_MAX;
  };

  explicit OperationCounts(const Needs& needs)
      : needs_(needs),
        wanted_(needs.peer || needs.send_passes_write ||
                needs.completes_before_reads) {}

  // Somebody asks. Else nobody needs to call what counts.
  bool wanted() const { return wanted_; }

  // An operation has to wait for others before it, which the provider has.
  bool Fenced(OperationKind kind) const {
    if (kind == OperationKind::kSend && writes_ != 0 &&
        needs_.send_passes_write) {
      return true;
    }
    return kind != OperationKind::kRead && reads_ != 0 &&
           needs_.completes_before_reads;
  }
  // The peer may not have served all WRITEs yet: a READ that is not the
  // provider's must not come before them.
  bool unserved_writes() const { return unserved_writes_; }

  // The provider took a READ or WRITE of so many bytes.
  void Issued(const OperationSlot& slot, size_t length);
  // A request succeeded.
  void Done(const OperationSlot& slot);
  // A request has failed.
  void Failed(OperationKind kind);
  // A READ that is no user's.
  void NothingIssued() { ++reads_; }
  void NothingDone() { --reads_; }
  // A message came.
  void Received() { ++received_; }

  // Messages that were sent and received with success; of unconnected
  // endpoints.
  uint64_t sent() const { return sent_; }
  uint64_t received() const { return received_; }
  // READs and WRITEs that the provider took, ever.
  uint64_t one_sided() const { return one_sided_; }

 private:
  const Needs needs_;
  const bool wanted_;
  uint32_t writes_ = 0;  // That the provider has.
  uint32_t reads_ = 0;
  bool unserved_writes_ = false;
  // When this operation completes, the peer has served all WRITEs.
  const OperationSlot* serves_writes_ = nullptr;
  uint64_t sent_ = 0;
  uint64_t received_ = 0;
  uint64_t one_sided_ = 0;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_FABRIC_OPERATION_COUNTS_H_
