// SCSI commands: from their submission to their callback.
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "tools/clients/libiscsi/context.h"
#include "tools/clients/libiscsi/task.h"

namespace skiff::libiscsi {
namespace {

// Data in, of a task without iovecs.
constexpr int kMaxBuffer = 256 << 20;
// More of them go back to the system.
constexpr size_t kMaxFree = 1024;
constexpr char kTooMany[] =
    "too many calls wait for iscsi_service() to tell of their end";
constexpr int64_t kSecond = 1'000'000'000;
// Task management's responses (RFC 7143 section 11.6.1).
constexpr uint32_t kFunctionComplete = 0;
constexpr uint32_t kTaskDoesNotExist = 1;
constexpr uint32_t kFunctionRejected = 255;

size_t Total(const scsi_iovector& vector) {
  size_t total = 0;
  for (int i = 0; i < vector.niov; ++i) total += vector.iov[i].iov_len;
  return total;
}

// What Skiff says of a command that the device has not answered.
int StatusOf(int result) {
  switch (result) {
    case -ETIMEDOUT:
      return kTimedOut;
    case -ECANCELED:
    case -ENOTCONN:
      return kCancelled;
    default:
      return kError;
  }
}

// The first `length` bytes of a vector: as it is where it has no more.
class Iovecs {
 public:
  Iovecs(const scsi_iovector& vector, size_t length)
      : data_(vector.iov), count_(static_cast<uint32_t>(vector.niov)) {
    if (Total(vector) == length) return;
    cut_.assign(vector.iov, vector.iov + vector.niov);
    size_t left = length;
    count_ = 0;
    for (iovec& part : cut_) {
      if (left == 0) break;
      part.iov_len = std::min(part.iov_len, left);
      left -= part.iov_len;
      ++count_;
    }
    data_ = cut_.data();
  }

  const iovec* data() const { return data_; }
  uint32_t count() const { return count_; }

