#ifndef SKIFF_TRANSPORT_VERBS_VERBS_ENDPOINT_H_
#define SKIFF_TRANSPORT_VERBS_VERBS_ENDPOINT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "transport/soft_iwarp/first_message_watch.h"
#include "transport/transport.h"
#include "transport/verbs/cm_channel.h"
#include "transport/verbs/queue_pair.h"
#include "transport/verbs/verbs_completion_queue.h"
#include "transport/verbs/verbs_options.h"

namespace skiff::transport {

// A connection: a queue pair, and the connection manager's id. Made before the
// connection is up, by a connector or acceptor that handles the id's events
// until then.
class VerbsEndpoint final : public RdmaEndpoint,
                            private CmHandler,
                            private QueuePairOwner {
 public:
  // With a queue pair that takes receives. Runs options.resources and
  // options.prepare. `id` knows its device.
  static absl::StatusOr<std::unique_ptr<VerbsEndpoint>> Create(
      Reactor* reactor, CmId id, const ConnectOptions& options,
      const VerbsOptions& settings);
  ~VerbsEndpoint() override;

  const Capabilities& capabilities() const override { return capabilities_; }
  MemoryDomain* domain() override { return domain_.get(); }
  // Its device is gone.
  void SetDeviceRemoved() { domain_->SetRemoved(); }
  CompletionQueue* completion_queue() override {
    return completion_queue_.get();
  }
  PostResult PostReceive(OperationId id, absl::Span<const Sge> to) override {
    return queue_pair_->PostReceive(id, to);
  }
  PostResult PostSend(OperationId id, absl::Span<const Sge> from) override {
    return queue_pair_->PostSend(id, from);
  }
  PostResult PostSendWithInvalidate(OperationId id, absl::Span<const Sge> from,
                                    RemoteKey key) override {
    return queue_pair_->PostSendWithInvalidate(id, from, key);
  }
  PostResult PostRead(OperationId id, absl::Span<const Sge> to,
                      RemoteBuffer from) override {
    return queue_pair_->PostRead(id, to, from);
  }
  PostResult PostWrite(OperationId id, absl::Span<const Sge> from,
                       RemoteBuffer to) override {
    return queue_pair_->PostWrite(id, from, to);
  }
  PostResult PostBind(OperationId id, MemoryWindow* window,
                      const MemoryRegion* region, size_t offset, size_t length,
                      Access access) override;
  PostResult PostInvalidate(OperationId id, RemoteKey key) override {
    return queue_pair_->PostInvalidate(id, key);
  }
  void Flush() override { queue_pair_->Flush(); }
  void Disconnect() override;
  bool connected() const override { return state_ == State::kConnected; }
  absl::Status error() const override { return error_; }
  absl::Span<const uint8_t> peer_private_data() const override {
    return peer_private_data_;
  }
  absl::string_view scheme() const override { return "verbs"; }
  std::string local_address() const override { return local_address_; }
  std::string peer_address() const override { return peer_address_; }
  std::string path() const override { return path_; }

  // For whoever connects.
  CmId& id() { return id_; }
  uint32_t queue_pair_number() const { return queue_pair_->number(); }
  // What rdma_connect() and rdma_accept() take. `initiator_depth` and
  // `responder_resources` are the most that the peer allows.
  rdma_conn_param ConnectionParameters(uint32_t initiator_depth,
                                       uint32_t responder_resources) const;
  // Brings the queue pair up with what both sides agreed on.
  absl::Status SetReady(uint32_t initiator_depth, uint32_t responder_resources);
  // Whether the peer was asked and has not answered.
  void SetAwaitsAnswer(bool awaits) { awaits_answer_ = awaits; }
  // The connection stands: takes over the id's events.
  void SetConnected(std::vector<uint8_t> peer_private_data, bool accepted);
  // Ends it.
  void Break(absl::Status why);

 private:
  enum class State : uint8_t { kConnecting, kConnected, kClosed };

  VerbsEndpoint(Reactor* reactor, CmId id, const ConnectOptions& options,
                const VerbsOptions& settings);
  absl::Status Initialize();
  absl::StatusOr<VerbsQueuePair::Queues> ChooseQueues();
  void DescribePath();
  void WatchFirstMessage(bool accepted);
  absl::Status Removed() const;
  void OnCmEvent(const CmEvent& event) override;
  void OnQueuePairError(absl::Status why) override;
  void OnCommunicationEstablished() override;

  Reactor* const reactor_;
  ConnectOptions options_;
  const VerbsOptions settings_;
  CmId id_;
  std::shared_ptr<VerbsDomain> domain_;
  std::shared_ptr<VerbsCompletionQueue> completion_queue_;
  std::shared_ptr<VerbsQueuePair> queue_pair_;
  Capabilities capabilities_;
  State state_ = State::kConnecting;
  bool awaits_answer_ = false;
  bool disconnect_sent_ = false;
  absl::Status error_;
  std::vector<uint8_t> peer_private_data_;
  std::string local_address_;
  std::string peer_address_;
  std::string path_;
  Timer notify_;  // Runs on_disconnect.
  // Of Soft-iWARP only.
  std::unique_ptr<FirstMessageWatch> first_message_;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_VERBS_VERBS_ENDPOINT_H_
