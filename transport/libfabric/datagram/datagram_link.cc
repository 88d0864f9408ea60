#include "transport/libfabric/datagram/datagram_link.h"

#include <rdma/fi_errno.h>
#include <sys/epoll.h>

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/libfabric/datagram/datagram_objects.h"
#include "transport/libfabric/datagram/greeting.h"
#include "transport/libfabric/fabric/fabric_error.h"
#include "transport/libfabric/shm/shm_peer.h"

namespace skiff::transport {
namespace {

// Tells probes from messages; connection numbers leave it alone.
constexpr uint64_t kProbeBit = uint64_t{1} << 62;

uint64_t NewNumber() {
  std::random_device random;
  uint64_t number = 0;
  while (number == 0) {
    number = ((uint64_t{random()} << 32) | random()) & (kProbeBit - 1);
  }
  return number;
}

DatagramTags TagsOf(uint64_t number) { return {number, number | kProbeBit}; }

HandshakeType TypeOf(FarewellStep step) {
  switch (step) {
    case FarewellStep::kDisconnected:
      return HandshakeType::kDisconnected;
    case FarewellStep::kQuiet:
      return HandshakeType::kQuiet;
    default:
      return HandshakeType::kDisconnect;
  }
}

}  // namespace

DatagramLink::DatagramLink(FabricQueuePair* queue_pair, Reactor* reactor,
                           std::unique_ptr<ControlStream> control)
    : queue_pair_(queue_pair),
      reactor_(reactor),
      control_(std::move(control)),
      number_(NewNumber()),
      probe_memory_(2 * kMaxHandshakeBytes),
      timer_(reactor, [this] { OnTimer(); }),
      check_timer_(reactor, [this] { Check(); }),
      wake_timer_(reactor,
                  [this] { control_->Send(Message(HandshakeType::kWake)); }) {}

absl::StatusOr<DatagramLink*> DatagramLink::Open(
    FabricQueuePair* queue_pair, const fi_info& info, Reactor* reactor,
    std::unique_ptr<ControlStream> control) {
  std::unique_ptr<DatagramLink> link(
      new DatagramLink(queue_pair, reactor, std::move(control)));
  DatagramLink* out = link.get();
  const absl::Status status = link->OpenProbeRegion();
  if (!status.ok()) return status;
  auto opened = OpenDatagrams(queue_pair, info);
  if (!opened.ok()) return opened.status();
  out->address_ = std::move(opened->address);
  out->addresses_ = opened->objects.addresses.get();
  queue_pair->SetDatagramEndpoint(TagsOf(out->number_),
                                  std::move(opened->objects), std::move(link));
  return out;
}

absl::Status DatagramLink::OpenProbeRegion() {
  FabricDomain& domain = *queue_pair_->queue()->domain();
  if (!domain.needs_descriptors()) return absl::OkStatus();
  auto region = domain.Register(probe_memory_.data(), probe_memory_.size(),
                                Access::kLocal);
  if (!region.ok()) return region.status();
  probe_region_ = *std::move(region);
  return absl::OkStatus();
}

HandshakeMessage DatagramLink::Message(HandshakeType type) const {
  HandshakeMessage message;
  message.type = type;
  message.to = peer_number_;
  message.from = number_;
  return message;
}

HandshakeMessage DatagramLink::Opening(
    HandshakeType type, absl::Span<const uint8_t> private_data) const {
  HandshakeMessage message = Message(type);
  Introduce(domain(), address_, &message);
  message.private_data.assign(private_data.begin(), private_data.end());
  return message;
}

absl::Status DatagramLink::Connect(absl::Span<const uint8_t> private_data,
                                   Outcome outcome) {
  outcome_ = std::move(outcome);
  life_.Apply(DatagramEvent::kConnect);
  absl::Status status = AwaitProbe();
  if (!status.ok()) return status;
  control_->Send(Opening(HandshakeType::kConnect, private_data));
  control_->SetHandler(this);
  return absl::OkStatus();
}

absl::Status DatagramLink::Accept(const HandshakeMessage& request,
                                  absl::Span<const uint8_t> private_data,
                                  Outcome outcome) {
  probes_.Accepts();
  absl::Status status = AwaitProbe();
  status.Update(UsePeer(request));
  if (!status.ok()) return status;
  outcome_ = std::move(outcome);
  life_.Apply(DatagramEvent::kAccept);
  queue_pair_->Probing();
  control_->Send(Opening(HandshakeType::kAccept, private_data));
  control_->SetHandler(this);
  return absl::OkStatus();
}

absl::Status DatagramLink::AwaitProbe() {
  const ssize_t result =
      queue_pair_->ReceiveProbe(Probe(/*outgoing=*/false, kMaxHandshakeBytes));
  if (result == 0) return absl::OkStatus();
  return FabricStatus(result, absl::StrCat(Name(), ": fi_trecvmsg"));
}

absl::Status DatagramLink::UsePeer(const HandshakeMessage& message) {
  if (absl::Status status = CheckGreeting(domain(), message); !status.ok()) {
    return status;
  }
  // Providers take names to end in 0, and sockets' addresses to be as long as
  // ours.
  std::vector<uint8_t> address = message.address;
  address.resize(std::max(address.size(), address_.size()) + 1);
  fi_addr_t peer = FI_ADDR_UNSPEC;
  const int inserted =
      fi_av_insert(addresses_, address.data(), 1, &peer, 0, nullptr);
  if (inserted != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(Name(), ": the peer's address in the fabric is not one"));
  }
  if (ShmPresence* presence = queue_pair_->presence()) {
    presence->set_peer(ShmName(message.address));
    UseMemory(message);
  }
  peer_number_ = message.from;
  peer_private_data_ = message.private_data;
  queue_pair_->SetPeer(peer, TagsOf(peer_number_));
  return absl::OkStatus();
}

