#ifndef SKIFF_TOOLS_LIBRARY_SESSION_H_
#define SKIFF_TOOLS_LIBRARY_SESSION_H_

#include <skiff/disk.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protocol/initiator/initiator.h"
#include "tools/common/endpoint.h"
#include "tools/library/context.h"
#include "tools/library/memory.h"

namespace skiff::library {

// Reads options of a disk of `context`. 0, or a remembered error.
int ReadDiskOptions(const Context& context, const skiff_disk_options* given,
                    skiff_disk_options* known);
// On which reactor of `context` it is to live.
uint32_t ReactorOf(Context* context, const skiff_disk_options& options);

// Parses a URL, looks whether its transport is there, and loads what that
// needs. Any thread; may take long.
absl::StatusOr<tools::Endpoint> ParseUrl(const Context& context,
                                         const std::string& url);
// Remembers what ParseUrl() said.
int FailUrl(const absl::Status& status);

// What a session is made with. Copies all.
protocol::InitiatorOptions MakeInitiatorOptions(
    const tools::Endpoint& endpoint, const skiff_disk_options& given);

// An initiator's session, which disks share. Created anywhere; all else is on
// the thread of its reactor.
class Session : public MemoryUser {
 public:
  // Told of what happens to the session.
  class Listener {
   public:
    virtual ~Listener() = default;
    // May leave the session, also for others.
    virtual void OnChange(protocol::SessionChange change,
                          const absl::Status& why) = 0;
  };

  // The context outlives it.
  Session(Context* context, uint32_t reactor)
      : context_(context), reactor_(reactor) {}
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() override;

  uint32_t reactor() const { return reactor_; }
  // Valid from Connect() on, until the last one left.
  protocol::Initiator* initiator() const { return initiator_.get(); }

  // Logs in, to a target or for discovery. `on_ready` runs in a later turn,
  // unless the session is left before.
  void Connect(protocol::InitiatorOptions options,
               absl::AnyInvocable<void(absl::Status)> on_ready);
  // The session stays while there are listeners.
  void Join(Listener* listener) { listeners_.push_back(listener); }
  // `done` runs in a later turn: for the last one, when it was logged out. It
  // may destroy the session.
  void Leave(Listener* listener, absl::AnyInvocable<void()> done);

  void UseMemory(void* data, size_t size,
                 const std::shared_ptr<const void>& owner) override;
  void ForgetMemory(void* data, size_t size) override;

 private:
  void OnChange(protocol::SessionChange change, const absl::Status& why);
  void End(absl::AnyInvocable<void()> done);

  Context* const context_;
  const uint32_t reactor_;
  std::vector<Listener*> listeners_;
  std::unique_ptr<protocol::Initiator> initiator_;
};

}  // namespace skiff::library

#endif  // SKIFF_TOOLS_LIBRARY_SESSION_H_
