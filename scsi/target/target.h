#ifndef SKIFF_SCSI_TARGET_TARGET_H_
#define SKIFF_SCSI_TARGET_TARGET_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "scsi/backend/backend.h"
#include "scsi/target/access_policy.h"
#include "scsi/target/command_counts.h"
#include "scsi/target/nexus_identity.h"
#include "scsi/target/nexus_state.h"
#include "scsi/target/task.h"
#include "transport/limited_log.h"
#include "transport/log/log.h"
#include "transport/reactor/reactor.h"

namespace skiff::scsi {

// What initiators see of a logical unit.
struct LogicalUnitOptions {
  uint64_t lun = 0;              // 0 .. 16383; peripheral or flat addressing.
  std::string vendor = "SKIFF";  // 8 characters at most.
  std::string product = "SKIFF DISK";  // 16.
  std::string revision = "1.0";        // 4.
  // Empty: the medium's identity; where it has none, derived from target name
  // and LUN.
  std::string serial = {};
  uint32_t max_transfer_bytes = 16u
                                << 20;  // VPD B0h; longer commands are refused.
  uint32_t max_tasks = 1024;            // Per nexus; beyond it TASK SET FULL.
};

// What one reactor gets for its tasks.
struct WorkerOptions {
  // Bounce buffers for backends without direct memory. Each I_T nexus has a
  // small one of its own and borrows the rest; tasks wait when there is none
  // for them.
  size_t buffer_pool_bytes = 64u << 20;
  size_t buffer_bytes =
      1u << 20;  // One buffer; longer commands go through in steps.
  // Tells of every operation of a medium that failed: which logical unit, what,
  // where, and the reason. Null: silent; a TargetServer gives its own.
  transport::LogSink log = nullptr;
  transport::LogLimits log_limits = {};  // For each logical unit.
  // How long a write may wait for its initiator's data while others wait for
  // what it holds: a buffer, or the blocks of a COMPARE AND WRITE. It then ends
  // in ABORTED COMMAND, INITIATOR RESPONSE TIMEOUT.
  absl::Duration data_patience = absl::Seconds(2);
  // Bytes a second, positive. An initiator that borrows a buffer for a read,
  // while others wait for such a buffer, has `data_patience` and then must take
  // data (of all its reads) at this rate at least. Its session ends otherwise.
  uint64_t min_read_rate = 64u << 10;
};

// How many operations of a medium failed, by what they were. Those that a
// command is made of count one by one.
struct IoFailures {
  uint64_t reads = 0;
  uint64_t writes = 0;
  uint64_t flushes = 0;
  uint64_t unmaps = 0;
  uint64_t write_zeroes = 0;
  uint64_t compare_and_writes = 0;

