#include "testing/sim/sim_network.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace skiff::testing {
namespace {

constexpr uint16_t kFirstEphemeralPort = 49152;  // RFC 6335 section 6.

}  // namespace

LinkOptions LinkOptions::Calm() {
  LinkOptions options;
  options.latency_max = options.latency_min;
  options.max_segment = 0;
  options.short_transfer = 0;
  options.spurious_would_block = 0;
  return options;
}

void SimNetwork::SetLink(const std::string& a, const std::string& b,
                         const LinkOptions& options) {
  links_[{a, b}] = options;
  links_[{b, a}] = options;
}

const LinkOptions& SimNetwork::link(const std::string& from,
                                    const std::string& to) const {
  auto found = links_.find({from, to});
  return found == links_.end() ? default_ : found->second;
}

void SimNetwork::SetDown(const Direction& direction, bool down) {
  if (down ? !down_.insert(direction).second : down_.erase(direction) == 0) {
    return;
  }
  world_->Trace(down ? "down" : "up");
  // What a pipe's observer does may end connections and so remove pipes.
  std::vector<uint64_t> affected;
  for (const auto& [id, pipe] : pipes_) {
    if (pipe->from_ == direction.first && pipe->to_ == direction.second) {
      affected.push_back(id);
    }
  }
  for (const uint64_t id : affected) {
    auto found = pipes_.find(id);
    if (found == pipes_.end()) continue;
    down ? found->second->LinkWentDown() : found->second->LinkCameUp();
  }
}

void SimNetwork::Blackhole(const std::string& a, const std::string& b) {
  SetDown({a, b}, true);
  SetDown({b, a}, true);
}

void SimNetwork::BlackholeOneWay(const std::string& from,
                                 const std::string& to) {
  SetDown({from, to}, true);
}

void SimNetwork::Heal(const std::string& a, const std::string& b) {
  SetDown({a, b}, false);
  SetDown({b, a}, false);
}

void SimNetwork::ResetConnections(const std::string& a, const std::string& b) {
  std::vector<uint64_t> affected;
  for (const auto& [id, entry] : connections_) {
    if (entry.first == Direction(a, b) || entry.first == Direction(b, a)) {
      affected.push_back(id);
    }
  }
  for (const uint64_t id : affected) {
    auto found = connections_.find(id);
    if (found != connections_.end()) found->second.second->FaultReset();
  }
}

void SimNetwork::DropParcels() {
  std::vector<uint64_t> ids;
  for (const auto& [id, pipe] : pipes_) ids.push_back(id);
  for (const uint64_t id : ids) {
    auto found = pipes_.find(id);
    if (found != pipes_.end()) found->second->Clear();
  }
}

bool SimNetwork::AddAcceptor(const std::string& key, SimAcceptor* acceptor) {
  return acceptors_.emplace(key, acceptor).second;
}

SimAcceptor* SimNetwork::FindAcceptor(const std::string& key) const {
  auto found = acceptors_.find(key);
  return found == acceptors_.end() ? nullptr : found->second;
}

uint16_t SimNetwork::AllocatePort(const std::string& host) {
  uint16_t& last = last_port_[host];
  last = last < kFirstEphemeralPort || last == 65535 ? kFirstEphemeralPort
                                                     : last + 1;
  return last;
}

SimConnectionEntry::SimConnectionEntry(SimNetwork* network, std::string a,
                                       std::string b, SimConnection* connection)
    : network_(network), id_(network->next_id_++) {
  network_->connections_[id_] = {{std::move(a), std::move(b)}, connection};
}

SimPipe::SimPipe(SimWorld* world, std::string from, std::string to,
                 Observer* observer)
    : world_(world),
      from_(std::move(from)),
      to_(std::move(to)),
      observer_(observer),
      id_(world->network().next_id_++) {
  world_->network().pipes_[id_] = this;
}

SimPipe::~SimPipe() {
  CancelDelivery();
  world_->network().pipes_.erase(id_);
}

const LinkOptions& SimPipe::link() const {
  return world_->network().link(from_, to_);
}

bool SimPipe::down() const { return world_->network().IsDown(from_, to_); }

void SimPipe::Send(size_t bytes, absl::AnyInvocable<void()> deliver) {
  const LinkOptions& options = link();
  absl::Time sent = world_->now();
  if (options.bytes_per_second > 0) {
    sent = std::max(sent, line_free_) +
           absl::Seconds(1) * bytes / options.bytes_per_second;
    line_free_ = sent;
  }
  const absl::Duration latency =
      world_->random().Between(options.latency_min, options.latency_max);
  last_arrival_ = std::max(last_arrival_, sent + latency);
  parcels_.push_back({last_arrival_, std::move(deliver)});
  world_->Trace("send", id_, bytes);
  if (!down()) {
    Schedule();
  } else if (stalled_since_ == absl::InfiniteFuture()) {
    stalled_since_ = world_->now();
    if (observer_ != nullptr) observer_->OnStalled(this);
  }
}

void SimPipe::Clear() {
  CancelDelivery();
  stalled_since_ = absl::InfiniteFuture();
  // A parcel may be the last owner of the connection, and so of this pipe.
  const auto doomed = std::move(parcels_);
  parcels_.clear();
}

void SimPipe::Schedule() {
  if (delivery_scheduled_ || parcels_.empty()) return;
  delivery_scheduled_ = true;
  delivery_ = world_->At(parcels_.front().arrival, [this] { Deliver(); });
}

void SimPipe::CancelDelivery() {
  if (delivery_scheduled_) world_->Cancel(delivery_);
  delivery_scheduled_ = false;
}

void SimPipe::Deliver() {
  delivery_scheduled_ = false;
  auto deliver = std::move(parcels_.front().deliver);
  parcels_.pop_front();
  Schedule();
  world_->Trace("arrive", id_);
  deliver();  // May destroy this pipe.
}

void SimPipe::LinkWentDown() {
  CancelDelivery();
  ++down_epoch_;
  if (observer_ != nullptr) observer_->OnLinkDown(this);
  if (!parcels_.empty() && stalled_since_ == absl::InfiniteFuture()) {
    stalled_since_ = world_->now();
    if (observer_ != nullptr) observer_->OnStalled(this);
  }
}

void SimPipe::LinkCameUp() {
  stalled_since_ = absl::InfiniteFuture();
  // What waited is sent again now.
  const absl::Time arrival =
      world_->now() +
      world_->random().Between(link().latency_min, link().latency_max);
  for (Parcel& parcel : parcels_) {
    parcel.arrival = std::max(parcel.arrival, arrival);
  }
  last_arrival_ = std::max(last_arrival_, arrival);
  Schedule();
}

}  // namespace skiff::testing