void DatagramLink::UseMemory(const HandshakeMessage& message) {
  auto reader =
      ShmReader::Open(ShmProcess(message.address), message.region_list);
  if (reader.ok()) {
    const int end = (*reader)->process_end();
    absl::Status status = reactor_->WatchFd(end, EPOLLIN, this);
    if (status.ok()) {
      process_end_ = end;
    } else {
      reader = std::move(status);
    }
  }
  queue_pair_->SetReader(std::move(reader));
}

void DatagramLink::UnwatchProcess() {
  if (process_end_ >= 0) reactor_->UnwatchFd(std::exchange(process_end_, -1));
}

// The TCP connection does not show it where a fork of the process has that,
// too.
void DatagramLink::OnFdReady(uint32_t /*events*/) {
  UnwatchProcess();
  OnEnd(absl::UnavailableError("the peer's process ended"));
}

void DatagramLink::OnMessage(const HandshakeMessage& message) {
  if (message.to != number_ ||
      (peer_number_ != 0 && message.from != peer_number_)) {
    Refused(absl::InvalidArgumentError(
        absl::StrCat(Name(), ": the peer spoke of another connection")));
    return;
  }
  switch (message.type) {
    case HandshakeType::kAccept:
      OnAccept(message);
      break;
    case HandshakeType::kReject:
      Refused(WhyRejected(domain(), message));
      break;
    case HandshakeType::kDisconnect:
      OnPeerLeaving(message.count);
      break;
    case HandshakeType::kDisconnected:
      OnFarewell(FarewellStep::kDisconnected);
      break;
    case HandshakeType::kQuiet:
      OnFarewell(FarewellStep::kQuiet);
      break;
    case HandshakeType::kCheck:
      OnCheck();
      break;
    case HandshakeType::kChecked:
      OnChecked(message.count);
      break;
    case HandshakeType::kSleeping:
      OnPeerSleeping(message.count);
      break;
    case HandshakeType::kWake:
      sleep_.Woken();
      queue_pair_->queue()->Wake();
      break;
    case HandshakeType::kConnect:
    case HandshakeType::kProbe:
      Refused(absl::InvalidArgumentError(
          absl::StrCat(Name(), ": the peer broke the handshake")));
      break;
  }
}

void DatagramLink::OnAccept(const HandshakeMessage& message) {
  const DatagramAction action = life_.Apply(DatagramEvent::kAnswered);
  if (action == DatagramAction::kFail) {
    Fail(absl::InvalidArgumentError(
        absl::StrCat(Name(), ": the peer accepted twice")));
  }
  if (action != DatagramAction::kProbe) return;
  const absl::Status status = UsePeer(message);
  if (!status.ok()) {
    Fail(status);
    return;
  }
  queue_pair_->Probing();
  TrySendProbe();
}

Sge DatagramLink::Probe(bool outgoing, size_t length) {
  return {&probe_memory_[outgoing ? 0 : kMaxHandshakeBytes], length,
          probe_region_.get()};
}

