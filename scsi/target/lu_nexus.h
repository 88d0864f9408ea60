#ifndef SKIFF_SCSI_TARGET_LU_NEXUS_H_
#define SKIFF_SCSI_TARGET_LU_NEXUS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "scsi/sense.h"
#include "scsi/target/access_policy.h"
#include "scsi/target/command_counters.h"
#include "scsi/target/command_set.h"
#include "scsi/target/task.h"
#include "scsi/target/task_set.h"
#include "scsi/target/unit_attention.h"
#include "scsi/target/worker_impl.h"
#include "scsi/target/write_guard.h"

namespace skiff::scsi {

class NexusImpl;

// One I_T_L nexus: the device server, task set and unit attentions that one
// initiator port meets in one logical unit. Lives on the nexus's reactor.
//
// A command is a chain of functions. The first is CommandInfo::start; each ends
// by completing the task, or by starting something and naming in Task::resume
// what follows. Whatever is awaited (a transfer, I/O, a buffer, the write
// guard), an abort finds the task in one of these states and ends it as soon as
// nothing outside refers to it any more.
class LuNexus final : public WriteGuard::Member::Writes {
 public:
  enum class Kind : uint8_t {
    kBlockDevice,
    kReportLuns,  // The REPORT LUNS well-known logical unit.
    kNone,        // Stands for every LUN that has no logical unit.
  };
  // What all LuNexuses of an I_T nexus share. All of it outlives them.
  struct Home {
    NexusImpl* nexus = nullptr;
    TargetPort* port = nullptr;
    BufferPool* buffers = nullptr;
    BufferAccount* account = nullptr;
    const CommandSet* commands = nullptr;
    AccessPolicy* access = nullptr;
    const NexusIdentity* identity = nullptr;
    const transport::Reactor* reactor = nullptr;
    CommandTotals* totals = nullptr;
  };
  // `lu_worker` is null but for kBlockDevice. `seen` is the LUN that the
  // initiator knows it by.
  LuNexus(const Home& home, Kind kind, std::shared_ptr<LuWorker> lu_worker,
          uint64_t seen, uint32_t max_tasks);
  LuNexus(const LuNexus&) = delete;
  LuNexus& operator=(const LuNexus&) = delete;
  ~LuNexus() override;

  // --- For NexusImpl.
  void Submit(Task* task);
  void OnTransferDone(Task* task, bool ok);
  void Release(Task* task);
  // False: the task is not in the task set any more.
  bool AbortTask(Task* task);
  void AbortAll(bool respond);
  // Aborts the ACA task; what the condition blocked goes on.
  void ClearAca();
  // Asks the policy again what holds for commands that start later.
  void ReviewRights();
  // Asks the policy: a reset reaches the tasks of every other nexus.
  bool MayReset();
  // The effects of a logical unit reset on this nexus.
  void Reset(bool respond);
  // The I_T nexus is lost, or the logical unit was removed: no command is
  // accepted any more.
  void Shut(bool respond);
  // Keeps `token` until no aborted task is waited for.
  void HoldUntilAborted(std::shared_ptr<void> token);
  // The next one takes no memory.
  void ReserveToken() {
    if (!idle()) tokens_.reserve(tokens_.size() + 1);
  }
  void Establish(AdditionalSense unit_attention) {
    unit_attentions_.Establish(unit_attention);
  }
  // Tasks that the port still refers to.
  bool idle() const { return counters_.in_flight() == 0; }
  bool shut() const { return shut_; }
  bool aca() const { return task_set_.aca(); }
  uint64_t seen() const { return seen_; }
  // Calls `visit` for each task that the write guard counts.
  void ForEachGuarded(Visitor visit) override;

  // --- For the commands.
  Kind kind() const { return kind_; }
  NexusImpl& nexus() const { return *home_.nexus; }
  const CommandSet& commands() const { return *home_.commands; }
  // Whether this kind of logical unit, with this medium, has the command.
  bool Implements(const CommandInfo& info) const;
  LogicalUnit& lu() const { return *lu_; }
  const std::shared_ptr<LogicalUnit>& shared_lu() const {
    return lu_worker_->shared_lu();
  }
  UnitAttentions& unit_attentions() { return unit_attentions_; }
  SenseFormat sense_format() const;
  // Whether writes through this nexus meet DATA PROTECT.
  bool write_protected() const;

