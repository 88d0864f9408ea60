#ifndef SKIFF_TRANSPORT_LIBFABRIC_QUEUE_PAIR_H_
#define SKIFF_TRANSPORT_LIBFABRIC_QUEUE_PAIR_H_

#include <rdma/fi_endpoint.h>
#include <sys/uio.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "transport/backend.h"
#include "transport/libfabric/fabric_completion_queue.h"
#include "transport/libfabric/fabric_domain.h"
#include "transport/libfabric/fabric_info.h"
#include "transport/libfabric/fid.h"
#include "transport/libfabric/operation_ring.h"
#include "transport/rdma_endpoint.h"

namespace skiff::transport {

// An endpoint of libfabric with the table of its operations. It belongs to its
// completion queue, because it outlives its user until the last completion was
// polled.
//
// Providers differ in what they report when a connection ends: all operations,
// some, or none. So the end is the same for all of them: what the provider has
// is read, the endpoint is closed, after which it neither touches a buffer nor
// reports anything, what it reported on closing is read, and every operation
// that still has no outcome is flushed here.
class FabricQueuePair {
 public:
  // What binds the queue pair to a peer: a connection manager's.
  class Link {
   public:
    virtual ~Link() = default;
    // The queue pair is about to close its endpoint; `tell_peer` unless the
    // peer ended the connection.
    virtual void OnClosing(bool tell_peer) = 0;
  };

  // An error if the device has less than `options` asks for.
  static absl::Status CheckLimits(const FabricDomain& domain,
                                  const ConnectOptions& options);
  // The options have passed CheckLimits().
  static absl::StatusOr<FabricQueuePair*> Create(FabricCompletionQueue* queue,
                                                 const ConnectOptions& options);
  ~FabricQueuePair();
  FabricQueuePair(const FabricQueuePair&) = delete;
  FabricQueuePair& operator=(const FabricQueuePair&) = delete;

  // `info` with its queues as long as this queue pair's.
  void Adjust(fi_info* info) const;
  // Takes the endpoint over, bound and enabled.
  void SetEndpoint(Fid<fid_ep> endpoint, std::unique_ptr<Link> link);
  fid_ep* handle() const { return endpoint_.get(); }
  // Where operations go; connected endpoints have none.
  void set_peer(fi_addr_t peer) { peer_ = peer; }
  void set_user(RdmaEndpoint* user) { user_ = user; }
  void set_on_disconnect(std::function<void(RdmaEndpoint&)> on_disconnect) {
    on_disconnect_ = std::move(on_disconnect);
  }
  void Connected() { connected_ = true; }
  bool connected() const { return connected_; }
  const absl::Status& error() const { return error_; }
  const Capabilities& capabilities() const { return capabilities_; }
  FabricCompletionQueue* queue() const { return queue_; }
  uint32_t entries() const {
    return requests_.capacity() + receives_.capacity();
  }

  PostResult PostReceive(OperationId id, absl::Span<const Sge> to);
  PostResult PostRequest(OperationKind kind, OperationId id,
                         absl::Span<const Sge> sges, RemoteBuffer remote);

  // Ends it: see the class. Not from inside a post or FabricCompletionQueue::
  // Drain().
  void Break(const absl::Status& why, bool tell_peer);
  // Ends it once nothing is on the stack.
  void BreakSoon(const absl::Status& why);
  // The user lets go.
  void Detach();

  // For the completion queue.
  RdmaEndpoint* user() const { return user_; }
  void Completed(OperationSlot* slot, size_t bytes);
  void Failed(OperationSlot* slot, int error, int provider_error,
              const std::string& text);
  void Polled(OperationKind kind);
  bool unpolled() const { return requests_.used() + receives_.used() != 0; }
  bool has_requests() const { return requests_.outstanding() != 0; }
  bool without_receives() const {
    return connected_ && receives_.outstanding() == 0;
  }
  bool holding() const { return requests_.holding(); }
  bool SetInService() { return !std::exchange(in_service_, true); }
  bool in_service() const { return in_service_; }
  void Service();
  void FinishService();

 private:
  static constexpr size_t kMaxSges = kMaxFabricSges;
  // An operation in the form that the provider wants.
  struct Work {
    iovec pieces[kMaxSges];
    void* descriptors[kMaxSges];
    size_t count = 0;
    size_t length = 0;
    RemoteBuffer remote;
    bool is_inline = false;
    bool undescribed = false;  // Some pieces have no descriptor.
  };

  FabricQueuePair(FabricCompletionQueue* queue,
                  const Capabilities& capabilities);

  // False if the operation is wrong.
  bool Prepare(OperationKind kind, absl::Span<const Sge> sges, Work* work);
  bool AddPieces(absl::Span<const Sge> sges, bool local_write, Work* work);
  ssize_t Issue(OperationSlot* slot, const Work& work);
  void Hold(OperationSlot* slot, const Work& work);
  void IssueHeld();
  // A SEND has to wait for the WRITEs before it.
  bool Fenced(OperationKind kind) const;
  void Outcome(OperationSlot* slot, CompletionStatus status, int32_t code);
  void NotIssued(OperationSlot* slot, ssize_t result);
  void Retire(OperationRing* ring);
  void FlushRing(OperationRing* ring);

  FabricCompletionQueue* const queue_;
  const std::shared_ptr<FabricDomain> domain_;
  Capabilities capabilities_;
  Fid<fid_ep> endpoint_;
  std::unique_ptr<Link> link_;
  fi_addr_t peer_ = FI_ADDR_UNSPEC;
  RdmaEndpoint* user_ = nullptr;
  std::function<void(RdmaEndpoint&)> on_disconnect_;
  OperationRing requests_;
  OperationRing receives_;
  uint32_t reads_ = 0;   // READs taken and not yet polled.
  uint32_t writes_ = 0;  // WRITEs that the provider has.
  // Room for held operations, by the index of their slots; empty until one is.
  std::vector<Work> held_;
  std::vector<uint8_t> held_inline_;
  bool connected_ = false;
  bool stopped_ = false;  // A request was wrong: nothing goes out behind it.
  bool closed_ = false;
  bool in_service_ = false;
  bool disconnect_due_ = false;  // on_disconnect_ has to run.
  absl::Status error_;
  absl::Status break_reason_;  // Not OK: Break() is due.
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_QUEUE_PAIR_H_
