#ifndef SKIFF_TRANSPORT_LIBFABRIC_MESSAGE_MESSAGE_LINK_H_
#define SKIFF_TRANSPORT_LIBFABRIC_MESSAGE_MESSAGE_LINK_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "transport/libfabric/fabric/fabric_event_queue.h"
#include "transport/libfabric/fabric/fabric_link.h"
#include "transport/libfabric/fabric/queue_pair.h"
#include "transport/net/socket_address.h"
#include "transport/soft_iwarp/first_message_watch.h"

namespace skiff::transport {

// A connection of libfabric's own (FI_EP_MSG) below a queue pair.
class MessageLink final : public FabricLink, private FabricEventQueue::Handler {
 public:
  // The peer's private data, or why there is no connection: the peer's refusal
  // has its private data as the payload kRejectPrivateData.
  using Outcome =
      absl::AnyInvocable<void(absl::StatusOr<std::vector<uint8_t>>)>;

  // Gives `queue_pair` an endpoint for `info`. The link is the queue pair's.
  // `opened`: see MakeConnectable().
  static absl::StatusOr<MessageLink*> Open(FabricQueuePair* queue_pair,
                                           const fi_info& info,
                                           Reactor* reactor, bool* opened);

  ~MessageLink() override;

  // Starts to connect, or accepts. `outcome` runs once, unless the queue pair
  // is broken first.
  absl::Status Connect(const void* address,
                       absl::Span<const uint8_t> private_data, Outcome outcome);
  absl::Status Accept(absl::Span<const uint8_t> private_data, Outcome outcome);

  std::string LocalAddress() const { return ToText(Local()); }
  std::string PeerAddress() const { return ToText(Peer()); }

 private:
  MessageLink(FabricQueuePair* queue_pair,
              std::shared_ptr<FabricEventQueue> events, InfoPtr info,
              Reactor* reactor);

  void OnEvent(uint32_t event, InfoPtr info,
               absl::Span<const uint8_t> data) override;
  void OnError(int error, const std::string& text,
               absl::Span<const uint8_t> data) override;
  bool OnClosing(bool tell_peer) override;
  // Closes the endpoint on a thread for that; true if it was quick.
  bool CloseElsewhere();
  void OnTimer();
  void WatchFirstMessage();
  SocketAddress Local() const;
  SocketAddress Peer() const;
  std::string ToText(const SocketAddress& address) const;
  const LibfabricOptions& settings() const {
    return queue_pair_->queue()->domain()->settings();
  }
  std::string Name() const { return queue_pair_->queue()->domain()->name(); }

  FabricQueuePair* const queue_pair_;
  const std::shared_ptr<FabricEventQueue> events_;
  // The sockets provider points into the info of its endpoint.
  const InfoPtr info_;
  Outcome outcome_;
  bool established_ = false;
  bool connecting_ = false;
  bool accepting_ = false;
  // Closes the endpoint, if that may take long.
  std::thread closer_;
  std::atomic<bool> closing_{false};
  std::atomic<bool> closed_{false};
  Timer timer_;
  // Of Soft-iWARP only.
  std::unique_ptr<FirstMessageWatch> first_message_;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_MESSAGE_MESSAGE_LINK_H_
