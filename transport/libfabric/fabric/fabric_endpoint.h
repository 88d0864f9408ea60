#ifndef SKIFF_TRANSPORT_LIBFABRIC_FABRIC_FABRIC_ENDPOINT_H_
#define SKIFF_TRANSPORT_LIBFABRIC_FABRIC_FABRIC_ENDPOINT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "transport/libfabric/fabric/fabric_completion_queue.h"
#include "transport/libfabric/fabric/queue_pair.h"
#include "transport/rdma_endpoint.h"

namespace skiff::transport {

// A queue pair in its user's hands.
class FabricEndpoint final : public RdmaEndpoint {
 public:
  FabricEndpoint(std::shared_ptr<FabricCompletionQueue> queue,
                 FabricQueuePair* queue_pair)
      : queue_(std::move(queue)), queue_pair_(queue_pair) {
    queue_pair_->set_user(this);
  }
  ~FabricEndpoint() override { queue_pair_->Detach(); }

  FabricQueuePair* queue_pair() const { return queue_pair_; }
  void SetPeer(std::string local_address, std::string peer_address,
               std::vector<uint8_t> private_data) {
    local_address_ = std::move(local_address);
    peer_address_ = std::move(peer_address);
    peer_private_data_ = std::move(private_data);
  }

  const Capabilities& capabilities() const override {
    return queue_pair_->capabilities();
  }
  MemoryDomain* domain() override { return queue_->domain().get(); }
  CompletionQueue* completion_queue() override { return queue_.get(); }

  PostResult PostReceive(OperationId id, absl::Span<const Sge> to) override {
    return queue_pair_->PostReceive(id, to);
  }
  PostResult PostSend(OperationId id, absl::Span<const Sge> from) override {
    return queue_pair_->PostSend(id, from);
  }
  // libfabric 1.17 has no such operation, and the capability says so.
  PostResult PostSendWithInvalidate(OperationId /*id*/,
                                    absl::Span<const Sge> /*from*/,
                                    RemoteKey /*key*/) override {
    return PostResult::kClosed;
  }
  PostResult PostRead(OperationId id, absl::Span<const Sge> to,
                      RemoteBuffer from) override {
    return queue_pair_->PostRead(id, to, from);
  }
  PostResult PostWrite(OperationId id, absl::Span<const Sge> from,
                       RemoteBuffer to) override {
    return queue_pair_->PostWrite(id, from, to);
  }
  void Flush() override {}

  void Disconnect() override {
    queue_pair_->Break(absl::CancelledError("this side ended the connection"),
                       /*tell_peer=*/true);
  }
  bool connected() const override { return queue_pair_->connected(); }
  absl::Status error() const override { return queue_pair_->error(); }
  absl::Span<const uint8_t> peer_private_data() const override {
    return peer_private_data_;
  }
  std::string path() const override {
    return absl::StrCat(
        queue_->domain()->name(),
        queue_pair_->reads_here() ? ", READs by process_vm_readv(2)" : "",
        queue_pair_->why_no_reader().ok() ? "" : ", ", slow_reads());
  }
  std::string slow_reads() const override {
    const absl::Status& why = queue_pair_->why_no_reader();
    if (why.ok()) return {};
    return absl::StrCat("READs go through the provider, which copies twice: ",
                        why.message());
  }
  absl::string_view scheme() const override { return "libfabric"; }
  std::string local_address() const override { return local_address_; }
  std::string peer_address() const override { return peer_address_; }

 private:
  const std::shared_ptr<FabricCompletionQueue> queue_;
  FabricQueuePair* const queue_pair_;
  std::string local_address_;
  std::string peer_address_;
  std::vector<uint8_t> peer_private_data_;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_FABRIC_FABRIC_ENDPOINT_H_
