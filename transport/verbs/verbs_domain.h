#ifndef SKIFF_TRANSPORT_VERBS_VERBS_DOMAIN_H_
#define SKIFF_TRANSPORT_VERBS_VERBS_DOMAIN_H_

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "transport/memory.h"
#include "transport/reactor/reactor.h"
#include "transport/system/background.h"
#include "transport/verbs/device_facts.h"

namespace skiff::transport {

class VerbsQueuePair;
class VerbsDomain;

// Takes a device's asynchronous events (ibv_get_async_event(3)) on one reactor.
// Every reactor that uses the device watches; whoever is first passes an event
// on to the reactors that it concerns.
class AsyncWatch final : private FdHandler {
 public:
  static absl::StatusOr<std::shared_ptr<AsyncWatch>> Create(
      std::shared_ptr<VerbsDomain> domain, Reactor* reactor);
  ~AsyncWatch() override;

 private:
  AsyncWatch(std::shared_ptr<VerbsDomain> domain, Reactor* reactor, int fd);
  void OnFdReady(uint32_t events) override;

  const std::shared_ptr<VerbsDomain> domain_;
  Reactor* const reactor_;
  const int fd_;  // A duplicate: an epoll set takes each number once.
};

// A device: its context and protection domain, as the process shares them.
// Thread-safe.
//
// The device is opened apart from librdmacm, which opens it too and closes it
// when it was removed: memory regions may outlive their connections.
class VerbsDomain final : public MemoryDomain,
                          public std::enable_shared_from_this<VerbsDomain> {
 public:
  // The domain of the device, opened if need be. Not of another one that has
  // the same name, as one that came back has: where `device` is not the one
  // that is there, it was removed.
  static absl::StatusOr<std::shared_ptr<VerbsDomain>> Get(ibv_device* device);
  ~VerbsDomain() override;

  const Capabilities& capabilities() const override { return capabilities_; }
  std::string name() const override { return facts_.name; }
  absl::StatusOr<std::unique_ptr<MemoryRegion>> Register(
      void* data, size_t size, Access access) override;
  absl::StatusOr<std::unique_ptr<MemoryWindow>> AllocateWindow() override;
  absl::StatusOr<std::shared_ptr<CompletionQueue>> CreateCompletionQueue(
      Reactor* reactor, uint32_t entries) override;
  absl::StatusOr<std::shared_ptr<SharedReceiveQueue>> CreateSharedReceiveQueue(
      Reactor* reactor, uint32_t entries, uint32_t max_sges) override;

  ibv_context* context() const { return context_; }
  ibv_pd* pd() const { return pd_; }
  const DeviceFacts& facts() const { return facts_; }

  // `queue_pair` hears of its device's events on `reactor`, until removed.
  absl::StatusOr<std::shared_ptr<AsyncWatch>> Watch(Reactor* reactor);
  void Add(uint32_t number, Reactor* reactor, std::weak_ptr<VerbsQueuePair> qp);
  void Remove(uint32_t number);

  // Destroys an object of the device on a thread for that: a driver may wait
  // for what its peer does, or for tens of seconds (Soft-RoCE, while somebody
  // still holds the queue pair's packets). In order, so that queue pairs go
  // before their completion queue; the domain stays until then.
  void DestroyLater(absl::AnyInvocable<void()> destroy);
  // How many are not destroyed yet.
  size_t destroying() const {
    return background_->pending() + cm_destroyer_->pending();
  }

  // The device is gone: a later Get() looks again.
  void SetRemoved() { removed_ = true; }
  bool removed() const override { return removed_; }
  // The same for whoever has no domain: of the device, if the process uses it.
  static void SetRemoved(ibv_device* device);
  void TakeAsyncEvent();

 private:
  struct Listed {
    Reactor* reactor;
    std::weak_ptr<VerbsQueuePair> queue_pair;
  };

  explicit VerbsDomain(ibv_context* context) : context_(context) {}
  static absl::StatusOr<std::shared_ptr<VerbsDomain>> Open(ibv_device* device);
  absl::Status Initialize();
  bool IsOf(ibv_device* device) const;
  void Post(const Listed& listed, const ibv_async_event& event);

  ibv_context* const context_;
  ibv_pd* pd_ = nullptr;
  ibv_cq* placeholder_ = nullptr;  // Soft-iWARP only.
  DeviceFacts facts_;
  BackgroundThread* background_ = nullptr;
  BackgroundThread* cm_destroyer_ = nullptr;  // Of its connections' ids.
  Capabilities capabilities_;
  std::atomic<bool> removed_{false};

  std::mutex mutex_;
  std::map<uint32_t, Listed> queue_pairs_;                 // By QP number.
  std::map<Reactor*, std::weak_ptr<AsyncWatch>> watches_;  // One for each.
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_VERBS_VERBS_DOMAIN_H_