  // Command completion. The last thing a command does with its task.
  void Good(Task* task) { Finish(task, nullptr, 0); }
  // With data that stay where they are until the task is released: `wanted`
  // bytes by the CDB, of which the initiator gets what it has room for.
  void GoodWithData(Task* task, const uint8_t* data, uint64_t wanted) {
    task->data_in_wanted = wanted;
    Finish(task, data,
           static_cast<uint32_t>(
               wanted < task->data_in_length ? wanted : task->data_in_length));
  }
  // With status, sense and wanted lengths as they are in the task, and the last
  // `length` data bytes, which go to Task::progress.
  void Finish(Task* task, const uint8_t* data, uint32_t length);
  void CheckCondition(Task* task, const SenseData& sense);
  void CheckCondition(Task* task, SenseKey key, AdditionalSense code);
  // ILLEGAL REQUEST, INVALID FIELD IN CDB. `bit` < 0: the byte as a whole.
  void InvalidCdbField(Task* task, uint16_t byte, int bit = -1);
  void InvalidParameter(Task* task, uint16_t byte, int bit = -1);

  // Each returns true when the caller goes on at once; else `resume` runs later
  // (with the buffer, the data, or the result in Task::io), unless the task
  // was aborted. One transfer and one I/O may be under way together; then the
  // same `resume` runs after each, and Task::in_flight tells when both are
  // done.
  bool AcquireBuffer(Task* task, uint64_t bytes, void (*resume)(Task*)) {
    return AcquireBuffer(task, bytes, /*in_steps=*/false, resume);
  }
  // For a command that can go through a smaller buffer in steps.
  bool AcquireBufferForSteps(Task* task, uint64_t bytes,
                             void (*resume)(Task*)) {
    return AcquireBuffer(task, bytes, /*in_steps=*/true, resume);
  }
  bool ReceiveDataOut(Task* task, uint32_t offset, uint8_t* to, uint32_t length,
                      void (*resume)(Task*));
  // `resume` runs when the memory may change again.
  void SendDataIn(Task* task, uint32_t offset, const uint8_t* from,
                  uint32_t length, void (*resume)(Task*));
  // Submits Task::io, whose op, offset, length, iov and flags are set.
  bool SubmitIo(Task* task, void (*resume)(Task*));
  bool EnterGuard(Task* task, void (*resume)(Task*));
  // Before its data have come. False: that would hold up an exclusive task.
  bool EnterGuardWithoutData(Task* task);
  void LeaveGuard(Task* task) { lu_worker_->guard().Leave(task); }
  bool AcquireExclusive(Task* task, void (*resume)(Task*));
  void ReleaseExclusive(Task* task) {
    lu_worker_->guard().Release(&guard_line_, task);
  }
  // Whether the access policy allows a command this; else completes it. Of a
  // command's class it is known when the command starts.
  bool Allows(Task* task, AccessClass access) {
    return granted_.Has(access) || AskPolicy(task, access);
  }
  // The logical unit's medium can be reached; else completes the task.
  bool CheckReady(Task* task);

 private:
  static void OnIoDone(IoRequest* request);
  static void FailTransfer(Task* task);
  bool AcquireBuffer(Task* task, uint64_t bytes, bool in_steps,
                     void (*resume)(Task*));

  void Execute(Task* task);
  void AdmitSlowly(Task* task, TaskSet::Admission admission);
  void Reject(Task* task, ScsiStatus status);
  bool AskPolicy(Task* task, AccessClass access);
  void RejectCommand(Task* task, bool unknown_service_action);
  void SetSense(Task* task, const SenseData& sense);
  void InvalidField(Task* task, AdditionalSense code, uint16_t byte, int bit);
  void FinishWithAca(Task* task, const uint8_t* data, uint32_t length);
  void CountAnswer(const Task& task) {
    counters_.Answer(task, reactor_->turn_nanos() - task.began);
  }
  void Deliver(Task* task, const uint8_t* data, uint32_t length);
  void DeliverHeld();
  void EnableDormant();
  void Resume(Task* task);
  void Abort(Task* task, bool respond);
  void FinishAbort(Task* task);
  void DropTokens();

  const Home home_;
  TargetPort* const port_;
  const Kind kind_;
  const std::shared_ptr<LuWorker> lu_worker_;
  LogicalUnit* const lu_;
  BufferPool* const buffers_;
  const transport::Reactor* const reactor_;
  const uint64_t seen_;
  AccessClasses granted_;  // The policy is not asked about these.
  CommandCounters counters_;
  const CommandTotals::Entry of_nexus_;
  const CommandTotals::Entry of_lu_;
  TaskSet task_set_;
  UnitAttentions unit_attentions_;
  WriteGuard::Line guard_line_;
  uint32_t aborting_ = 0;  // Aborted tasks that something outside refers to.
  bool shut_ = false;
  bool enabling_ = false;
  std::vector<std::shared_ptr<void>> tokens_;
};

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_TARGET_LU_NEXUS_H_
