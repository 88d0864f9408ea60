#include "transport/libfabric/fabric/fabric_event_queue.h"

#include <rdma/fi_errno.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/libfabric/fabric/fabric_error.h"

namespace skiff::transport {
namespace {

// More than any provider lets a peer send (FI_OPT_CM_DATA_SIZE).
constexpr size_t kMaxPrivateData = 1024;
constexpr int kSettleRounds = 64;

}  // namespace

absl::StatusOr<std::shared_ptr<FabricEventQueue>> FabricEventQueue::Create(
    Reactor* reactor, std::shared_ptr<FabricDomain> domain) {
  std::shared_ptr<FabricEventQueue> out(
      new FabricEventQueue(reactor, std::move(domain)));
  const FabricDomain& of = *out->domain_;
  fi_eq_attr attributes = {};
  attributes.wait_obj = FI_WAIT_FD;
  fid_eq* queue = nullptr;
  int result = fi_eq_open(of.fabric(), &attributes, &queue, out.get());
  if (result != 0) {
    return FabricStatus(result, absl::StrCat(of.name(),
                                             ": cannot open an event queue "
                                             "with a file descriptor"));
  }
  out->queue_.reset(queue);
  result = fi_control(&queue->fid, FI_GETWAIT, &out->fd_);
  if (result != 0) {
    return FabricStatus(result, absl::StrCat(of.name(), ": FI_GETWAIT"));
  }
  absl::Status status = reactor->WatchFd(out->fd_, EPOLLIN, out.get());
  if (!status.ok()) return status;
  out->watched_ = true;
  return out;
}

absl::StatusOr<std::shared_ptr<FabricEventQueue>> FabricEventQueue::For(
    Reactor* reactor, const std::shared_ptr<FabricDomain>& domain) {
  using Key = std::pair<Reactor*, FabricDomain*>;
  thread_local std::map<Key, std::weak_ptr<FabricEventQueue>> queues;
  for (auto it = queues.begin(); it != queues.end();) {
    it = it->second.expired() ? queues.erase(it) : std::next(it);
  }
  const Key key(reactor, domain.get());
  if (const auto found = queues.find(key); found != queues.end()) {
    return found->second.lock();
  }
  auto created = Create(reactor, domain);
  if (created.ok()) queues[key] = *created;
  return created;
}

FabricEventQueue::~FabricEventQueue() { Stop(); }

void FabricEventQueue::Stop() {
  stopped_ = true;
  timer_.Cancel();
  if (std::exchange(watched_, false)) reactor_->UnwatchFd(fd_);
}

FabricEventQueue::Handler* FabricEventQueue::Find(fid* object) const {
  const auto found = handlers_.find(object);
  return found == handlers_.end() ? nullptr : found->second;
}

void FabricEventQueue::Settle() {
  // Handlers may let go of the queue.
  const auto self = shared_from_this();
  fid* fids[] = {&queue_->fid};
  for (int i = 0; i < kSettleRounds; ++i) {
    if (ReadOne()) continue;
    if (stopped_) return;
    if (fi_trywait(domain_->fabric(), fids, 1) == 0) return;
  }
  // The rest comes in the next turn, so that a storm of events leaves others
  // their share.
  timer_.ScheduleAfter(domain_->settings().retry_interval);
}

bool FabricEventQueue::ReadOne() {
  if (stopped_) return false;
  alignas(fi_eq_cm_entry)
      uint8_t buffer[sizeof(fi_eq_cm_entry) + kMaxPrivateData];
  uint32_t event = 0;
  const ssize_t length =
      fi_eq_read(queue_.get(), &event, buffer, sizeof(buffer), 0);
  if (length == -FI_EAVAIL) {
    ReadError();
    return true;
  }
  if (length < 0) {
    // The verbs provider calls rdma_connect() while it is read, and returns
    // that call's error without the endpoint that it belongs to.
    if (length != -FI_EAGAIN && handlers_.size() == 1) {
      handlers_.begin()->second->OnError(static_cast<int>(-length), "", {});
    }
    return false;
  }
  if (event != FI_CONNREQ && event != FI_CONNECTED && event != FI_SHUTDOWN) {
    return true;
  }
  fi_eq_cm_entry entry;
  std::memcpy(&entry, buffer, sizeof(entry));
  InfoPtr info(event == FI_CONNREQ ? entry.info : nullptr);
  const size_t size = static_cast<size_t>(length);
  const size_t data_size = size > sizeof(entry) ? size - sizeof(entry) : 0;
  if (Handler* handler = Find(entry.fid)) {
    handler->OnEvent(event, std::move(info),
                     AsSent(buffer + sizeof(entry), data_size));
  }
  return true;
}

void FabricEventQueue::ReadError() {
  fi_eq_err_entry error = {};
  uint8_t room[1 + kMaxPrivateData] = {};
  uint8_t* const data = room + 1;
  error.err_data = data;
  error.err_data_size = kMaxPrivateData;
  if (fi_eq_readerr(queue_.get(), &error, 0) < 0) return;
  char text[128] = {};
  const char* provider_text = fi_eq_strerror(
      queue_.get(), error.prov_errno, error.err_data, text, sizeof(text) - 1);
  // A peer of the verbs provider chooses the size that is reported here.
  const size_t size = error.err_data == data
                          ? std::min(error.err_data_size, kMaxPrivateData)
                          : 0;
  if (Handler* handler = Find(error.fid)) {
    handler->OnError(error.err, provider_text != nullptr ? provider_text : text,
                     AsSent(data, size));
  }
}

absl::Span<const uint8_t> FabricEventQueue::AsSent(uint8_t* data,
                                                   size_t size) const {
  if (domain_->provider() != "verbs" ||
      size <= domain_->capabilities().max_private_data_bytes) {
    return {data, size};
  }
  data[-1] = static_cast<uint8_t>(size);
  return {data - 1, size + 1};
}

}  // namespace skiff::transport