  // Of all kinds.
  uint64_t total() const {
    return reads + writes + flushes + unmaps + write_zeroes +
           compare_and_writes;
  }
};

// A logical unit, for operators.
struct LogicalUnitStatus {
  uint64_t lun = 0;
  std::string medium;  // BackendInfo::description.
  uint64_t size_bytes = 0;
  std::string serial;
  IoFailures failures;     // Since it was added.
  std::string data_loss;   // BackendInfo::data_loss.
  CommandCounts commands;  // Since it was added, of all initiators.
};

// How a worker's bounce buffers are used.
struct BufferUse {
  uint64_t total_bytes = 0;
  uint64_t held_bytes = 0;
  uint32_t waiting_tasks = 0;
  uint64_t given_up = 0;  // Writes whose data did not come in time, so far.
  uint64_t ended = 0;     // Buffers for which a nexus had to end, so far.
};

// One reactor's share of the SCSI layer: buffers and backend channels. Create
// one per reactor, on its thread or before it runs; destroy after its nexuses.
class Worker {
 public:
  // The reactor outlives the worker. Errors name the option that makes no
  // sense, or that there is no memory for the buffers.
  static absl::StatusOr<std::unique_ptr<Worker>> Create(
      transport::Reactor* reactor, const WorkerOptions& options);
  virtual ~Worker() = default;
  // The one that it was made with.
  virtual transport::Reactor* reactor() const = 0;
  // All bounce buffers: data of tasks are here or in direct memory, as a rule.
  // For ports that move them by RDMA.
  virtual absl::Span<uint8_t> buffer_memory() const = 0;
  // On the worker's thread.
  virtual BufferUse buffer_use() const = 0;
};

// SAM-5 section 7; the transport's codes are mapped by the port.
enum class TaskManagement : uint8_t {
  kAbortTask,
  kAbortTaskSet,
  kClearAca,
  kClearTaskSet,
  kLogicalUnitReset,
  kTargetReset,
};
// The service responses of SAM-5 section 7.1, and what the access policy says.
enum class TaskManagementResult : uint8_t {
  kFunctionComplete,
  kTaskDoesNotExist,
  kIncorrectLun,
  kNotSupported,
  kNotAuthorized,
};

// An I_T nexus: one initiator port seen through one target port, on one
// worker's reactor and used only there.
class Nexus {
 public:
  virtual ~Nexus() = default;  // Only after Close() ran its callback.

  // Send SCSI Command received. May complete the task from inside the call.
  virtual void Submit(Task* task) = 0;
  // Callbacks for what TargetPort was asked to do.
  virtual void OnDataOut(Task* task, bool ok) = 0;
  // `ok`: all of the data have left; else the task ends.
  virtual void OnDataInSent(Task* task, bool ok) = 0;
  // The port no longer refers to the task; its buffers are free.
  virtual void Release(Task* task) = 0;

  // `task` is used by kAbortTask only. The access policy is asked about resets,
  // which reach all other nexuses: of a target, about each logical unit that
  // this nexus has, and nothing is reset unless all may be. `done` runs on this
  // reactor once every affected task, on whichever reactor, is aborted; perhaps
  // from inside the call.
  virtual void Manage(TaskManagement function, uint64_t lun, Task* task,
                      absl::AnyInvocable<void(TaskManagementResult)> done) = 0;

  // The I_T nexus is lost (session ended): aborts all its tasks without
  // response, then runs `done` on this reactor. The port calls Release for each
  // as usual. Where it throws std::bad_alloc, it is called again, and goes on;
  // no `done` runs before.
  virtual void Close(absl::AnyInvocable<void()> done) = 0;

  // Since it was opened, of all logical units, also of those that were removed.
  virtual CommandCounts Counts() const = 0;

  // For another process to go on with it. FailedPrecondition: it has tasks, or
  // an ACA condition, which can't.
  virtual absl::StatusOr<NexusState> State() const {
    return absl::UnimplementedError("this nexus can't go on elsewhere");
  }
  // The nexus was opened just now, and is the one that had this state: the
  // initiator is not told of a reset. It is told of what differs meanwhile:
  // logical units that came, went or became others, and their capacities and
  // mode parameters.
  virtual void Restore(const NexusState& /*state*/) {}
};

// A medium that is memory, and what keeps it.
struct DirectMemory {
  uint8_t* data = nullptr;
  size_t size = 0;
  std::shared_ptr<const void> owner;
};

// Told that a logical unit is gone. It gets the target's reference to the
// backend: destroy it where that may block, or serve it again. Others may have
// references, too: another LUN, and sessions over RDMA that have registered its
// direct_memory(), until they end.
using LogicalUnitRemoved =
    absl::AnyInvocable<void(std::shared_ptr<Backend> backend)>;

// A SCSI target device: its logical units, shared by all its ports and
// reactors. Thread-safe.
class Target {
 public:
  // `name` is the SCSI device name (the iSCSI name). With the commands of
  // scsi/target/commands. `access` null: everybody may do everything.
  static std::unique_ptr<Target> Create(
      absl::string_view name, std::shared_ptr<AccessPolicy> access = nullptr);
  virtual ~Target() = default;  // Only when no nexus is left.

