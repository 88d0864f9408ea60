#ifndef SKIFF_TRANSPORT_VERBS_CM_CHANNEL_H_
#define SKIFF_TRANSPORT_VERBS_CM_CHANNEL_H_

#include <rdma/rdma_cma.h>

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "transport/reactor/reactor.h"
#include "transport/system/background.h"
#include "transport/verbs/verbs_options.h"

namespace skiff::transport {

// A copy of what rdma_get_cm_event(3) said, acknowledged already.
struct CmEvent {
  struct Device {
    std::string name;
    int index = 0;  // ibv_get_device_index(3).
    auto operator<=>(const Device&) const = default;
  };

  rdma_cm_event_type type = RDMA_CM_EVENT_ADDR_RESOLVED;
  int status = 0;
  rdma_cm_id* id = nullptr;  // Of a connection request: the new one.
  std::vector<uint8_t> private_data;
  uint32_t initiator_depth = 0;      // READs that we may have outstanding.
  uint32_t responder_resources = 0;  // And the peer.
  Device device;                     // Of a removal: which, if it is known.
};

// The thread that destroys the ids of a device ("": of none), in order.
BackgroundThread* CmDestroyer(absl::string_view device);

class CmHandler {
 public:
  virtual ~CmHandler() = default;
  virtual void OnCmEvent(const CmEvent& event) = 0;
};

// The connection manager's event channel of one reactor, for everything there
// that has the same settings. Whoever has an id on it keeps it alive. Not
// thread-safe but for ForReactor().
class CmChannel final : public std::enable_shared_from_this<CmChannel>,
                        private FdHandler {
 public:
  // The channel of `reactor` with these settings, made if need be. From another
  // thread than the reactor's, the result may only be handed on to that.
  static absl::StatusOr<std::shared_ptr<CmChannel>> ForReactor(
      Reactor* reactor, const VerbsOptions& settings);
  ~CmChannel() override;

  // Before anything else, on the reactor's thread.
  absl::Status Watch();
  rdma_event_channel* channel() const { return channel_.get(); }
  // For what may outlive this.
  std::shared_ptr<rdma_event_channel> shared_channel() const {
    return channel_;
  }
  Reactor* reactor() const { return reactor_; }
  const VerbsOptions& settings() const { return settings_; }

  void SetHandler(rdma_cm_id* id, CmHandler* handler);
  void Forget(rdma_cm_id* id) { handlers_.erase(id); }

 private:
  CmChannel(Reactor* reactor, rdma_event_channel* channel,
            const VerbsOptions& settings);
  void OnFdReady(uint32_t events) override;
  void OnEvent(const CmEvent& event, rdma_cm_id* addressee);

  Reactor* const reactor_;
  const std::shared_ptr<rdma_event_channel> channel_;
  const VerbsOptions settings_;
  bool watched_ = false;
  std::map<rdma_cm_id*, CmHandler*> handlers_;
};

// Owns an id. It has a handler, and then lives on its channel's reactor, or has
// none, and may be moved to another thread.
class CmId {
 public:
  CmId() = default;
  CmId(CmId&& other) noexcept;
  CmId& operator=(CmId&& other) noexcept;
  ~CmId() { Reset(); }

  static absl::StatusOr<CmId> Create(std::shared_ptr<CmChannel> channel);
  // An id that came with a connection request.
  CmId(std::shared_ptr<CmChannel> channel, rdma_cm_id* id);

  rdma_cm_id* get() const { return id_; }
  CmChannel* channel() const { return channel_.get(); }
  void SetHandler(CmHandler* handler);
  // Takes an id without handler to another reactor's channel.
  absl::Status Migrate(std::shared_ptr<CmChannel> channel);
  // The id is destroyed soon, by another thread: a reactor cannot wait for
  // that.
  void Reset();

 private:
  std::shared_ptr<CmChannel> channel_;
  rdma_cm_id* id_ = nullptr;
  bool handled_ = false;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_VERBS_CM_CHANNEL_H_