 private:
  const iovec* data_;
  uint32_t count_;
  std::vector<iovec> cut_;
};

}  // namespace

size_t iscsi_context::waiting() const {
  size_t count = unsent_;
  for (const Call* call = calls_.first(); call != nullptr; call = call->next) {
    if (call->state == Call::State::kWaiting) ++count;
  }
  return std::min(count, calls_.size());
}

Call* iscsi_context::NewCall() {
  if (free_.empty()) return new (std::nothrow) Call;
  Call* const call = free_.first();
  free_.Remove(call);
  return call;
}

void iscsi_context::Recycle(Call* call) {
  free(std::exchange(call->buffer, nullptr));
  if (free_.size() == kMaxFree) {
    delete call;
    return;
  }
  call->state = Call::State::kWaiting;
  call->again = call->expired = call->settling = call->aborting = false;
  call->abort_cb = nullptr;
  call->status = kGood;
  call->expiry = Loop::kNever;
  if (!call->message.empty()) call->message.clear();
  free_.Add(call);
}

// False: it is refused, with an error that says why.
bool iscsi_context::PrepareBuffers(scsi_task* task, iscsi_data* data) {
  if (task->cdb_size < 6 || task->cdb_size > kMaxCdb) {
    return Fail("a CDB has 6 to 16 bytes, not " +
                std::to_string(task->cdb_size)) == 0;
  }
  if (task->xfer_dir == kNoTransfer) return true;
  if (task->expxferlen < 0 || task->expxferlen > kMaxBuffer) {
    return Fail("a command for " + std::to_string(task->expxferlen) +
                " bytes: 0 to 256 MiB can be transferred") == 0;
  }
  const bool out = task->xfer_dir == kTransferOut;
  if (out && data != nullptr && data->data != nullptr) {
    auto* const iov = static_cast<iovec*>(scsi_malloc(task, sizeof(iovec)));
    if (iov == nullptr) return Fail("out of memory") == 0;
    *iov = {data->data, data->size};
    scsi_task_set_iov_out(task, iov, 1);
  }
  const scsi_iovector& vector = out ? task->iovector_out : task->iovector_in;
  return vector.iov == nullptr || CheckIovecs(vector, task->expxferlen);
}

bool iscsi_context::CheckIovecs(const scsi_iovector& vector, int length) {
  const size_t total = Total(vector);
  if (total >= static_cast<size_t>(length)) return true;
  return Fail("the iovecs of a command have " + std::to_string(total) +
              " bytes, but " + std::to_string(length) +
              " are to be transferred") == 0;
}

int iscsi_context::Submit(int lun, scsi_task* task, iscsi_command_cb cb,
                          iscsi_data* data, void* private_data) {
  if (task == nullptr) return Fail("there is no task");
  if (lun < 0 || lun > 16383) return Fail("a LUN is a number from 0 to 16383");
  if (destroyed_ || (state_ != State::kUp && state_ != State::kConnecting &&
                     !(state_ == State::kClosing && reopen_))) {
    return Fail(state_ == State::kDiscovery
                    ? "a discovery session takes no commands"
                    : "a command needs a session: not logged in");
  }
  if (calls_.size() == kMaxCalls) return Fail("too many commands in flight");
  if (!PrepareBuffers(task, data)) return -1;
  Unit* const unit = FindUnit(static_cast<uint32_t>(lun));
  if (unit == nullptr) return Fail("too many LUNs in use");
  if (unit->state == Unit::State::kClosed && state_ == State::kUp) {
    OpenUnit(unit);
    if (unit->state == Unit::State::kClosed) return -1;
  }
  Call* const call = NewCall();
  if (call == nullptr) return Fail("out of memory");
  call->iscsi = this;
  call->unit = unit;
  call->task = task;
  call->cb = cb;
  call->private_data = private_data;
  task->lun = static_cast<uint32_t>(lun);
  task->itt = next_tag_++;
  // A program may say where the data are after it has submitted the task.
  const bool bare =
      task->xfer_dir != kNoTransfer &&
      (task->xfer_dir == kTransferOut ? task->iovector_out : task->iovector_in)
              .iov == nullptr;
  if (unit->state == Unit::State::kOpen) {
    if (bare) {
      bare_.push_back(call);
    } else if (Start(call) != 0) {
      Recycle(call);
      return -1;
    }
  }
  calls_.Add(call);
  ++unsent_;
  if (settings_.timeout_seconds > 0) {
    call->expiry = Loop::Now() + settings_.timeout_seconds * kSecond;
    next_expiry_ = std::min(next_expiry_, call->expiry);
  }
  return 0;
}

void iscsi_context::StartBare() {
  for (Call* call : std::exchange(bare_, {})) StartOrEnd(call);
}

void iscsi_context::StartOrEnd(Call* call) {
  if (Start(call) == 0) return;
  call->message = error_;
  End(call, kError);
}

int iscsi_context::Start(Call* call) {
  scsi_task* const task = call->task;
  skiff_command command;
  SKIFF_INIT(command);
  command.cdb = task->cdb;
  command.cdb_length = static_cast<uint32_t>(task->cdb_size);
  if (settings_.no_reconnect) command.flags = SKIFF_COMMAND_ONCE;
  const auto length = static_cast<size_t>(task->expxferlen);
  const bool out = task->xfer_dir == kTransferOut;
  const scsi_iovector& vector = out ? task->iovector_out : task->iovector_in;
  iovec own = {};
  scsi_iovector buffer = {&own, 1, 0, 0, 0};
  const bool moves = task->xfer_dir != kNoTransfer && length > 0;
  if (moves && vector.iov == nullptr) {
    if (out) return Fail("a command is to send data, but has none");
    if (call->buffer == nullptr) {
      call->buffer = static_cast<unsigned char*>(malloc(length));
    }
    if (call->buffer == nullptr) return Fail("out of memory");
    own = {call->buffer, length};
  }
  const Iovecs iovecs(vector.iov == nullptr ? buffer : vector,
                      moves ? length : 0);
  if (moves) {
    (out ? command.data_out : command.data_in) = iovecs.data();
    (out ? command.data_out_count : command.data_in_count) = iovecs.count();
  }
  call->result.struct_size = sizeof(call->result);
  call->state = Call::State::kStarted;
  const int error = skiff_disk_command(
      call->unit->disk, &command, &call->result, OnCallDone, call, &call->id);
  if (error == 0) return 0;
  call->state = Call::State::kWaiting;
  return Fail(skiff_last_error());
}

void iscsi_context::OnCallDone(void* user, int result, const char* message) {
  auto* const call = static_cast<Call*>(user);
  call->iscsi->CallDone(call, result, message);
}

// In a callback of Skiff: the program's come from a turn of ours.
void iscsi_context::CallDone(Call* call, int result, const char* message) {
  const bool answered = call->result.answered != 0;
  if (call->again && !answered && reopen_ && !call->expired &&
      !call->settling && !call->aborting) {
    call->again = false;
    call->state = Call::State::kWaiting;
    return;
  }
  if (!answered && result != 0) call->message = message;
  if (std::exchange(call->aborting, false)) {
    const bool aborted = !answered && result == -ECANCELED;
    Answer(call->abort_cb, call->abort_data, kGood,
           aborted ? kFunctionComplete : kTaskDoesNotExist);
    if (aborted && !call->expired && !call->settling) {
      // As with libiscsi: the program cancels it next.
      call->state = Call::State::kAborted;
      return;
    }
  }
  End(call, answered ? kGood : call->expired ? kTimedOut : StatusOf(result));
}

void iscsi_context::End(Call* call, int status) {
  call->status = status;
  call->state = Call::State::kEnded;
  ended_.Push(call);
}

void iscsi_context::Deliver(Call* call) {
  calls_.Remove(call);
  FillTask(call);
  const iscsi_command_cb cb = call->cb;
  scsi_task* const task = call->task;
  void* const private_data = call->private_data;
  Recycle(call);
  if (cb != nullptr) cb(this, task->status, task, private_data);
}

// --- Before its end.

Call* iscsi_context::FindCall(const scsi_task* task) {
  Call* call = calls_.first();
  while (call != nullptr && call->task != task) call = call->next;
  return call;
}

// Makes it end: afterwards nobody uses its buffers. False: it is as it was.
bool iscsi_context::Settle(Call* call) {
  if (call->state == Call::State::kStarted) {
    call->settling = true;
    skiff_disk_cancel(call->unit->disk, call->id);
    int turned = 0;
    // Skiff's own timeouts bound this.
    while (call->state == Call::State::kStarted && turned >= 0) {
      turned = loop_->Wait(1000);
    }
    // In a child, Skiff does not touch them. Else it still has them.
    if (call->state == Call::State::kStarted && turned != -ECHILD) {
      call->settling = false;
      return Fail("a log function cannot wait for the end of a command") == 0;
    }
  }
  if (call->state == Call::State::kEnded) ended_.Remove(call);
  if (!bare_.empty()) std::erase(bare_, call);
  call->result.answered = 0;
  call->status = kCancelled;
  call->message = "the command was cancelled";
  return true;
}

int iscsi_context::Cancel(scsi_task* task) {
  Call* const call = FindCall(task);
  if (call == nullptr) return Fail("the task is not under way");
  const Turning turning(this);
  if (!Settle(call)) return -1;
  Deliver(call);
  return 0;
}

void iscsi_context::CancelAll() {
  const Turning turning(this);
  // Of all that are there now: callbacks may start others.
  for (size_t left = calls_.size(); left > 0 && !calls_.empty(); --left) {
    Call* const call = calls_.first();
    if (!Settle(call)) return;
    Deliver(call);
  }
}

void iscsi_context::ExpireCalls() {
  const int64_t now = Loop::Now();
  next_expiry_ = Loop::kNever;
  for (Call* call = calls_.first(); call != nullptr; call = call->next) {
    if (call->expired || call->state == Call::State::kEnded) continue;
    if (call->expiry > now) {
      next_expiry_ = std::min(next_expiry_, call->expiry);
      continue;
    }
    call->expired = true;
    call->message = "the command timed out";
    if (call->state != Call::State::kStarted) {
      std::erase(bare_, call);
      End(call, kTimedOut);
    } else {
      skiff_disk_cancel(call->unit->disk, call->id);
    }
  }
}

// --- Task management.

int iscsi_context::CheckRoom() {
  return ended_.size() < kMaxCalls ? 0 : Fail(kTooMany);
}

int iscsi_context::Answer(iscsi_command_cb cb, void* private_data, int status,
                          uint32_t response) {
  Later([this, cb, private_data, status, response]() mutable {
    if (cb == nullptr) return;
    cb(this, status, status == kGood ? &response : nullptr, private_data);
  });
  return 0;
}

int iscsi_context::Abort(scsi_task* task, iscsi_command_cb cb,
                         void* private_data) {
  if (!connected()) return Fail("task management needs a session");
  if (CheckRoom() != 0) return -1;
  Call* const call = FindCall(task);
  if (call == nullptr || call->state == Call::State::kEnded ||
      call->state == Call::State::kAborted || call->aborting) {
    return Answer(cb, private_data, kGood, kTaskDoesNotExist);
  }
  if (call->state == Call::State::kWaiting) {
    std::erase(bare_, call);
    call->state = Call::State::kAborted;
    return Answer(cb, private_data, kGood, kFunctionComplete);
  }
  call->aborting = true;
  call->abort_cb = cb;
  call->abort_data = private_data;
  skiff_disk_cancel(call->unit->disk, call->id);
  return 0;
}

scsi_task* iscsi_context::TaskOf(uint32_t tag) const {
  const Call* call = calls_.first();
  while (call != nullptr && call->task->itt != tag) call = call->next;
  return call == nullptr ? nullptr : call->task;
}

int iscsi_context::AbortAll(int lun, iscsi_command_cb cb, void* private_data) {
  if (!logged_in_) return Fail("task management needs a session");
  if (CheckRoom() != 0) return -1;
  StartBare();
  for (Call* call = calls_.first(); call != nullptr; call = call->next) {
    const bool started = call->state == Call::State::kStarted;
    // Others may be of an earlier session, and their unit is gone.
    if (!started && call->state != Call::State::kWaiting) continue;
    if (call->unit->lun != static_cast<uint32_t>(lun)) continue;
    if (started) {
      skiff_disk_cancel(call->unit->disk, call->id);
    } else {
      End(call, kCancelled);
    }
  }
  return Answer(cb, private_data, kGood, kFunctionComplete);
}

int iscsi_context::ResetUnit(int lun, iscsi_command_cb cb, void* private_data) {
  if (!logged_in_) return Fail("task management needs a session");
  if (CheckRoom() != 0) return -1;
  Unit* const unit = lun < 0 ? nullptr : FindUnit(static_cast<uint32_t>(lun));
  if (unit == nullptr || unit->state != Unit::State::kOpen) {
    return Fail("no command was sent to this LUN yet: it cannot be reset");
  }
  struct Reset {
    iscsi_context* iscsi;
    iscsi_command_cb cb;
    void* private_data;
  };
  auto* const reset = new Reset{this, cb, private_data};
  const auto done = [](void* user, int result, const char* message) {
    const std::unique_ptr<Reset> ended(static_cast<Reset*>(user));
    if (result != 0) ended->iscsi->SetError(message);
    const bool over = result == -ECANCELED || result == -ENOTCONN;
    ended->iscsi->Answer(ended->cb, ended->private_data,
                         over ? kCancelled : kGood,
                         result == 0 ? kFunctionComplete : kFunctionRejected);
  };
  if (skiff_disk_reset(unit->disk, done, reset) == 0) return 0;
  delete reset;
  return Fail(skiff_last_error());
}

int iscsi_context::Nop(iscsi_command_cb cb, const unsigned char* data, int size,
                       void* private_data) {
  if (state_ == State::kIdle) return Fail("a NOP-Out needs a session");
  if (size < 0) return Fail("a NOP-Out of a negative length");
  if (waiting_nops_.size() == kMaxNops) return Fail(kTooMany);
  if (CheckRoom() != 0) return -1;
  std::vector<unsigned char> ping;
  if (data != nullptr) ping.assign(data, data + size);
  auto told = [this, cb, private_data,
               ping = std::move(ping)](int status) mutable {
    iscsi_data answer = {ping.size(), ping.data()};
    if (cb != nullptr) {
      cb(this, status, status == kGood ? &answer : nullptr, private_data);
    }
  };
  if (logged_in_ || state_ == State::kDiscovery) {
    Later([told = std::move(told)]() mutable { told(kGood); });
  } else {
    waiting_nops_.emplace_back(std::move(told));
  }
  return 0;
}

}  // namespace skiff::libiscsi
