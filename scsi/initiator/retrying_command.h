#ifndef SKIFF_SCSI_INITIATOR_RETRYING_COMMAND_H_
#define SKIFF_SCSI_INITIATOR_RETRYING_COMMAND_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "scsi/initiator/command.h"
#include "scsi/sense.h"
#include "transport/reactor/reactor.h"

namespace skiff::scsi {

// What is tried again, and for how long. Answers of the device that say that
// trying again makes sense: UNIT ATTENTION and ABORTED COMMAND at once; BUSY,
// TASK SET FULL, TASK ABORTED and NOT READY, BECOMING READY after a pause that
// doubles from the first to the longest. Commands that the session's own task
// management ended for another's sake, such as a reset for one that did not
// end. And those that timed out and of which the target says that they have
// ended: targets do lose answers (Linux's does, at resets by others). Lost
// sessions are the session's own business.
struct RetryOptions {
  int max_retries = 12;  // About five seconds with these delays.
  // Those of them after a timeout. Each can take as long again as the first
  // attempt: the session's command_timeout, and what it takes to abort. With 0,
  // each timeout is reported; for targets that may still carry out a command
  // that they have called ended, so that an old write could follow a newer one.
  int max_timeouts = 1;
  absl::Duration first_delay = absl::Milliseconds(10);
  absl::Duration max_delay = absl::Seconds(1);
};

// A command that tries again. Owned by its user and reused without allocation.
// Lives on one reactor.
class RetryingCommand {
 public:
  // What all commands of one user share; must outlive them.
  struct Environment {
    CommandPort* port = nullptr;
    transport::Reactor* reactor = nullptr;
    uint64_t lun = 0;
    RetryOptions retry;
    // Sees each unit attention. May be null.
    std::function<void(const SenseData&)> on_unit_attention;
    // Sees each RECOVERED ERROR, with which a command succeeds. May be null.
    std::function<void(const SenseData&)> on_recovered_error;
  };
  // What runs at the end.
  using Done = void (*)(RetryingCommand* command);

  // `done` runs with status() final; never from inside Start().
  RetryingCommand(const Environment* environment, Done done, void* context);
  RetryingCommand(const RetryingCommand&) = delete;
  RetryingCommand& operator=(const RetryingCommand&) = delete;
  ~RetryingCommand();  // Only when not running.

  // Fill in the CDB and the data buffers, then Start(). The rest is
  // overwritten.
  Command* command() { return &command_; }
  // The answer to the last attempt, valid once it ended.
  const Command& result() const { return command_; }
  // Whether executing the command twice is as good as once: otherwise an answer
  // that leaves open whether it was executed is final, and so is the lack of
  // one. Reset to true by Prepare().
  void set_idempotent(bool idempotent) { command_.idempotent = idempotent; }
  // What the constructor was given.
  void* context() const { return context_; }

  // Resets the request part.
  void Prepare();
  // From now on it belongs to another user, on the same reactor. Only when not
  // running.
  void SetEnvironment(const Environment* environment) {
    environment_ = environment;
  }
  // Only when not running.
  void Start();
  // Gives up: aborts the command, or ends the pause before the next attempt, in
  // which case `done` runs from inside the call.
  void Stop();
  // From Start() until `done` runs.
  bool running() const { return running_; }

  // How it ended, in words; valid when `done` runs.
  const absl::Status& status() const { return status_; }
  // With OK: how many bytes of data-in arrived.
  uint32_t received() const;

 private:
  enum class Verdict : uint8_t { kFinal, kRetryNow, kRetryLater };

  void Attempt();
  void OnDone();
  void TellSense();
  Verdict Judge();
  void Finish(absl::Status status);
  absl::Duration NextDelay();

  const Environment* environment_;
  const Done done_;
  void* const context_;
  Command command_;
  transport::Timer timer_;
  bool running_ = false;
  bool stopped_ = false;
  int retries_ = 0;
  int timeouts_ = 0;
  absl::Duration delay_;
  absl::Status status_;
};

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_INITIATOR_RETRYING_COMMAND_H_
