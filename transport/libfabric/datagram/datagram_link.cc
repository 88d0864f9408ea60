#include "transport/libfabric/datagram/datagram_link.h"

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <random>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
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

FabricQueuePair::Datagrams TagsOf(uint64_t number) {
  return {number, number | kProbeBit};
}

}  // namespace

// random(4), proc(5): /proc/sys/kernel/random/boot_id.
std::array<uint8_t, 16> ThisHost() {
  std::array<uint8_t, 16> out = {};
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string text;
  std::getline(file, text);
  text.erase(std::remove(text.begin(), text.end(), '-'), text.end());
  if (text.size() != 2 * out.size()) return out;
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<uint8_t>(
        std::strtoul(text.substr(2 * i, 2).c_str(), nullptr, 16));
  }
  return out;
}

DatagramLink::DatagramLink(FabricQueuePair* queue_pair, Reactor* reactor,
                           std::unique_ptr<ControlStream> control)
    : queue_pair_(queue_pair),
      reactor_(reactor),
      control_(std::move(control)),
      number_(NewNumber()),
      probes_(2 * kMaxHandshakeBytes),
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
  auto objects = link->OpenObjects(info);
  if (!objects.ok()) return objects.status();
  queue_pair->SetDatagramEndpoint(TagsOf(out->number_), *std::move(objects),
                                  std::move(link));
  return out;
}

absl::StatusOr<FabricQueuePair::DatagramObjects> DatagramLink::OpenObjects(
    const fi_info& info) {
  FabricDomain& domain = *queue_pair_->queue()->domain();
  if (domain.needs_descriptors()) {
    auto region =
        domain.Register(probes_.data(), probes_.size(), Access::kLocal);
    if (!region.ok()) return region.status();
    probe_region_ = *std::move(region);
  }
  FabricQueuePair::DatagramObjects objects;
  const InfoPtr adjusted(fi_dupinfo(&info));
  if (adjusted == nullptr) {
    return absl::ResourceExhaustedError("out of memory");
  }
  queue_pair_->Adjust(adjusted.get());
  fi_av_attr attributes = {};
  attributes.type = FI_AV_UNSPEC;
  attributes.count = 1;
  fid_av* addresses = nullptr;
  int result =
      fi_av_open(domain.domain(), &attributes, &addresses, queue_pair_);
  if (result != 0) {
    return FabricStatus(result, absl::StrCat(Name(), ": fi_av_open"));
  }
  objects.addresses.reset(addresses);
  if (domain.forgets_refusals()) {
    fi_cntr_attr counter = {};
    counter.events = FI_CNTR_EVENTS_COMP;
    counter.wait_obj = FI_WAIT_NONE;
    fid_cntr* raw = nullptr;
    result = fi_cntr_open(domain.domain(), &counter, &raw, queue_pair_);
    if (result != 0) {
      return FabricStatus(result, absl::StrCat(Name(), ": fi_cntr_open"));
    }
    objects.served.reset(raw);
  }
  fid_ep* raw = nullptr;
  result = fi_endpoint(domain.domain(), adjusted.get(), &raw, queue_pair_);
  if (result != 0) {
    return FabricStatus(result, absl::StrCat(Name(), ": fi_endpoint"));
  }
  objects.endpoint.reset(raw);
  result = fi_ep_bind(raw, &addresses->fid, 0);
  if (result == 0) {
    result = fi_ep_bind(raw, &queue_pair_->queue()->handle()->fid,
                        FI_TRANSMIT | FI_RECV);
  }
  if (result == 0 && objects.served != nullptr) {
    result =
        fi_ep_bind(raw, &objects.served->fid, FI_REMOTE_READ | FI_REMOTE_WRITE);
  }
  if (result == 0) result = fi_enable(raw);
  address_.resize(kMaxHandshakeAddress);
  size_t length = address_.size();
  if (result == 0) result = fi_getname(&raw->fid, address_.data(), &length);
  if (result != 0 || length == 0 || length > address_.size()) {
    return FabricStatus(result,
                        absl::StrCat(Name(), ": cannot set an endpoint up"));
  }
  address_.resize(length);
  addresses_ = addresses;
  if (domain.local_only()) {
    objects.presence = std::make_unique<ShmPresence>(ShmName(address_));
  }
  return objects;
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
  message.host = ThisHost();
  const FabricDomain& domain = *queue_pair_->queue()->domain();
  const ShmRegionList* const readable = domain.readable();
  if (readable != nullptr && readable->descriptor() >= 0) {
    message.region_list = static_cast<uint32_t>(readable->descriptor());
  }
  message.text = domain.provider();
  message.address = address_;
  message.private_data.assign(private_data.begin(), private_data.end());
  return message;
}

