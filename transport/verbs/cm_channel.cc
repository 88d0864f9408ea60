#include "transport/verbs/cm_channel.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>
#include <iterator>
#include <mutex>
#include <utility>

#include "absl/status/status.h"
#include "transport/verbs/verbs_status.h"

namespace skiff::transport {
namespace {

// librdmacm keeps every device open that it ever used, and some drivers keep a
// device until it is closed. It closes those that are not in the system's list
// any more whenever it looks at that, so this makes it look: a device leaves
// the list some time after the event that it is removed.
class RemovedDevice final : public ReactorObject {
 public:
  RemovedDevice(Reactor* reactor, const VerbsOptions& settings)
      : reactor_(reactor),
        until_(reactor->Now() + settings.forget_removed_for),
        interval_(settings.forget_interval),
        timer_(reactor, [this] { Look(); }) {
    timer_.ScheduleAfter(interval_);
  }

 private:
  void Look() {
    if (ibv_context** devices = rdma_get_devices(nullptr)) {
      rdma_free_devices(devices);
    }
    timer_.ScheduleAfter(interval_);
    if (reactor_->Now() > until_) reactor_->Disown(this);
  }

  Reactor* const reactor_;
  const absl::Time until_;
  const absl::Duration interval_;
  Timer timer_;
};

absl::Status NoConnectionManager(int error_number) {
  if (access("/dev/infiniband/rdma_cm", F_OK) != 0) {
    return absl::FailedPreconditionError(
        "this machine has no RDMA connection manager (/dev/infiniband/rdma_cm) "
        "- load its module: modprobe rdma_ucm");
  }
  return CallError("cannot open the RDMA connection manager", error_number);
}

CmEvent Copy(const rdma_cm_event& event) {
  CmEvent copy;
  copy.type = event.event;
  copy.status = event.status;
  copy.id = event.id;
  const rdma_conn_param& conn = event.param.conn;
  const auto* data = static_cast<const uint8_t*>(conn.private_data);
  if (data != nullptr) {
    copy.private_data.assign(data, data + conn.private_data_len);
  }
  copy.initiator_depth = conn.initiator_depth;
  copy.responder_resources = conn.responder_resources;
  return copy;
}

}  // namespace

absl::StatusOr<std::shared_ptr<CmChannel>> CmChannel::ForReactor(
    Reactor* reactor, const VerbsOptions& settings) {
  static std::mutex mutex;
  // Beside the channel, so that no other is locked: its last user would then
  // be this thread.
  struct Known {
    VerbsOptions settings;
    std::weak_ptr<CmChannel> channel;
  };
  // Never destroyed, as connections of static storage may outlive it.
  // Nearly always one for each reactor.
  static auto* const kChannels = new std::multimap<Reactor*, Known>;
  std::lock_guard<std::mutex> lock(mutex);
  const auto [first, last] = kChannels->equal_range(reactor);
  for (auto it = first; it != last; ++it) {
    if (it->second.settings != settings) continue;
    auto known = it->second.channel.lock();
    if (known != nullptr) return known;
  }
  rdma_event_channel* channel = rdma_create_event_channel();
  if (channel == nullptr) return NoConnectionManager(errno);
  if (fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK) !=
      0) {
    const int error = errno;
    rdma_destroy_event_channel(channel);
    return CallError("cannot watch the RDMA connection manager", error);
  }
  std::shared_ptr<CmChannel> made(new CmChannel(reactor, channel, settings));
  for (auto it = kChannels->begin(); it != kChannels->end();) {
    it = it->second.channel.expired() ? kChannels->erase(it) : std::next(it);
  }
  kChannels->emplace(reactor, Known{settings, made});
  return made;
}

CmChannel::~CmChannel() {
  if (watched_) reactor_->UnwatchFd(channel_->fd);
  rdma_destroy_event_channel(channel_);
}

absl::Status CmChannel::Watch() {
  if (watched_) return absl::OkStatus();
  absl::Status status = reactor_->WatchFd(channel_->fd, EPOLLIN, this);
  watched_ = status.ok();
  return status;
}

void CmChannel::SetHandler(rdma_cm_id* id, CmHandler* handler) {
  handlers_[id] = handler;
}

void CmChannel::OnFdReady(uint32_t /*events*/) {
  const auto self = shared_from_this();
  // What is left comes next turn, so that a storm of events leaves the
  // connections that are up their share.
  for (int i = 0; i < settings_.cm_events_per_turn; ++i) {
    rdma_cm_event* event = nullptr;
    if (rdma_get_cm_event(channel_, &event) != 0) return;
    const CmEvent copy = Copy(*event);
    rdma_cm_id* const addressee =
        event->listen_id != nullptr ? event->listen_id : event->id;
    // Handlers may destroy the id, which would wait for this for ever.
    rdma_ack_cm_event(event);
    OnEvent(copy, addressee);
  }
}

void CmChannel::OnEvent(const CmEvent& event, rdma_cm_id* addressee) {
  const auto found = handlers_.find(addressee);
  if (found != handlers_.end()) {
    found->second->OnCmEvent(event);
  } else if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) {
    rdma_destroy_id(event.id);
  }
  if (event.type == RDMA_CM_EVENT_DEVICE_REMOVAL) {
    reactor_->Own(std::make_unique<RemovedDevice>(reactor_, settings_));
  }
}

CmId::CmId(std::shared_ptr<CmChannel> channel, rdma_cm_id* id)
    : channel_(std::move(channel)), id_(id) {}

CmId::CmId(CmId&& other) noexcept
    : channel_(std::move(other.channel_)),
      id_(std::exchange(other.id_, nullptr)),
      handled_(std::exchange(other.handled_, false)) {}

CmId& CmId::operator=(CmId&& other) noexcept {
  if (this != &other) {
    Reset();
    channel_ = std::move(other.channel_);
    id_ = std::exchange(other.id_, nullptr);
    handled_ = std::exchange(other.handled_, false);
  }
  return *this;
}

absl::StatusOr<CmId> CmId::Create(std::shared_ptr<CmChannel> channel) {
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(channel->channel(), &id, nullptr, RDMA_PS_TCP) != 0) {
    return CallError("cannot create an RDMA connection identifier", errno);
  }
  return CmId(std::move(channel), id);
}

void CmId::SetHandler(CmHandler* handler) {
  handled_ = handler != nullptr;
  if (handled_) {
    channel_->SetHandler(id_, handler);
  } else {
    channel_->Forget(id_);
  }
}

absl::Status CmId::Migrate(std::shared_ptr<CmChannel> channel) {
  if (rdma_migrate_id(id_, channel->channel()) != 0) {
    return CallError("cannot move an RDMA connection to another reactor",
                     errno);
  }
  channel_ = std::move(channel);
  return absl::OkStatus();
}

void CmId::Reset() {
  if (id_ == nullptr) return;
  if (handled_) SetHandler(nullptr);
  rdma_destroy_id(std::exchange(id_, nullptr));
  channel_.reset();
}

}  // namespace skiff::transport
