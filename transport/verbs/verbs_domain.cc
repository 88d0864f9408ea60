#include "transport/verbs/verbs_domain.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "transport/verbs/cm_channel.h"
#include "transport/verbs/queue_pair.h"
#include "transport/verbs/verbs_completion_queue.h"
#include "transport/verbs/verbs_memory.h"
#include "transport/verbs/verbs_shared_receive_queue.h"
#include "transport/verbs/verbs_status.h"

namespace skiff::transport {
namespace {

// Soft-iWARP numbers the pages of the queues that a process maps, and its
// provider takes the number 0x90 (SIW_INVAL_UOBJ_KEY in rdma/siw-abi.h) for a
// failure: the forty-ninth queue pair could not be made. The kernel gives
// numbers from 0 on, and a queue only shows its first, so a queue that is
// longer hides that one. Its entries have 32 bytes.
constexpr int kPlaceholderEntries = (0x90 + 1) * 4096 / 32;

// Without it a child of fork() would take pages away from the device, on
// kernels that do not copy pinned pages at fork (ibv_fork_init(3)). Has to
// precede every registration.
absl::Status PrepareForFork() {
  static const int kError = [] {
    return ibv_is_fork_initialized() == IBV_FORK_DISABLED ? ibv_fork_init() : 0;
  }();
  if (kError == 0) return absl::OkStatus();
  return CallError(
      "cannot make registered memory safe across fork(); registering nothing "
      "before the first connection avoids this: ibv_fork_init",
      kError);
}

// Others that come under its name have other numbers (ibv_get_device_index(3)),
// unless the kernel has none.
bool SameDevice(ibv_device* a, ibv_device* b) {
  return absl::string_view(ibv_get_device_name(a)) == ibv_get_device_name(b) &&
         ibv_get_device_index(a) == ibv_get_device_index(b);
}

struct OpenDomains {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<VerbsDomain>> by_device;
};

OpenDomains& Domains() {
  // Never destroyed: connections of static storage may outlive it.
  static auto* const kDomains = new OpenDomains;
  return *kDomains;
}

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

absl::StatusOr<std::shared_ptr<VerbsDomain>> VerbsDomain::Get(
    ibv_device* device) {
  OpenDomains& open = Domains();
  std::lock_guard<std::mutex> lock(open.mutex);
  std::weak_ptr<VerbsDomain>& known =
      open.by_device[ibv_get_device_name(device)];
  std::shared_ptr<VerbsDomain> domain = known.lock();
  if (domain != nullptr && !domain->removed_ && domain->IsOf(device)) {
    return domain;
  }
  auto opened = Open(device);
  if (!opened.ok()) return opened;
  // Nobody has heard of the removal of another one.
  if (domain != nullptr) domain->removed_ = true;
  known = *opened;
  return opened;
}

void VerbsDomain::SetRemoved(ibv_device* device) {
  OpenDomains& open = Domains();
  std::lock_guard<std::mutex> lock(open.mutex);
  const auto known = open.by_device.find(ibv_get_device_name(device));
  if (known == open.by_device.end()) return;
  const auto domain = known->second.lock();
  if (domain != nullptr && domain->IsOf(device)) domain->removed_ = true;
}

bool VerbsDomain::IsOf(ibv_device* device) const {
  return SameDevice(context_->device, device);
}

absl::StatusOr<std::shared_ptr<VerbsDomain>> VerbsDomain::Open(
    ibv_device* device) {
  absl::Status status = PrepareForFork();
  if (!status.ok()) return status;
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  if (list == nullptr) return CallError("cannot list the RDMA devices", errno);
  const auto free_list = absl::MakeCleanup([&] { ibv_free_device_list(list); });
  const std::string name = ibv_get_device_name(device);
  for (int i = 0; i < count; ++i) {
    if (!SameDevice(list[i], device)) continue;
    ibv_context* context = ibv_open_device(list[i]);
    if (context == nullptr) {
      return CallError(absl::StrCat("cannot open ", name), errno);
    }
    std::shared_ptr<VerbsDomain> domain(new VerbsDomain(context));
    status = domain->Initialize();
    if (!status.ok()) return status;
    return domain;
  }
  return absl::UnavailableError(absl::StrCat(name, " was removed"));
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

absl::StatusOr<std::unique_ptr<MemoryRegion>> VerbsDomain::Register(
    void* data, size_t size, Access access) {
  return VerbsRegion::Create(shared_from_this(), data, size, access);
}

absl::StatusOr<std::unique_ptr<MemoryWindow>> VerbsDomain::AllocateWindow() {
  if (!capabilities_.memory_windows) return MemoryDomain::AllocateWindow();
  return VerbsWindow::Create(shared_from_this());
}

absl::StatusOr<std::shared_ptr<CompletionQueue>>
VerbsDomain::CreateCompletionQueue(Reactor* reactor, uint32_t entries) {
  return VerbsCompletionQueue::Create(shared_from_this(), reactor, entries);
}

absl::StatusOr<std::shared_ptr<SharedReceiveQueue>>
VerbsDomain::CreateSharedReceiveQueue(Reactor* reactor, uint32_t entries,
                                      uint32_t max_sges) {
  if (!capabilities_.shared_receive_queue) {
    return MemoryDomain::CreateSharedReceiveQueue(reactor, entries, max_sges);
  }
  return VerbsSharedReceiveQueue::Create(shared_from_this(), reactor, entries,
                                         max_sges);
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
                      std::weak_ptr<VerbsQueuePair> qp) {
  std::lock_guard<std::mutex> lock(mutex_);
  queue_pairs_[number] = {reactor, std::move(qp)};
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
