#include "scsi/target/lu_nexus.h"

#include <cassert>
#include <utility>

#include "absl/strings/str_cat.h"

namespace skiff::scsi {
namespace {

constexpr uint8_t kNaca = 0x04;  // In the CONTROL byte, SAM-5 section 5.2.

// Whether the CDB asks for an ACA condition should it fail. The CDB may be an
// unknown one: its GROUP CODE tells where its CONTROL byte is.
bool IsNacaSet(const Task& task) {
  static constexpr uint8_t kControlByte[8] = {5, 9, 9, 1, 15, 11, 0, 0};
  const uint8_t at = kControlByte[task.cdb[0] >> 5];
  return at > 0 && at < task.cdb_length && (task.cdb[at] & kNaca) != 0;
}

}  // namespace

LuNexus::LuNexus(const Home& home, Kind kind,
                 std::shared_ptr<LuWorker> lu_worker, uint64_t seen,
                 uint32_t max_tasks)
    : home_(home),
      port_(home.port),
      kind_(kind),
      lu_worker_(std::move(lu_worker)),
      lu_(lu_worker_ != nullptr ? &lu_worker_->lu() : nullptr),
      buffers_(home.buffers),
      reactor_(home.reactor),
      seen_(seen),
      granted_(AccessClasses::All()),
      of_nexus_(home.totals, &counters_),
      of_lu_(lu_ != nullptr ? &lu_->totals() : nullptr, &counters_),
      task_set_(max_tasks) {
  ReviewRights();
  // What deployed targets do: an initiator that (re)connects is told to forget
  // what it knew.
  if (lu_worker_ != nullptr) lu_worker_->Add(this);
  if (kind_ != Kind::kNone) {
    Establish(AdditionalSense::kPowerOnResetOrBusDeviceReset);
  }
}

LuNexus::~LuNexus() {
  assert(idle() && task_set_.empty());
  if (lu_worker_ != nullptr) lu_worker_->Remove(this);
}

void LuNexus::ForEachGuarded(Visitor visit) {
  for (Task* task = task_set_.first_enabled(); task != nullptr;
       task = task->next) {
    if (task->guarded) visit(*port_, task);
  }
}

SenseFormat LuNexus::sense_format() const {
  return lu_ != nullptr && lu_->mode_pages().descriptor_sense()
             ? SenseFormat::kDescriptor
             : SenseFormat::kFixed;
}

// --- Life of a task.

void LuNexus::Submit(Task* task) {
  task->status = ScsiStatus::kGood;
  task->data_out_wanted = 0;
  task->data_in_wanted = 0;
  task->sense_length = 0;
  task->lu_nexus = this;
  task->buffer = nullptr;
  task->progress = 0;
  task->in_flight = 0;
  task->excused = 0;
  // In the order of their places, so that it takes few stores.
  task->step = 0;
  task->transfers = 0;
  task->guarded = false;
  task->exclusive = false;
  task->terminate = false;
  task->held = false;
  task->receiving = false;
  task->late = false;
  task->holds_up = false;
  task->began = reactor_->turn_nanos();
  counters_.Begin();
  if (shut_) [[unlikely]] {
    return Reject(task, ScsiStatus::kBusy);
  }
  const TaskSet::Admission admission = task_set_.Accept(task);
  if (admission == TaskSet::Admission::kEnabled) [[likely]] {
    return Execute(task);
  }
  AdmitSlowly(task, admission);
}

void LuNexus::AdmitSlowly(Task* task, TaskSet::Admission admission) {
  switch (admission) {
    case TaskSet::Admission::kEnabled:
      return Execute(task);
    case TaskSet::Admission::kDormant:
      return;
    case TaskSet::Admission::kFull:
      return Reject(task, ScsiStatus::kTaskSetFull);
    case TaskSet::Admission::kAcaActive:
      return Reject(task, ScsiStatus::kAcaActive);
    case TaskSet::Admission::kInvalidAca:
      SetSense(task, {.key = SenseKey::kIllegalRequest,
                      .code = AdditionalSense::kInvalidMessageError});
      return Reject(task, ScsiStatus::kCheckCondition);
  }
}

// Completes a task that is not in the task set.
void LuNexus::Reject(Task* task, ScsiStatus status) {
  task->status = status;
  task->kind = Task::Kind::kOther;
  task->phase = Task::Phase::kCompleted;
  CountAnswer(*task);
  port_->Complete(task, 0, nullptr, 0);
}

void LuNexus::Execute(Task* task) {
  bool opcode_known = false;
  const CommandInfo* info = commands().Find(task->cdb.data(), &opcode_known);
  task->kind = info != nullptr ? info->kind() : Task::Kind::kOther;
  if (unit_attentions_.pending()) [[unlikely]] {
    const bool exempt = info != nullptr &&
                        (info->flags & CommandInfo::kIgnoresUnitAttention) != 0;
    if (!exempt) {
      return CheckCondition(task, SenseKey::kUnitAttention,
                            unit_attentions_.Take());
    }
  }
  if (info == nullptr || !Implements(*info)) [[unlikely]] {
    return RejectCommand(task, opcode_known && info == nullptr);
  }
  if (!Allows(task, info->access)) [[unlikely]] {
    return;
  }
  if (task->cdb_length < info->length) [[unlikely]] {
    return InvalidCdbField(task, task->cdb_length);
  }
  if (const int bit = commands().FirstInvalidBit(*info, task->cdb.data());
      bit >= 0) [[unlikely]] {
    return InvalidCdbField(task, static_cast<uint16_t>(bit / 8), bit % 8);
  }
  if (info->access == AccessClass::kWrite) {
    if (lu_->read_only()) [[unlikely]] {
      return CheckCondition(task, SenseKey::kDataProtect,
                            AdditionalSense::kWriteProtected);
    }
    if (lu_->mode_pages().software_write_protect()) [[unlikely]] {
      return CheckCondition(
          task, SenseKey::kDataProtect,
          AdditionalSense::kLogicalUnitSoftwareWriteProtected);
    }
  }
  info->start(*this, task);
}

bool LuNexus::AskPolicy(Task* task, AccessClass access) {
  const AccessVerdict verdict =
      home_.access->Decide(*home_.identity, lu_->lun(), access);
  if (verdict == AccessVerdict::kAllowed) return true;
  lu_worker_->NoteDenial(
      *home_.identity,
      absl::StrCat("command ", absl::Hex(task->cdb[0], absl::kZeroPad2), "h"));
  if (verdict == AccessVerdict::kReadOnly) {
    CheckCondition(task, SenseKey::kDataProtect,
                   AdditionalSense::kWriteProtected);
  } else {
    CheckCondition(task, SenseKey::kIllegalRequest,
                   AdditionalSense::kNoAccessRights);
  }
  return false;
}

bool LuNexus::write_protected() const {
  return lu_->read_only() || lu_->mode_pages().software_write_protect() ||
         (!granted_.Has(AccessClass::kWrite) &&
          home_.access->Decide(*home_.identity, lu_->lun(),
                               AccessClass::kWrite) ==
              AccessVerdict::kReadOnly);
}

void LuNexus::ReviewRights() {
  if (lu_ == nullptr) return;
  granted_ = home_.access->Grant(*home_.identity, lu_->lun());
}

bool LuNexus::MayReset() {
  if (granted_.Has(AccessClass::kControl) ||
      home_.access->Decide(*home_.identity, lu_->lun(),
                           AccessClass::kControl) == AccessVerdict::kAllowed) {
    return true;
  }
  lu_worker_->NoteDenial(*home_.identity, "reset it");
  return false;
}

bool LuNexus::Implements(const CommandInfo& info) const {
  switch (kind_) {
    case Kind::kBlockDevice:
      return (info.flags & CommandInfo::kThin) == 0 || lu_->thin();
    case Kind::kReportLuns:
      return (info.flags & CommandInfo::kWellKnown) != 0;
    case Kind::kNone:
      return (info.flags & CommandInfo::kAnyLun) != 0;
  }
  return false;
}

void LuNexus::RejectCommand(Task* task, bool unknown_service_action) {
  if (kind_ == Kind::kNone) {
    return CheckCondition(task, SenseKey::kIllegalRequest,
                          AdditionalSense::kLogicalUnitNotSupported);
  }
  if (unknown_service_action) return InvalidCdbField(task, 1, 4);
  CheckCondition(task, SenseKey::kIllegalRequest,
                 AdditionalSense::kInvalidCommandOperationCode);
}

void LuNexus::Finish(Task* task, const uint8_t* data, uint32_t length) {
  if (task->guarded) LeaveGuard(task);
  if (task->exclusive) ReleaseExclusive(task);
  // Nothing of it is sent: the response may have to wait for its initiator, the
  // buffer need not.
  if (length == 0 && task->buffer != nullptr) buffers_->Release(task);
  if (task->status == ScsiStatus::kCheckCondition || task_set_.aca())
      [[unlikely]] {
    return FinishWithAca(task, data, length);
  }
  Deliver(task, data, length);
}

// SAM-5 section 5.9.
void LuNexus::FinishWithAca(Task* task, const uint8_t* data, uint32_t length) {
  if (task_set_.aca() && task->attribute != Attribute::kAca) {
    task->held = true;
    task->iov[0] = {const_cast<uint8_t*>(data), length};
    return;
  }
  const bool was_aca = task_set_.aca();
  if (task->status == ScsiStatus::kCheckCondition) {
    task_set_.set_aca(IsNacaSet(*task));
  }
  Deliver(task, data, length);
  // An ACA task failed and asked for no new condition.
  if (was_aca && !task_set_.aca()) DeliverHeld();
}

void LuNexus::Deliver(Task* task, const uint8_t* data, uint32_t length) {
  task_set_.Remove(task);
  task->phase = Task::Phase::kCompleted;
  CountAnswer(*task);
  const uint64_t offset = length > 0 ? task->progress : 0;
  port_->Complete(task, static_cast<uint32_t>(offset), data, length);
  if (task_set_.has_dormant()) EnableDormant();
}

void LuNexus::DeliverHeld() {
  for (Task* task = task_set_.first_enabled();
       task != nullptr && !task_set_.aca();) {
    if (!task->held) {
      task = task->next;
      continue;
    }
    task->held = false;
    Finish(task, static_cast<const uint8_t*>(task->iov[0].iov_base),
           static_cast<uint32_t>(task->iov[0].iov_len));
    task = task_set_.first_enabled();  // The port may have done anything.
  }
  EnableDormant();
}

// A loop, not a recursion: a task that is enabled may complete at once.
void LuNexus::EnableDormant() {
  if (enabling_) return;
  enabling_ = true;
  while (Task* task = task_set_.NextToEnable()) Execute(task);
  enabling_ = false;
}

void LuNexus::Release(Task* task) {
  assert(task->phase == Task::Phase::kCompleted ||
         task->phase == Task::Phase::kAborted);
  task->phase = Task::Phase::kIdle;
  counters_.End();
  if (task->buffer != nullptr) buffers_->Release(task);
}

// --- Sense.

void LuNexus::SetSense(Task* task, const SenseData& sense) {
  static_assert(Task::kMaxSense >= kMaxEncodedSense);
  task->status = ScsiStatus::kCheckCondition;
  task->sense_length = static_cast<uint16_t>(
      EncodeSense(sense, sense_format(), task->sense.data()));
}

void LuNexus::CheckCondition(Task* task, const SenseData& sense) {
  SetSense(task, sense);
  Finish(task, nullptr, 0);
}

void LuNexus::CheckCondition(Task* task, SenseKey key, AdditionalSense code) {
  CheckCondition(task, SenseData{.key = key, .code = code});
}

void LuNexus::InvalidField(Task* task, AdditionalSense code, uint16_t byte,
                           int bit) {
  SenseData sense{.key = SenseKey::kIllegalRequest, .code = code};
  sense.field_pointer =
      FieldPointer{.in_cdb = code == AdditionalSense::kInvalidFieldInCdb,
                   .byte = byte,
                   .bit = {}};
  if (bit >= 0) sense.field_pointer->bit = static_cast<uint8_t>(bit);
  CheckCondition(task, sense);
}

void LuNexus::InvalidCdbField(Task* task, uint16_t byte, int bit) {
  InvalidField(task, AdditionalSense::kInvalidFieldInCdb, byte, bit);
}

void LuNexus::InvalidParameter(Task* task, uint16_t byte, int bit) {
  InvalidField(task, AdditionalSense::kInvalidFieldInParameterList, byte, bit);
}

// --- Waiting.

bool LuNexus::AcquireBuffer(Task* task, uint64_t bytes, bool in_steps,
                            void (*resume)(Task*)) {
  if (task->buffer != nullptr) return true;
  task->resume = resume;
  return buffers_->Acquire(home_.account, task, bytes, in_steps);
}

bool LuNexus::ReceiveDataOut(Task* task, uint32_t offset, uint8_t* to,
                             uint32_t length, void (*resume)(Task*)) {
  task->resume = resume;
  task->receiving = true;
  if (port_->ReceiveDataOut(task, offset, to, length) ==
      TransferResult::kDone) {
    return true;
  }
  ++task->in_flight;
  ++task->transfers;
  return false;
}

void LuNexus::SendDataIn(Task* task, uint32_t offset, const uint8_t* from,
                         uint32_t length, void (*resume)(Task*)) {
  task->resume = resume;
  task->receiving = false;
  ++task->in_flight;
  ++task->transfers;
  port_->SendDataIn(task, offset, from, length);
}

bool LuNexus::SubmitIo(Task* task, void (*resume)(Task*)) {
  task->io.status = IoStatus::kOk;
  task->io.system_error = 0;
  task->io.reason = nullptr;
  task->io.done = &OnIoDone;
  task->io.context = task;
  task->resume = resume;
  if (lu_worker_->channel()->Submit(&task->io)) {
    if (task->io.status != IoStatus::kOk) [[unlikely]] {
      lu_worker_->NoteFailure(task->io);
    }
    return true;
  }
  ++task->in_flight;
  return false;
}

bool LuNexus::EnterGuard(Task* task, void (*resume)(Task*)) {
  task->resume = resume;
  return lu_worker_->guard().Enter(task);
}

bool LuNexus::EnterGuardWithoutData(Task* task) {
  return lu_worker_->guard().TryEnter(task);
}

bool LuNexus::AcquireExclusive(Task* task, void (*resume)(Task*)) {
  task->resume = resume;
  return lu_worker_->guard().Acquire(&guard_line_, task);
}

bool LuNexus::CheckReady(Task* task) {
  if (lu_worker_->channel() != nullptr) [[likely]] {
    return true;
  }
  CheckCondition(task, SenseKey::kNotReady,
                 AdditionalSense::kNotReadyCauseNotReportable);
  return false;
}

void LuNexus::OnIoDone(IoRequest* request) {
  Task* task = static_cast<Task*>(request->context);
  if (request->status != IoStatus::kOk) [[unlikely]] {
    task->lu_nexus->lu_worker_->NoteFailure(*request);
  }
  task->lu_nexus->Resume(task);
}

void LuNexus::OnTransferDone(Task* task, bool ok) {
  --task->transfers;
  if (!ok) task->resume = &FailTransfer;
  Resume(task);
}

// Once nothing outside refers to the task: there may be I/O under way.
void LuNexus::FailTransfer(Task* task) {
  if (task->in_flight > 0) return;
  task->lu_nexus->CheckCondition(
      task, SenseKey::kAbortedCommand,
      task->late ? AdditionalSense::kInitiatorResponseTimeout
                 : AdditionalSense::kDataPhaseError);
}

void LuNexus::Resume(Task* task) {
  --task->in_flight;
  if (!task->terminate) [[likely]] {
    return task->resume(task);
  }
  if (task->in_flight > 0) return;
  --aborting_;
  FinishAbort(task);
  DropTokens();
}

}  // namespace skiff::scsi
