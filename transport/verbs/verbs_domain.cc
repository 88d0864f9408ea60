#include "transport/verbs/verbs_domain.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "transport/verbs/cm_channel.h"
#include "transport/verbs/verbs_status.h"

namespace skiff::transport {
namespace {

// Soft-iWARP numbers the pages of the queues that a process maps, and its
// provider takes the number 0x90 (SIW_INVAL_UOBJ_KEY in rdma/siw-abi.h) for a
// failure: the forty-ninth queue pair could not be made. The kernel gives
// numbers from 0 on, and a queue only shows its first, so a queue that is
// longer hides that one. Its entries have 32 bytes.
constexpr int kPlaceholderEntries = (0x90 + 1) * 4096 / 32;

}  // namespace

absl::StatusOr<std::shared_ptr<AsyncWatch>> AsyncWatch::Create(
    std::shared_ptr<VerbsDomain> domain, Reactor* reactor) {
  const int fd = fcntl(domain->context()->async_fd, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) {
    return CallError(absl::StrCat("cannot watch ", domain->name()), errno);
  }
  std::shared_ptr<AsyncWatch> watch(
      new AsyncWatch(std::move(domain), reactor, fd));
  absl::Status status = reactor->WatchFd(fd, EPOLLIN, watch.get());
  if (!status.ok()) return status;
  return watch;
}

AsyncWatch::AsyncWatch(std::shared_ptr<VerbsDomain> domain, Reactor* reactor,
                       int fd)
    : domain_(std::move(domain)), reactor_(reactor), fd_(fd) {}

AsyncWatch::~AsyncWatch() {
  reactor_->UnwatchFd(fd_);
  close(fd_);
}

void AsyncWatch::OnFdReady(uint32_t events) {
  if ((events & EPOLLIN) != 0) {
    domain_->TakeAsyncEvent();
  } else {
    // Hung up: the device is gone, which its connections hear from the
    // connection manager.
    reactor_->UnwatchFd(fd_);
  }
}

absl::Status VerbsDomain::Initialize() {
  auto facts = QueryDevice(context_);
  if (!facts.ok()) return facts.status();
  facts_ = *std::move(facts);
  background_ = BackgroundThread::Get(absl::StrCat("destroy-", facts_.name));
  cm_destroyer_ = CmDestroyer(facts_.name);
  capabilities_ = ToCapabilities(facts_);
  pd_ = ibv_alloc_pd(context_);
  if (pd_ == nullptr) {
    return CallError(
        absl::StrCat("cannot allocate a protection domain of ", facts_.name),
        errno);
  }
  if (facts_.soft_iwarp) {
    placeholder_ =
        ibv_create_cq(context_, kPlaceholderEntries, nullptr, nullptr, 0);
    if (placeholder_ == nullptr) {
      return CallError(
          absl::StrCat("cannot create a completion queue with ", facts_.name),
          errno);
    }
  }
  const int fd = context_->async_fd;
  if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) != 0) {
    return CallError(absl::StrCat("cannot watch ", facts_.name), errno);
  }
  return absl::OkStatus();
}

VerbsDomain::~VerbsDomain() {
  if (placeholder_ != nullptr) ibv_destroy_cq(placeholder_);
  if (pd_ != nullptr) ibv_dealloc_pd(pd_);
  ibv_close_device(context_);
}

void VerbsDomain::DestroyLater(absl::AnyInvocable<void()> destroy) {
  background_->Run([self = shared_from_this(),
                    destroy = std::move(destroy)]() mutable { destroy(); });
}

absl::StatusOr<std::shared_ptr<AsyncWatch>> VerbsDomain::Watch(
    Reactor* reactor) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (auto watch = watches_[reactor].lock()) return watch;
  }
  // Only this reactor's thread makes its watch.
  auto watch = AsyncWatch::Create(shared_from_this(), reactor);
  if (!watch.ok()) return watch;
  std::lock_guard<std::mutex> lock(mutex_);
  for (auto it = watches_.begin(); it != watches_.end();) {
    it = it->second.expired() ? watches_.erase(it) : std::next(it);
  }
  watches_[reactor] = *watch;
  return watch;
}

void VerbsDomain::Add(uint32_t number, Reactor* reactor,
                      std::weak_ptr<AsyncEventSink> queue_pair) {
  std::lock_guard<std::mutex> lock(mutex_);
  queue_pairs_[number] = {reactor, std::move(queue_pair)};
}

void VerbsDomain::Remove(uint32_t number) {
  std::lock_guard<std::mutex> lock(mutex_);
  queue_pairs_.erase(number);
}

void VerbsDomain::Post(const Listed& listed, const ibv_async_event& event) {
  listed.reactor->Post([weak = listed.queue_pair, type = event.event_type,
                        port = event.element.port_num] {
    if (auto qp = weak.lock()) qp->OnAsyncEvent(type, port);
  });
}

void VerbsDomain::TakeAsyncEvent() {
  ibv_async_event event;
  // Another reactor may have been faster.
  if (ibv_get_async_event(context_, &event) != 0) return;
  switch (event.event_type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST: {
      const uint32_t number = event.element.qp->qp_num;
      std::lock_guard<std::mutex> lock(mutex_);
      const auto found = queue_pairs_.find(number);
      if (found != queue_pairs_.end()) Post(found->second, event);
      break;
    }
    case IBV_EVENT_DEVICE_FATAL:
      removed_ = true;
      [[fallthrough]];
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_PORT_ACTIVE: {
      std::lock_guard<std::mutex> lock(mutex_);
      for (const auto& [number, listed] : queue_pairs_) Post(listed, event);
      break;
    }
    default:
      // Queues fail together with the queue pairs that use them; the rest is
      // for subnet management.
      break;
  }
  ibv_ack_async_event(&event);
}

}  // namespace skiff::transport
