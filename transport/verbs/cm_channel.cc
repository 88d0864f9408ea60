#include "transport/verbs/cm_channel.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>
#include <iterator>
#include <mutex>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "transport/verbs/verbs_status.h"

namespace skiff::transport {
namespace {

// Whether the system still has it: another one may have its name by now.
bool IsListed(const CmEvent::Device& device) {
  ibv_device** const list = ibv_get_device_list(nullptr);
  if (list == nullptr) return true;  // Nobody knows.
  bool found = false;
  for (int i = 0; list[i] != nullptr; ++i) {
    found = found || (device.name == ibv_get_device_name(list[i]) &&
                      device.index == ibv_get_device_index(list[i]));
  }
  ibv_free_device_list(list);
  return found;
}

// librdmacm keeps every device open that it ever used, and some drivers keep a
// device until it is closed. It closes those that are not in the system's list
// any more whenever it looks at that, so this makes it look: a device leaves
// the list some time after the event that it is removed, perhaps long after.
// Each device once, however many connections hear of it. On a thread of its
// own: looking takes system calls, and may wait for the removal.
void ForgetWhenGone(const CmEvent::Device& device,
                    const VerbsOptions& settings) {
  static std::mutex mutex;
  static auto* const kWatched = new std::set<CmEvent::Device>;
  const std::lock_guard<std::mutex> lock(mutex);
  if (!kWatched->insert(device).second) return;
  const bool started =
      BackgroundThread::Get(absl::StrCat("forget-", device.name))
          ->TryRun([device, until = absl::Now() + settings.forget_removed_for,
                    interval = settings.forget_interval] {
            bool listed = true;
            do {
              absl::SleepFor(interval);
              listed = IsListed(device);
              // Once more when it is gone, which is what counts.
              if (ibv_context** devices = rdma_get_devices(nullptr)) {
                rdma_free_devices(devices);
              }
            } while (listed && absl::Now() < until);
            const std::lock_guard<std::mutex> lock(mutex);
            kWatched->erase(device);
          });
  // The next connection that hears of it tries again.
  if (!started) kWatched->erase(device);
}

CmEvent::Device DeviceOf(const rdma_cm_id* id) {
  if (id == nullptr || id->verbs == nullptr) return {};
  return {ibv_get_device_name(id->verbs->device),
          ibv_get_device_index(id->verbs->device)};
}

// rdma_destroy_id(3) waits while the kernel removes the device, which has taken
// half a minute. The channel's descriptor stays until then. Events of the id
// that were taken are acknowledged, and no others come.
void DestroyLater(rdma_cm_id* id, std::shared_ptr<rdma_event_channel> channel) {
  CmDestroyer(DeviceOf(id).name)->Run([id, channel = std::move(channel)] {
    rdma_destroy_id(id);
  });
}

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
  // Until the event is acknowledged, the id is there.
  if (event.event == RDMA_CM_EVENT_DEVICE_REMOVAL) {
    copy.device = DeviceOf(event.id);
  }
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

BackgroundThread* CmDestroyer(absl::string_view device) {
  return BackgroundThread::Get(absl::StrCat("cm-", device));
}

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

CmChannel::CmChannel(Reactor* reactor, rdma_event_channel* channel,
                     const VerbsOptions& settings)
    : reactor_(reactor),
      channel_(channel, rdma_destroy_event_channel),
      settings_(settings) {}

CmChannel::~CmChannel() {
  if (watched_) reactor_->UnwatchFd(channel_->fd);
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
    if (rdma_get_cm_event(channel_.get(), &event) != 0) return;
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
    DestroyLater(event.id, channel_);
  }
  if (event.type == RDMA_CM_EVENT_DEVICE_REMOVAL &&
      !event.device.name.empty()) {
    ForgetWhenGone(event.device, settings_);
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
  DestroyLater(std::exchange(id_, nullptr), channel_->shared_channel());
  channel_.reset();
}

}  // namespace skiff::transport
