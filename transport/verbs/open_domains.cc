#include "transport/verbs/open_domains.h"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "transport/verbs/verbs_completion_queue.h"
#include "transport/verbs/verbs_memory.h"
#include "transport/verbs/verbs_shared_receive_queue.h"
#include "transport/verbs/verbs_status.h"

namespace skiff::transport {
namespace {

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

// A domain with what can be made of it.
class OpenDomain final : public VerbsDomain {
 public:
  static absl::StatusOr<std::shared_ptr<VerbsDomain>> Open(ibv_device* device);

  absl::StatusOr<std::unique_ptr<MemoryRegion>> Register(
      void* data, size_t size, Access access) override {
    return VerbsRegion::Create(shared_from_this(), data, size, access);
  }
  absl::StatusOr<std::unique_ptr<MemoryWindow>> AllocateWindow() override {
    if (!capabilities().memory_windows) return MemoryDomain::AllocateWindow();
    return VerbsWindow::Create(shared_from_this());
  }
  absl::StatusOr<std::shared_ptr<CompletionQueue>> CreateCompletionQueue(
      Reactor* reactor, uint32_t entries) override {
    return VerbsCompletionQueue::Create(shared_from_this(), reactor, entries);
  }
  absl::StatusOr<std::shared_ptr<SharedReceiveQueue>> CreateSharedReceiveQueue(
      Reactor* reactor, uint32_t entries, uint32_t max_sges) override {
    if (!capabilities().shared_receive_queue) {
      return MemoryDomain::CreateSharedReceiveQueue(reactor, entries, max_sges);
    }
    return VerbsSharedReceiveQueue::Create(shared_from_this(), reactor, entries,
                                           max_sges);
  }

 private:
  explicit OpenDomain(ibv_context* context) : VerbsDomain(context) {}
};

absl::StatusOr<std::shared_ptr<VerbsDomain>> OpenDomain::Open(
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
    std::shared_ptr<OpenDomain> domain(new OpenDomain(context));
    status = domain->Initialize();
    if (!status.ok()) return status;
    return domain;
  }
  return absl::UnavailableError(absl::StrCat(name, " was removed"));
}

bool IsOf(const VerbsDomain& domain, ibv_device* device) {
  return SameDevice(domain.context()->device, device);
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

absl::StatusOr<std::shared_ptr<VerbsDomain>> DomainOf(ibv_device* device) {
  OpenDomains& open = Domains();
  std::lock_guard<std::mutex> lock(open.mutex);
  std::weak_ptr<VerbsDomain>& known =
      open.by_device[ibv_get_device_name(device)];
  std::shared_ptr<VerbsDomain> domain = known.lock();
  if (domain != nullptr && !domain->removed() && IsOf(*domain, device)) {
    return domain;
  }
  auto opened = OpenDomain::Open(device);
  if (!opened.ok()) return opened;
  // Nobody has heard of the removal of another one.
  if (domain != nullptr) domain->SetRemoved();
  known = *opened;
  return opened;
}

void SetDomainRemoved(ibv_device* device) {
  OpenDomains& open = Domains();
  std::lock_guard<std::mutex> lock(open.mutex);
  const auto known = open.by_device.find(ibv_get_device_name(device));
  if (known == open.by_device.end()) return;
  const auto domain = known->second.lock();
  if (domain != nullptr && IsOf(*domain, device)) domain->SetRemoved();
}

}  // namespace skiff::transport