  // As it was created with; valid for the target's life.
  virtual absl::string_view name() const = 0;
  // Errors name the LUN. Open nexuses get the unit attention REPORTED LUNS DATA
  // HAS CHANGED.
  virtual absl::Status AddLogicalUnit(std::shared_ptr<Backend> backend,
                                      const LogicalUnitOptions& options) = 0;
  // Tasks of the logical unit are aborted, and new ones refused. The LUN can be
  // used again at once. NotFound: there is no such LUN, and `done` does not
  // run.
  //
  // Otherwise `done` runs once, when no nexus of any reactor has a task of the
  // logical unit, and its channels are gone. A backend that does not give back
  // its requests, and an initiator that does not take its data, are waited for.
  // It runs on the thread that lets go last: a reactor's as a rule, or this
  // one, perhaps before this returns, or one that looks at
  // LogicalUnitStatuses(). So it may neither block nor throw; no lock is held,
  // and it may call the target.
  virtual absl::Status RemoveLogicalUnit(uint64_t lun,
                                         LogicalUnitRemoved done) = 0;
  // The same for who need not know. The target's reference to the backend goes
  // on that thread: whoever has the last one finds its destructor run there.
  absl::Status RemoveLogicalUnit(uint64_t lun) {
    return RemoveLogicalUnit(lun, nullptr);
  }
  // Backend::info() of the LUN's backend changed, in whatever but the block
  // sizes, buffer_alignment, identity and data_loss: these stay as they were
  // when it was first served. It is read again; commands that start later see
  // it. Initiators get unit attentions for what they can see, for every LUN
  // here with that backend: MODE PARAMETERS CHANGED, INQUIRY DATA HAS CHANGED,
  // and CAPACITY DATA HAS CHANGED, also where nothing else differs. Another
  // target with it has the new size, too, and has to be told for its
  // initiators. Without such a LUN, nothing happens.
  virtual void NotifyBackendChanged(uint64_t lun) = 0;
  // Ascending.
  virtual std::vector<uint64_t> Luns() const = 0;
  // In the order of Luns().
  virtual std::vector<LogicalUnitStatus> LogicalUnitStatuses() const = 0;
  // The media that are memory and stay where they are, for ports that move data
  // by RDMA.
  virtual std::vector<DirectMemory> DirectMemories() const = 0;

  // AccessPolicy::IsThere, of who discovers or begins to log in. By any thread.
  virtual bool IsThereFor(const NexusIdentity& /*who*/) const { return true; }
  // The access policy answers otherwise from now on: every open nexus asks it
  // again, soon, on its reactor.
  //
  // - Who is not admitted any more loses all logical units at once, and its
  //   nexus ends (TargetPort::EndNexus).
  // - Commands to a logical unit that a nexus does not see any more, or under
  //   another LUN, are aborted.
  // - Where that changes a nexus's LUNs, it gets REPORTED LUNS DATA HAS
  //   CHANGED.
  // - What a nexus may do holds for the commands that start later.
  virtual void ReviewAccess() {}

  // For another process to go on with the target.
  virtual TargetState State() const { return {}; }
  // To be called before nexuses are opened. Mode parameters that a medium does
  // not take any more stay as they are: Nexus::Restore tells of it.
  virtual void Restore(const TargetState& /*state*/) {}

  // Asks the access policy, and returns what it says if that is an error. Call
  // on the worker's thread. `port` must outlive the nexus. When an
  // initiator port logs in anew, its next nexus is opened before the last one
  // is closed, and used after that.
  virtual absl::StatusOr<std::unique_ptr<Nexus>> OpenNexus(
      Worker* worker, TargetPort* port, const NexusIdentity& identity) = 0;
};

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_TARGET_TARGET_H_