absl::Status DatagramLink::Connect(absl::Span<const uint8_t> private_data,
                                   Outcome outcome) {
  outcome_ = std::move(outcome);
  state_ = State::kConnecting;
  absl::Status status = AwaitProbe();
  if (!status.ok()) return status;
  control_->Send(Opening(HandshakeType::kConnect, private_data));
  control_->SetHandler(this);
  return absl::OkStatus();
}

absl::Status DatagramLink::Accept(const HandshakeMessage& request,
                                  absl::Span<const uint8_t> private_data,
                                  Outcome outcome) {
  accepts_ = true;
  absl::Status status = AwaitProbe();
  status.Update(UsePeer(request));
  if (!status.ok()) return status;
  outcome_ = std::move(outcome);
  state_ = State::kProbing;
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

absl::Status DatagramLink::CheckPeer(const HandshakeMessage& message) const {
  const FabricDomain& domain = *queue_pair_->queue()->domain();
  if (message.text != domain.provider()) {
    return absl::InvalidArgumentError(
        absl::StrCat(Name(), ": the peer uses the provider ", message.text,
                     "; both ends need the same one"));
  }
  if (domain.local_only() && message.host != ThisHost()) {
    return absl::InvalidArgumentError(
        absl::StrCat(Name(),
                     ": the peer is on another machine, which the "
                     "provider does not reach; use provider=tcp"));
  }
  return absl::OkStatus();
}

absl::Status DatagramLink::UsePeer(const HandshakeMessage& message) {
  absl::Status status = CheckPeer(message);
  if (status.ok() && queue_pair_->queue()->domain()->local_only()) {
    status = CheckShmPeer(message.address);
  }
  if (!status.ok()) return status;
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
    Fail(absl::InvalidArgumentError(
        absl::StrCat(Name(), ": the peer spoke of another connection")));
    return;
  }
  switch (message.type) {
    case HandshakeType::kAccept:
      OnAccept(message);
      break;
    case HandshakeType::kReject:
      OnReject(message);
      break;
    case HandshakeType::kDisconnect:
      OnPeerLeaving(message.count);
      break;
    case HandshakeType::kDisconnected:
      peer_disconnected_ = true;
      Leave();
      break;
    case HandshakeType::kQuiet:
      peer_quiet_ = true;
      Leave();
      break;
    case HandshakeType::kCheck: {
      HandshakeMessage answer = Message(HandshakeType::kChecked);
      queue_pair_->queue()->Drain();
      answer.count = queue_pair_->served();
      control_->Send(answer);
      queue_pair_->ServeLink();
      break;
    }
    case HandshakeType::kChecked:
      OnChecked(message.count);
      break;
    case HandshakeType::kSleeping:
      OnPeerSleeping(message.count);
      break;
    case HandshakeType::kWake:
      asleep_ = false;
      queue_pair_->queue()->Wake();
      break;
    case HandshakeType::kConnect:
    case HandshakeType::kProbe:
      Fail(absl::InvalidArgumentError(
          absl::StrCat(Name(), ": the peer broke the handshake")));
      break;
  }
}

void DatagramLink::OnAccept(const HandshakeMessage& message) {
  if (state_ != State::kConnecting) {
    Fail(absl::InvalidArgumentError(
        absl::StrCat(Name(), ": the peer accepted twice")));
    return;
  }
  const absl::Status status = UsePeer(message);
  if (!status.ok()) {
    Fail(status);
    return;
  }
  state_ = State::kProbing;
  queue_pair_->Probing();
  TrySendProbe();
}

void DatagramLink::OnReject(const HandshakeMessage& message) {
  absl::Status why = absl::UnavailableError(
      absl::StrCat(Name(), ": the peer rejected the connection",
                   message.text.empty() ? "" : ": ", message.text));
  if (!message.private_data.empty()) {
    why.SetPayload(
        kRejectPrivateData,
        absl::Cord(absl::string_view(
            reinterpret_cast<const char*>(message.private_data.data()),
            message.private_data.size())));
  }
  Fail(why);
}

