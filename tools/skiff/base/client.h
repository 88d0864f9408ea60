#ifndef SKIFF_TOOLS_SKIFF_BASE_CLIENT_H_
#define SKIFF_TOOLS_SKIFF_BASE_CLIENT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "protocol/auth/chap.h"
#include "protocol/initiator/initiator.h"
#include "scsi/initiator/command.h"
#include "tools/common/endpoint.h"
#include "tools/common/trace_file.h"
#include "tools/skiff/base/options.h"
#include "tools/skiff/base/report.h"
#include "transport/address.h"
#include "transport/auto/choice_report.h"
#include "transport/reactor/reactor_threads.h"
#include "transport/registry.h"

namespace skiff::tools {

class Session;

// The program's initiator: transports, reactors, settings. One thread's.
class Client {
 public:
  // `reactors` threads, for as many concurrent sessions as one likes.
  static absl::StatusOr<std::unique_ptr<Client>> Create(
      const CommonOptions& options, int reactors = 1);
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() = default;  // Only when all sessions are gone.

  // Logs in, on one of the reactors. Errors say what to do, and for a target
  // that is not there, which ones are.
  absl::StatusOr<std::unique_ptr<Session>> Connect(const Endpoint& endpoint,
                                                   const std::string& target,
                                                   int reactor = 0);
  // Asks a portal for its targets.
  absl::StatusOr<std::vector<protocol::DiscoveredTarget>> Discover(
      const Endpoint& endpoint);

  transport::ReactorThreads* threads() { return threads_.get(); }

 private:
  Client() = default;
  friend class Session;
  absl::Status CheckAddress(const transport::Address& portal) const;
  void NoteChoice(const transport::ChoiceReport& report);
  // Why the last connection to a portal is not over RDMA although that was
  // preferred; empty if it is.
  std::string WhyNoRdma(const transport::Address& portal) const;
  // Why no transport connected when there was a choice; empty if one did.
  std::string WhyNotConnected(const transport::Address& portal) const;
  absl::StatusOr<std::unique_ptr<Session>> Login(
      const transport::Address& portal, const std::string& target,
      absl::optional<protocol::ChapInitiatorOptions> chap, int reactor);
  absl::Status ReadSecrets();
  // With the secrets that files have.
  absl::StatusOr<absl::optional<protocol::ChapInitiatorOptions>> ChapFor(
      Endpoint endpoint) const;
  // Adds advice to why a login failed.
  absl::Status Explain(const absl::Status& failure, const Endpoint& endpoint,
                       const std::string& target);

  CommonOptions options_;
  protocol::ChapSecret password_;
  absl::optional<protocol::ChapCredential> target_user_;
  std::unique_ptr<TraceFile> trace_;  // Outlives all that writes to it.
  transport::CaptureSink capture_;    // Null without one.
  mutable std::mutex choices_mutex_;  // Reactors note what they chose.
  std::map<std::string, std::string> why_no_rdma_;  // By address.
  std::map<std::string, std::string> why_not_;      // The same.
  transport::Registry registry_;
  std::unique_ptr<transport::ReactorThreads> threads_;
};

// A session with one target, or for discovery. Its calls block; they come from
// the thread of the Client.
class Session {
 public:
  Session(const Client* client, const transport::Address& portal, int reactor);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  // Logs out; no command may be pending. With CommonOptions::verbose, tells
  // Report() before.
  ~Session();

  protocol::Initiator* initiator() { return initiator_.get(); }
  transport::Reactor* reactor() { return threads_->reactor(reactor_); }
  // Runs `fn` on the session's reactor, and waits for it.
  void RunOnReactor(absl::FunctionRef<void()> fn) {
    threads_->RunOn(reactor_, fn);
  }

  using Done = absl::AnyInvocable<void(absl::Status)>;
  // Starts something on the session's reactor, and waits until it calls its
  // argument.
  absl::Status Await(absl::FunctionRef<void(Done)> start);
  // Sends a command, again where that helps (Repeats), and waits for its end.
  // The status is scsi::CommandStatus()'s.
  absl::Status Run(scsi::Command* command);

  // Buffers of many commands; see protocol::Initiator::UseMemory().
  void UseMemory(absl::Span<uint8_t> memory, std::shared_ptr<const void> owner);

  // What the session runs on, for people: "iSCSI over tcp".
  std::string Describe();
  // All of it, as it is now.
  SessionReport Report();

 private:
  friend class Client;

  const Client* const client_;
  const transport::Address portal_;
  transport::ReactorThreads* const threads_;
  const int reactor_;
  std::unique_ptr<protocol::Initiator> initiator_;
  bool logged_in_ = false;
};

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_SKIFF_BASE_CLIENT_H_