bool DatagramLink::TrySendProbe() {
  const auto bytes = EncodeHandshake(Message(HandshakeType::kProbe));
  std::copy(bytes.begin(), bytes.end(), probe_memory_.begin());
  const ssize_t result =
      queue_pair_->SendProbe(Probe(/*outgoing=*/true, bytes.size()));
  if (result != 0 && result != -FI_EAGAIN) {
    Fail(FabricStatus(result, absl::StrCat(Name(), ": fi_tsendmsg")));
    return false;
  }
  probes_.Tried(/*taken=*/result == 0);
  if (probes_.refused()) timer_.ScheduleAfter(settings().retry_interval);
  return true;
}

void DatagramLink::OnProbeSent() {
  probes_.Sent();
  queue_pair_->ServeLink();
}

void DatagramLink::OnProbe(size_t bytes) {
  const auto message = DecodeHandshake({&probe_memory_[kMaxHandshakeBytes],
                                        std::min(bytes, kMaxHandshakeBytes)});
  // What is somebody else's leaves us waiting, and at last at the deadline.
  probes_.Received(message.ok() && message->type == HandshakeType::kProbe &&
                   message->to == number_ && message->from == peer_number_);
  queue_pair_->ServeLink();
}

void DatagramLink::OnTurnEnd() {
  if (life_.is(DatagramState::kProbing)) return GoOnProbing();
  if (life_.is(DatagramState::kPeerLeaving)) AwaitPeersRest();
  GoOnLeaving();
  if (sleep_.WakePeer()) control_->Send(Message(HandshakeType::kWake));
  CheckIfBehind();
}

void DatagramLink::GoOnProbing() {
  if (probes_.our_turn() && !TrySendProbe()) return;
  if (probes_.through()) Established();
}

void DatagramLink::Established() {
  life_.Apply(DatagramEvent::kProbed);
  timer_.Cancel();
  Outcome outcome = std::exchange(outcome_, nullptr);
  if (outcome) outcome(std::move(peer_private_data_));
}

void DatagramLink::OnSleep() {
  if (!life_.up() || !sleep_.Sleep()) return;
  HandshakeMessage message = Message(HandshakeType::kSleeping);
  message.count = queue_pair_->received();
  control_->Send(message);
}

void DatagramLink::OnPeerSleeping(uint64_t received) {
  if (life_.is(DatagramState::kProbing)) {
    // It has our probe already. It says so again when it has been woken.
    wake_timer_.ScheduleAfter(settings().retry_interval);
    return;
  }
  if (!life_.up()) return;
  SleepWatch::Progress now;
  now.sent = queue_pair_->sent();
  now.received = received;
  now.one_sided = queue_pair_->one_sided();
  now.waits_for_peer = queue_pair_->waits_for_peer();
  switch (sleep_.PeerSleeps(now)) {
    case SleepWatch::Answer::kWake:
      control_->Send(Message(HandshakeType::kWake));
      break;
    case SleepWatch::Answer::kWakeLater:
      wake_timer_.ScheduleAfter(settings().retry_interval);
      break;
    case SleepWatch::Answer::kWakeAtNextPost:
      queue_pair_->RingAtNextPost();
      break;
  }
}

void DatagramLink::CheckIfBehind() {
  if (life_.up() && domain().forgets_refusals() &&
      queue_pair_->one_sided() != refusals_.served() &&
      !check_timer_.scheduled()) {
    check_timer_.ScheduleAfter(settings().check_interval);
  }
}

void DatagramLink::Check() {
  if (!life_.up()) return;
  HandshakeMessage message = Message(HandshakeType::kCheck);
  message.count = queue_pair_->one_sided();
  refusals_.Asked(message.count);
  control_->Send(message);
}

void DatagramLink::OnCheck() {
  HandshakeMessage answer = Message(HandshakeType::kChecked);
  queue_pair_->queue()->Drain();
  answer.count = queue_pair_->served();
  control_->Send(answer);
  queue_pair_->ServeLink();
}

void DatagramLink::OnChecked(uint64_t served) {
  if (!life_.up()) return;
  queue_pair_->queue()->Drain();
  const bool refused = refusals_.Answered(served);
  if (served == queue_pair_->one_sided()) queue_pair_->AllServed();
  queue_pair_->ServeLink();
  if (refused) queue_pair_->RefusedByPeer();
}