Sge DatagramLink::Probe(bool outgoing, size_t length) {
  return {&probes_[outgoing ? 0 : kMaxHandshakeBytes], length,
          probe_region_.get()};
}

bool DatagramLink::TrySendProbe() {
  if (probe_length_ == 0) {
    const auto bytes = EncodeHandshake(Message(HandshakeType::kProbe));
    std::copy(bytes.begin(), bytes.end(), probes_.begin());
    probe_length_ = bytes.size();
  }
  const ssize_t result =
      queue_pair_->SendProbe(Probe(/*outgoing=*/true, probe_length_));
  probe_due_ = result == -FI_EAGAIN;
  if (probe_due_) timer_.ScheduleAfter(settings().retry_interval);
  if (probe_due_ || result == 0) return true;
  Fail(FabricStatus(result, absl::StrCat(Name(), ": fi_tsendmsg")));
  return false;
}

void DatagramLink::OnProbeSent() {
  probe_sent_ = true;
  queue_pair_->ServeLink();
}

void DatagramLink::OnProbe(size_t bytes) {
  const auto message = DecodeHandshake(
      {&probes_[kMaxHandshakeBytes], std::min(bytes, kMaxHandshakeBytes)});
  // What is somebody else's leaves us waiting, and at last at the deadline.
  probe_received_ = message.ok() && message->type == HandshakeType::kProbe &&
                    message->to == number_ && message->from == peer_number_;
  queue_pair_->ServeLink();
}

void DatagramLink::OnTurnEnd() {
  if (state_ == State::kProbing && probe_received_) {
    if (accepts_ && probe_length_ == 0 && !TrySendProbe()) return;
    if (probe_sent_) Established();
    return;
  }
  if (peer_leaving_) FinishPeerLeaving();
  Leave();
  if (std::exchange(peer_asleep_, false)) {
    control_->Send(Message(HandshakeType::kWake));
  }
  if (state_ == State::kEstablished &&
      queue_pair_->queue()->domain()->forgets_refusals() &&
      queue_pair_->one_sided() != checked_ && !check_timer_.scheduled()) {
    check_timer_.ScheduleAfter(settings().check_interval);
  }
}

void DatagramLink::Established() {
  state_ = State::kEstablished;
  timer_.Cancel();
  Outcome outcome = std::exchange(outcome_, nullptr);
  if (outcome) outcome(std::move(peer_private_data_));
}

void DatagramLink::OnSleep() {
  if (state_ != State::kEstablished || std::exchange(asleep_, true)) return;
  HandshakeMessage message = Message(HandshakeType::kSleeping);
  message.count = queue_pair_->received();
  control_->Send(message);
}

// What was posted before the peer looked last may have come too late for it.
void DatagramLink::OnPeerSleeping(uint64_t received) {
  if (state_ == State::kProbing) {
    // It has our probe already. It says so again when it has been woken.
    wake_timer_.ScheduleAfter(settings().retry_interval);
    return;
  }
  if (state_ != State::kEstablished) return;
  const uint64_t posted = queue_pair_->one_sided();
  const bool missed = received < queue_pair_->sent() ||
                      queue_pair_->waits_for_peer() || posted != posted_;
  const uint64_t messages = queue_pair_->sent() + received;
  const bool moved = messages != messages_ || posted != posted_;
  posted_ = posted;
  messages_ = messages;
  if (missed && moved) {
    control_->Send(Message(HandshakeType::kWake));
    return;
  }
  if (missed) {
    // It has looked in vain: perhaps it has no RECEIVE.
    wake_timer_.ScheduleAfter(settings().retry_interval);
    return;
  }
  peer_asleep_ = true;
  queue_pair_->RingAtNextPost();
}

void DatagramLink::Check() {
  if (state_ != State::kEstablished) return;
  asked_ = queue_pair_->one_sided();
  HandshakeMessage message = Message(HandshakeType::kCheck);
  message.count = asked_;
  control_->Send(message);
}

void DatagramLink::OnChecked(uint64_t served) {
  if (state_ != State::kEstablished) return;
  queue_pair_->queue()->Drain();
  const bool stuck = served < asked_ && lagging_ && served == checked_;
  lagging_ = served < asked_;
  checked_ = served;
  if (served == queue_pair_->one_sided()) queue_pair_->AllServed();
  queue_pair_->ServeLink();
  if (stuck) queue_pair_->RefusedByPeer();
}

