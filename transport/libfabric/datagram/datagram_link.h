#ifndef SKIFF_TRANSPORT_LIBFABRIC_DATAGRAM_DATAGRAM_LINK_H_
#define SKIFF_TRANSPORT_LIBFABRIC_DATAGRAM_DATAGRAM_LINK_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "transport/libfabric/datagram/control_stream.h"
#include "transport/libfabric/datagram/datagram_life.h"
#include "transport/libfabric/datagram/farewell.h"
#include "transport/libfabric/datagram/handshake.h"
#include "transport/libfabric/datagram/probe_exchange.h"
#include "transport/libfabric/datagram/refusal_watch.h"
#include "transport/libfabric/datagram/sleep_watch.h"
#include "transport/libfabric/fabric/fabric_link.h"
#include "transport/libfabric/fabric/queue_pair.h"

namespace skiff::transport {

// A connection of our own making below a queue pair over reliable datagrams
// (FI_EP_RDM): an endpoint and an address vector for this one peer, and a TCP
// connection beside them that says how it begins, how it ends, and that the
// peer still lives. datagram_life.h has its states; here is what is done in
// them.
class DatagramLink final : public FabricLink,
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
  // What the peer has sent, when it says that it posts nothing any more.
  struct PeersRest {
    uint64_t messages = 0;
    absl::Time await_until;
  };

  DatagramLink(FabricQueuePair* queue_pair, Reactor* reactor,
               std::unique_ptr<ControlStream> control);
  absl::Status OpenProbeRegion();

  void OnMessage(const HandshakeMessage& message) override;
  void OnEnd(const absl::Status& why) override;
  void OnAccept(const HandshakeMessage& message);
  void OnPeerLeaving(uint64_t messages);
  void OnFarewell(FarewellStep step);
  void OnCheck();
  void OnChecked(uint64_t served);
  void OnPeerSleeping(uint64_t received);

  bool OnClosing(bool tell_peer) override;
  void OnProbeSent() override;
  void OnProbe(size_t bytes) override;
  void OnSleep() override;
  void OnTurnEnd() override;

  HandshakeMessage Message(HandshakeType type) const;
  HandshakeMessage Opening(HandshakeType type,
                           absl::Span<const uint8_t> private_data) const;
  absl::Status UsePeer(const HandshakeMessage& message);
  void UseMemory(const HandshakeMessage& message);
  void UnwatchProcess();
  void OnFdReady(uint32_t events) override;
  absl::Status AwaitProbe();
  Sge Probe(bool outgoing, size_t length);
  // False if there is no connection then.
  bool TrySendProbe();
  void GoOnProbing();
  void Established();
  void AwaitPeersRest();
  void GoOnLeaving();
  void CloseNow();
  DatagramEvent Closing() const;
  void OnTimer();
  void CheckIfBehind();
  void Check();
  // The peer does not want the connection, or breaks the rules.
  void Refused(const absl::Status& why);
  void Fail(const absl::Status& why);
  const FabricDomain& domain() const { return *queue_pair_->queue()->domain(); }
  const LibfabricOptions& settings() const { return domain().settings(); }
  std::string Name() const { return domain().name(); }

  FabricQueuePair* const queue_pair_;
  Reactor* const reactor_;
  const std::unique_ptr<ControlStream> control_;
  const uint64_t number_;  // Ours of the connection.
  uint64_t peer_number_ = 0;
  DatagramLife life_;
  Outcome outcome_;
  std::vector<uint8_t> address_;
  fid_av* addresses_ = nullptr;  // The queue pair's.
  int process_end_ = -1;         // The queue pair's reader's, while watched.
  // Probes: ours in the first half, the peer's in the second.
  std::vector<uint8_t> probe_memory_;
  std::unique_ptr<MemoryRegion> probe_region_;  // Where the provider needs it.
  std::vector<uint8_t> peer_private_data_;
  ProbeExchange probes_;
  SleepWatch sleep_;
  RefusalWatch refusals_;
  PeersRest rest_;  // While the peer leaves.
  Farewell farewell_;
  Timer timer_;  // Of the state.
  Timer check_timer_;
  Timer wake_timer_;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_DATAGRAM_DATAGRAM_LINK_H_
