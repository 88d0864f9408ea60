#ifndef SKIFF_TRANSPORT_LIBFABRIC_DATAGRAM_DATAGRAM_LINK_H_
#define SKIFF_TRANSPORT_LIBFABRIC_DATAGRAM_DATAGRAM_LINK_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "transport/libfabric/datagram/control_stream.h"
#include "transport/libfabric/datagram/handshake.h"
#include "transport/libfabric/fabric/queue_pair.h"

namespace skiff::transport {

// The machine since its last boot; zeros if it does not say.
std::array<uint8_t, 16> ThisHost();

// A connection of our own making below a queue pair over reliable datagrams
// (FI_EP_RDM): an endpoint and an address vector for this one peer, and a TCP
// connection beside them that says how it begins, how it ends, and that the
// peer still lives.
class DatagramLink final : public FabricQueuePair::Link,
                           private ControlStream::Handler,
                           private FdHandler {
 public:
  // The peer's private data, or why there is no connection: the peer's refusal
  // has its private data as the payload kRejectPrivateData.
  using Outcome =
      absl::AnyInvocable<void(absl::StatusOr<std::vector<uint8_t>>)>;

  // Gives `queue_pair` an endpoint for `info`. The link is the queue pair's.
  static absl::StatusOr<DatagramLink*> Open(
      FabricQueuePair* queue_pair, const fi_info& info, Reactor* reactor,
      std::unique_ptr<ControlStream> control);
  ~DatagramLink() override { UnwatchProcess(); }

  // Starts to connect, or accepts. `outcome` runs once, unless the queue pair
  // is broken first.
  absl::Status Connect(absl::Span<const uint8_t> private_data, Outcome outcome);
  absl::Status Accept(const HandshakeMessage& request,
                      absl::Span<const uint8_t> private_data, Outcome outcome);

  std::string LocalAddress() const { return control_->local_address(); }
  std::string PeerAddress() const { return control_->peer_address(); }

 private:
  enum class State : uint8_t {
    kIdle,
    kConnecting,   // Waits for kAccept.
    kProbing,      // Waits for the peer's probe.
    kEstablished,  // From now on the queue pair closes step by step.
    kLeaving,      // Has sent kDisconnect.
    kEnded,        // The endpoint is closed, or about to be.
  };

  DatagramLink(FabricQueuePair* queue_pair, Reactor* reactor,
               std::unique_ptr<ControlStream> control);
  absl::StatusOr<FabricQueuePair::DatagramObjects> OpenObjects(
      const fi_info& info);

  void OnMessage(const HandshakeMessage& message) override;
  void OnEnd(const absl::Status& why) override;
  void OnAccept(const HandshakeMessage& message);
  void OnReject(const HandshakeMessage& message);
  void OnPeerLeaving(uint64_t messages);
  void Leave();
  void OnChecked(uint64_t served);

  bool OnClosing(bool tell_peer) override;
  void OnProbeSent() override;
  void OnProbe(size_t bytes) override;
  void OnSleep() override;
  void OnTurnEnd() override;
  void OnPeerSleeping(uint64_t received);

  HandshakeMessage Message(HandshakeType type) const;
  HandshakeMessage Opening(HandshakeType type,
                           absl::Span<const uint8_t> private_data) const;
  absl::Status CheckPeer(const HandshakeMessage& message) const;
  absl::Status UsePeer(const HandshakeMessage& message);
  void UseMemory(const HandshakeMessage& message);
  void UnwatchProcess();
  void OnFdReady(uint32_t events) override;
  absl::Status AwaitProbe();
  Sge Probe(bool outgoing, size_t length);
  // False if there is no connection then.
  bool TrySendProbe();
  void Established();
  void CloseNow();
  void FinishPeerLeaving();
  bool ClosesInSteps() const;
  void OnTimer();
  void Check();
  void Fail(absl::Status why);
  const LibfabricOptions& settings() const {
    return queue_pair_->queue()->domain()->settings();
  }
  std::string Name() const { return queue_pair_->queue()->domain()->name(); }

  FabricQueuePair* const queue_pair_;
  Reactor* const reactor_;
  const std::unique_ptr<ControlStream> control_;
  const uint64_t number_;  // Ours of the connection.
  uint64_t peer_number_ = 0;
  State state_ = State::kIdle;
  bool accepts_ = false;
  Outcome outcome_;
  std::vector<uint8_t> address_;
  fid_av* addresses_ = nullptr;  // The queue pair's.
  int process_end_ = -1;         // The queue pair's reader's, while watched.
  // Probes: ours in the first half, the peer's in the second.
  std::vector<uint8_t> probes_;
  std::unique_ptr<MemoryRegion> probe_region_;  // Where the provider needs it.
  size_t probe_length_ = 0;
  std::vector<uint8_t> peer_private_data_;

  bool probe_due_ = false;
  bool probe_sent_ = false;
  bool probe_received_ = false;

  // How far the end has come on either side.
  bool peer_left_ = false;
  bool peer_disconnected_ = false;
  bool peer_quiet_ = false;
  bool disconnected_sent_ = false;
  bool quiet_sent_ = false;
  bool peer_leaving_ = false;  // Waits for the rest of its messages.
  uint64_t peer_messages_ = 0;
  absl::Time leave_by_;

  bool asleep_ = false;       // The peer has been told.
  bool peer_asleep_ = false;  // It is woken at the next post.
  // When it fell asleep last.
  uint64_t posted_ = 0;    // One-sided operations.
  uint64_t messages_ = 0;  // Sent by us and received by it.

  uint64_t checked_ = 0;  // One-sided operations known to have been served.
  uint64_t asked_ = 0;    // Those under way when the peer was asked last.
  bool lagging_ = false;  // The last answer had missed some.
  Timer timer_;
  Timer check_timer_;
  Timer wake_timer_;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_DATAGRAM_DATAGRAM_LINK_H_