// The peer posts nothing any more, and all that it has posted has come to this
// side's provider or is on its way.
void DatagramLink::OnPeerLeaving(uint64_t messages) {
  if (state_ == State::kConnecting || state_ == State::kProbing) {
    peer_left_ = true;
    Fail(absl::UnavailableError(
        absl::StrCat(Name(), ": the peer ended the connection")));
    return;
  }
  if (std::exchange(peer_left_, true)) return;
  if (state_ == State::kLeaving) {
    Leave();
    return;
  }
  peer_leaving_ = true;
  peer_messages_ = messages;
  leave_by_ = reactor_->Now() + settings().close_limit;
  queue_pair_->ServeLink();
}

void DatagramLink::FinishPeerLeaving() {
  if (state_ != State::kEstablished) {
    peer_leaving_ = false;
    return;
  }
  queue_pair_->queue()->Drain();
  if (queue_pair_->received() < peer_messages_ &&
      !queue_pair_->without_receives() && reactor_->Now() < leave_by_) {
    timer_.ScheduleAfter(settings().retry_interval);
    return;
  }
  peer_leaving_ = false;
  queue_pair_->Break(absl::UnavailableError(absl::StrCat(
                         Name(), ": the peer ended the connection")),
                     /*tell_peer=*/true);
}

// In shared memory either end works in the other's: it carries out what was
// posted there, and writes that it is done. So an endpoint is closed only when
// neither has anything left to do.
void DatagramLink::Leave() {
  if (state_ != State::kLeaving) return;
  if (peer_left_ && !std::exchange(disconnected_sent_, true)) {
    queue_pair_->Settle();
    control_->Send(Message(HandshakeType::kDisconnected));
  }
  if (peer_disconnected_ && !std::exchange(quiet_sent_, true)) {
    queue_pair_->Settle();
    control_->Send(Message(HandshakeType::kQuiet));
  }
  if (peer_quiet_ && quiet_sent_) CloseNow();
}

void DatagramLink::OnTimer() {
  if (peer_leaving_) {
    queue_pair_->ServeLink();
  } else if (state_ == State::kProbing) {
    if (probe_due_) TrySendProbe();
  } else {
    CloseNow();
  }
}

void DatagramLink::CloseNow() {
  state_ = State::kEnded;
  timer_.Cancel();
  queue_pair_->Close();
  control_->Shutdown();
}

void DatagramLink::OnEnd(const absl::Status& why) {
  const absl::Status ended(why.code(),
                           absl::StrCat(Name(), ": ", why.message()));
  timer_.Cancel();
  peer_leaving_ = false;
  if (state_ == State::kConnecting) {
    Fail(ended);
  } else if (state_ != State::kEnded) {
    state_ = State::kEnded;
    Outcome outcome = std::exchange(outcome_, nullptr);
    queue_pair_->PeerVanished(ended);
    if (outcome) outcome(ended);
  }
}

void DatagramLink::Fail(absl::Status why) {
  Outcome outcome = std::exchange(outcome_, nullptr);
  if (outcome) {
    outcome(std::move(why));
  } else {
    queue_pair_->Break(why, /*tell_peer=*/state_ == State::kEstablished);
  }
}

// While there are probes, too, where the two ends share their mappings.
bool DatagramLink::ClosesInSteps() const {
  const ShmPresence* const presence = queue_pair_->presence();
  return state_ == State::kEstablished ||
         (state_ == State::kProbing && presence != nullptr &&
          presence->PeerIsHere());
}

bool DatagramLink::OnClosing(bool /*tell_peer*/) {
  outcome_ = nullptr;
  check_timer_.Cancel();
  wake_timer_.Cancel();
  if (!ClosesInSteps()) {
    state_ = State::kEnded;
    timer_.Cancel();
    control_->SetHandler(nullptr);
    control_->Shutdown();
    return true;
  }
  state_ = State::kLeaving;
  timer_.ScheduleAfter(settings().close_limit);
  HandshakeMessage message = Message(HandshakeType::kDisconnect);
  message.count = queue_pair_->sent();
  control_->Send(message);
  // Goes on once nothing is on the stack.
  queue_pair_->ServeLink();
  return false;
}

}  // namespace skiff::transport
