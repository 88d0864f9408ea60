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

class VerbsDomain;

// Who hears of what a device says of its own accord.
class AsyncEventSink {
 public:
  virtual ~AsyncEventSink() = default;
  virtual void OnAsyncEvent(ibv_event_type type, int port) = 0;
};

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
//
// open_domains.h has the process' domains. What they make, memory and queues,
// knows its domain; the domain itself knows of none of it.
class VerbsDomain : public MemoryDomain,
                    public std::enable_shared_from_this<VerbsDomain> {
 public:
  ~VerbsDomain() override;

  const Capabilities& capabilities() const final { return capabilities_; }
  std::string name() const final { return facts_.name; }

  ibv_context* context() const { return context_; }
  ibv_pd* pd() const { return pd_; }
  const DeviceFacts& facts() const { return facts_; }

  // The queue pair of this number hears of its device's events on `reactor`,
  // until removed.
  absl::StatusOr<std::shared_ptr<AsyncWatch>> Watch(Reactor* reactor);
  void Add(uint32_t number, Reactor* reactor,
           std::weak_ptr<AsyncEventSink> queue_pair);
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

  // The device is gone: a later DomainOf() looks again.
  void SetRemoved() { removed_ = true; }
  bool removed() const final { return removed_; }
  void TakeAsyncEvent();

 protected:
  explicit VerbsDomain(ibv_context* context) : context_(context) {}
  absl::Status Initialize();

 private:
  struct Listed {
    Reactor* reactor;
    std::weak_ptr<AsyncEventSink> queue_pair;
  };

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
