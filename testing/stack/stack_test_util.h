#ifndef SKIFF_TESTING_STACK_STACK_TEST_UTIL_H_
#define SKIFF_TESTING_STACK_STACK_TEST_UTIL_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "protocol/initiator/initiator.h"
#include "protocol/target/target_server.h"
#include "scsi/initiator/cdb.h"
#include "scsi/initiator/command.h"
#include "scsi/target/target.h"
#include "testing/sim/guard_pages.h"
#include "testing/sim/sim_random.h"
#include "transport/reactor/reactor.h"
#include "transport/registry.h"

namespace skiff::protocol {

inline constexpr char kTargetName[] = "iqn.2001-04.com.example:disk";
inline constexpr uint32_t kBlock = 512;
inline constexpr uint64_t kBlocks = 16384;  // 8 MiB.

// A target with one logical unit in memory, which RDMA devices register once
// unless it is thin.
std::shared_ptr<scsi::Target> MakeRamTarget(bool thin = true);

// What keeps a port busy: random reads and writes of its logical unit, several
// at once on disjoint ranges, every read compared with what was last written.
// Their memory lies between guard pages.
// Unit attentions and BUSY are answered by trying again, as SAM-5 wants it.
class VerifiedLoad {
 public:
  struct Options {
    uint32_t depth = 16;
    uint32_t max_blocks = 64;
    uint64_t commands = 400;  // Unless told to finish before.
    int pieces = 3;           // Iovecs of one command.
    uint64_t lun = 0;         // As in PDUs.
  };
  VerifiedLoad(scsi::CommandPort* port, testing::SimRandom* random,
               const Options& options);

  void Start();
  // Those that were begun are the last ones.
  void Finish() { commands_ = started_; }
  bool done() const { return completed_ == commands_; }
  uint64_t completed() const { return completed_; }
  // How often a command was tried again as the target had no room for it.
  uint64_t busy() const { return busy_; }
  // Commands that ended with something else than GOOD.
  const std::vector<std::string>& errors() const { return errors_; }
  uint64_t unit_attentions() const { return unit_attentions_; }

 private:
  struct Slot {
    VerifiedLoad* load = nullptr;
    uint32_t index = 0;
    scsi::Command command;
    std::vector<iovec> iov;
    std::unique_ptr<testing::GuardPages> buffer;
    uint64_t lba = 0;
    uint32_t blocks = 0;
    bool write = false;
  };
  void Submit(Slot* slot);
  void OnDone(Slot* slot);
  void Check(Slot* slot);

  scsi::CommandPort* const port_;
  testing::SimRandom* const random_;
  const Options options_;
  std::string medium_;  // What the logical unit must hold.
  std::deque<Slot> slots_;
  uint64_t commands_;
  uint64_t started_ = 0;
  uint64_t completed_ = 0;
  uint64_t unit_attentions_ = 0;
  uint64_t busy_ = 0;
  std::vector<std::string> errors_;
};

// It ended with a unit attention.
bool IsUnitAttention(const scsi::Command& command);

// A command with one buffer.
struct TestCommand {
  TestCommand(const scsi::Cdb& cdb, uint32_t in, const std::string& out = "");
  scsi::Command command;
  std::string buffer;
  iovec iov;
  bool finished = false;
};

// A target server and an initiator, joined by a network of some kind. The
// initiator's reactor is turned by the test, inside RunUntil() and what waits
// by it; the server may have threads of its own.
class Stack {
 public:
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;
  virtual ~Stack() = default;

  // Options for the target of this stack; a fixed ISID and fixed chances.
  virtual InitiatorOptions Options() const;
  // Starts an initiator; `ready()` has its outcome once there is one.
  void Connect(const InitiatorOptions& options);
  // Connects and waits until it is in full feature phase.
  void LogIn() { LogIn(Options()); }
  void LogIn(const InitiatorOptions& options);
  const std::optional<absl::Status>& ready() const { return ready_; }

  // Runs the command to its end.
  void Run(scsi::Command* command);
  // Runs it again while unit attentions are told, and expects GOOD.
  void RunToGood(TestCommand* command);
  // Runs it to its end, and expects that nothing went wrong.
  void RunLoad() { RunLoad(VerifiedLoad::Options()); }
  void RunLoad(const VerifiedLoad::Options& options);
  // Waits for what `start` promises.
  absl::Status Await(
      const std::function<void(absl::AnyInvocable<void(absl::Status)>)>& start);
  // Returns whether it is done in time.
  bool RunUntil(const std::function<bool()>& done) {
    return RunUntil(done, patience_);
  }
  bool RunUntil(const std::function<bool()>& done, absl::Duration limit) {
    return Turn(done, limit);
  }
  virtual void RunFor(absl::Duration duration) = 0;

  // With the target and the options below.
  void StartServer();
  void StopServer(absl::Duration grace = absl::ZeroDuration());
  // As the server lists them: the newest is the last.
  std::vector<SessionInfo> Sessions();
  ServerCounts Counts();
  // Has the server listen there, too. Returns the address, with its port.
  std::string Listen(const std::string& address);

  // Moves to another host: `initiator` is nobody then. The one that was lives
  // on until this stack ends, but neither hears nor says anything any more.
  void LeaveHost();
  // For portals of byte streams on the host of the server.
  virtual std::string StreamAddress() const = 0;

  // What the initiator, or the next one, lives on.
  virtual transport::Reactor* initiator_reactor() = 0;
  virtual testing::SimRandom& random() = 0;

  std::string portal;
  transport::Registry registry;
  std::shared_ptr<scsi::Target> target;
  TargetServerOptions server_options;  // `log` is called from any thread.
  std::unique_ptr<TargetServer> server;
  std::unique_ptr<Initiator> initiator;
  std::vector<std::string> log;  // Of the initiator.

 protected:
  // `patience`: how long to wait where the test does not say.
  Stack(std::string address, absl::Duration patience);

  virtual bool Turn(const std::function<bool()>& done,
                    absl::Duration limit) = 0;
  virtual std::vector<transport::Reactor*> ServerReactors() = 0;
  // `initiator_reactor()` is another one then, and what lives on the earlier
  // one is cut off.
  virtual void MoveToNewHost() = 0;
  // On the thread of the server's first reactor.
  virtual void RunOnServer(absl::FunctionRef<void()> fn) = 0;
  // For destructors: what is here goes before what it lives on.
  void End();

 private:
  const absl::Duration patience_;
  std::optional<absl::Status> ready_;
  std::vector<std::unique_ptr<Initiator>> left_behind_;
  // Whose commands end with their initiator.
  std::vector<std::unique_ptr<VerifiedLoad>> unfinished_;
};

}  // namespace skiff::protocol

#endif  // SKIFF_TESTING_STACK_STACK_TEST_UTIL_H_