// The peer posts nothing any more, and all that it has posted has come to this
// side's provider or is on its way.
void DatagramLink::OnPeerLeaving(uint64_t messages) {
  farewell_.Heard(FarewellStep::kDisconnect);
  switch (life_.Apply(DatagramEvent::kPeerLeaves)) {
    case DatagramAction::kFail:
      Fail(absl::UnavailableError(
          absl::StrCat(Name(), ": the peer ended the connection")));
      break;
    case DatagramAction::kAwaitMessages:
      rest_ = {messages, reactor_->Now() + settings().close_limit};
      queue_pair_->ServeLink();
      break;
    case DatagramAction::kGoOnLeaving:
      GoOnLeaving();
      break;
    default:
      break;
  }
}

void DatagramLink::AwaitPeersRest() {
  queue_pair_->queue()->Drain();
  if (queue_pair_->received() < rest_.messages &&
      !queue_pair_->without_receives() && reactor_->Now() < rest_.await_until) {
    timer_.ScheduleAfter(settings().retry_interval);
    return;
  }
  queue_pair_->Break(absl::UnavailableError(absl::StrCat(
                         Name(), ": the peer ended the connection")),
                     /*tell_peer=*/true);
}

void DatagramLink::OnFarewell(FarewellStep step) {
  farewell_.Heard(step);
  GoOnLeaving();
}

// In shared memory either end works in the other's: it carries out what was
// posted there, and writes that it is done. So an endpoint is closed only when
// neither has anything left to do.
void DatagramLink::GoOnLeaving() {
  if (!life_.is(DatagramState::kLeaving)) return;
  for (FarewellStep step = farewell_.Next(); step != FarewellStep::kNothing;
       step = farewell_.Next()) {
    queue_pair_->Settle();
    control_->Send(Message(TypeOf(step)));
  }
  if (!farewell_.over()) return;
  life_.Apply(DatagramEvent::kBothQuiet);
  CloseNow();
}

void DatagramLink::OnTimer() {
  switch (life_.Apply(DatagramEvent::kTimer)) {
    case DatagramAction::kProbeAgain:
      if (probes_.refused()) TrySendProbe();
      break;
    case DatagramAction::kLookAgain:
      queue_pair_->ServeLink();
      break;
    case DatagramAction::kClose:
      CloseNow();
      break;
    default:
      break;
  }
}

void DatagramLink::CloseNow() {
  timer_.Cancel();
  queue_pair_->Close();
  control_->Shutdown();
}

void DatagramLink::OnEnd(const absl::Status& why) {
  const absl::Status ended(why.code(),
                           absl::StrCat(Name(), ": ", why.message()));
  timer_.Cancel();
  const DatagramAction action = life_.Apply(DatagramEvent::kLost);
  if (action == DatagramAction::kFail) {
    Fail(ended);
  } else if (action == DatagramAction::kVanish) {
    Outcome outcome = std::exchange(outcome_, nullptr);
    queue_pair_->PeerVanished(ended);
    if (outcome) outcome(ended);
  }
}

void DatagramLink::Refused(const absl::Status& why) {
  const DatagramAction action = life_.Apply(DatagramEvent::kRefused);
  if (action == DatagramAction::kFail) Fail(why);
}

void DatagramLink::Fail(const absl::Status& why) {
  Outcome outcome = std::exchange(outcome_, nullptr);
  if (outcome) {
    outcome(why);
  } else {
    queue_pair_->Break(why, /*tell_peer=*/life_.up());
  }
}

// While there are probes, too, a connection ends step by step where the two
// ends share their mappings.
DatagramEvent DatagramLink::Closing() const {
  const ShmPresence* const presence = queue_pair_->presence();
  return presence != nullptr && presence->PeerIsHere()
             ? DatagramEvent::kClosingShared
             : DatagramEvent::kClosing;
}

bool DatagramLink::OnClosing(bool /*tell_peer*/) {
  outcome_ = nullptr;
  check_timer_.Cancel();
  wake_timer_.Cancel();
  if (life_.Apply(Closing()) == DatagramAction::kHangUp) {
    timer_.Cancel();
    control_->SetHandler(nullptr);
    control_->Shutdown();
    return true;
  }
  timer_.ScheduleAfter(settings().close_limit);
  farewell_.Begin();
  HandshakeMessage message = Message(HandshakeType::kDisconnect);
  message.count = queue_pair_->sent();
  control_->Send(message);
  // Goes on once nothing is on the stack.
  queue_pair_->ServeLink();
  return false;
}

}  // namespace skiff::transport
