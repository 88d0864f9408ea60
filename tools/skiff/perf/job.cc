#include "tools/skiff/perf/job.h"

#include <time.h>

#include <cassert>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "scsi/initiator/cdb.h"
#include "scsi/initiator/scsi_error.h"
#include "tools/skiff/base/repeats.h"
#include "tools/skiff/perf/pattern.h"

namespace skiff::tools {
namespace {

constexpr size_t kAlignment = 4096;

int64_t NowNanos() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

size_t Aligned(size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

std::shared_ptr<uint8_t> Allocate(size_t bytes) {
  auto* memory = static_cast<uint8_t*>(std::aligned_alloc(kAlignment, bytes));
  if (memory == nullptr) throw std::bad_alloc();
  return {memory, &std::free};
}

}  // namespace

PerfJob::PerfJob(const PerfJobOptions& options, scsi::CommandPort* port)
    : options_(options),
      port_(port),
      blocks_(options.size / options.io_bytes),
      memory_bytes_(options.depth * Aligned(options.io_bytes)),
      memory_(Allocate(memory_bytes_)),
      slots_(options.depth),
      written_(options.verify ? blocks_ : 0),
      random_state_(options.seed) {
  assert(options.depth > 0 && options.depth <= blocks_);
  // Something else than zeroes, for targets that look.
  for (size_t i = 0; i < memory_bytes_; i += sizeof(uint64_t)) {
    const uint64_t word = Random();
    std::memcpy(memory_.get() + i, &word, sizeof(word));
  }
  for (size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    slot.buffer = memory_.get() + i * Aligned(options.io_bytes);
    slot.iov = {slot.buffer, options.io_bytes};
    slot.job = this;
    slot.command.lun = options.lun;
    slot.command.context = &slot;
    slot.command.done = &OnDone;
  }
}

// SplitMix64: good enough to choose blocks, and a few cycles.
uint64_t PerfJob::Random() {
  uint64_t x = (random_state_ += 0x9e3779b97f4a7c15u);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

void PerfJob::Start(Pass pass, absl::Duration runtime,
                    absl::AnyInvocable<void()> done) {
  assert(in_flight_ == 0);
  pass_ = pass;
  done_ = std::move(done);
  next_block_ = 0;
  left_ = blocks_;
  deadline_nanos_ = std::numeric_limits<int64_t>::max();
  result_ = PerfJobResult();
  const int64_t now = NowNanos();
  if (pass == Pass::kWorkload && runtime > absl::ZeroDuration()) {
    left_ = std::numeric_limits<uint64_t>::max();
    deadline_nanos_ = now + absl::ToInt64Nanoseconds(runtime);
  }
  result_.start_nanos = now;
  for (Slot& slot : slots_) {
    if (!SubmitNext(&slot, now)) break;
  }
  if (in_flight_ == 0) Finish(now);
}

void PerfJob::Finish(int64_t now) {
  result_.end_nanos = now;
  // May start the next pass.
  std::exchange(done_, nullptr)();
}

void PerfJob::Fail(std::string error, bool verify) {
  left_ = 0;
  if (!result_.error.empty()) return;
  result_.error = std::move(error);
  result_.verify_failed = verify;
}

bool PerfJob::PickBlock(Slot* slot) {
  const bool random = options_.random && pass_ == Pass::kWorkload;
  uint64_t block = next_block_;
  if (random) {
    // The high half of the product is uniform in [0, blocks_).
    block = static_cast<uint64_t>(
        (static_cast<unsigned __int128>(Random()) * blocks_) >> 64);
  }
  if (options_.verify) {
    // Two commands in flight for one block would leave open what it holds.
    uint64_t looked = 0;
    while ((written_[block] & kBusy) != 0 ||
           (pass_ == Pass::kReadBack && written_[block] == 0)) {
      if (++looked > blocks_) return false;
      block = block + 1 == blocks_ ? 0 : block + 1;
      if (pass_ == Pass::kReadBack) {
        if (left_ <= 1) return false;
        --left_;
      }
    }
    written_[block] |= kBusy;
  }
  if (!random) next_block_ = block + 1 == blocks_ ? 0 : block + 1;
  slot->block = block;
  return true;
}

bool PerfJob::SubmitNext(Slot* slot, int64_t now) {
  if (stopped_ || left_ == 0 || now >= deadline_nanos_ || !PickBlock(slot)) {
    return false;
  }
  --left_;
  switch (pass_) {
    case Pass::kWorkload:
      slot->read = options_.read_percent == 100 ||
                   (options_.read_percent != 0 &&
                    Random() % 100 < options_.read_percent);
      break;
    case Pass::kFill:
      slot->read = false;
      break;
    case Pass::kReadBack:
      slot->read = true;
      break;
  }
  slot->repeats = Repeats();
  slot->start_nanos = now;
  Prepare(slot);
  ++in_flight_;
  port_->Submit(&slot->command);
  return true;
}

inline void PerfJob::Prepare(Slot* slot) {
  scsi::Command* command = &slot->command;
  const uint64_t offset = options_.offset + slot->block * options_.io_bytes;
  const uint64_t lba = offset / options_.logical_block_size;
  const uint32_t count = options_.io_bytes / options_.logical_block_size;
  if (slot->read) {
    scsi::SetCdb(scsi::cdb::Read(lba, count), command);
    command->data_in = &slot->iov;
    command->data_in_count = 1;
    command->data_in_length = options_.io_bytes;
    command->data_out_length = 0;
    command->data_out_count = 0;
    if (options_.verify) ClearForVerification(*slot);
  } else {
    scsi::SetCdb(scsi::cdb::Write(lba, count), command);
    command->data_out = &slot->iov;
    command->data_out_count = 1;
    command->data_out_length = options_.io_bytes;
    command->data_in_length = 0;
    command->data_in_count = 0;
    if (options_.verify) {
      slot->sequence = ++sequence_;
      FillPattern({offset, slot->sequence, options_.run}, slot->buffer,
                  options_.io_bytes);
    }
  }
  // Making or clearing a pattern is not the target's latency.
  if (options_.verify) slot->start_nanos = NowNanos();
}

void PerfJob::OnDone(scsi::Command* command) {
  Slot* slot = static_cast<Slot*>(command->context);
  slot->job->Completed(slot);
}

// What the buffer holds may be what is expected.
void PerfJob::ClearForVerification(const Slot& slot) {
  if (options_.verify) std::memset(slot.buffer, 0, options_.io_bytes);
}

bool PerfJob::HandleFailure(Slot* slot) {
  const Repeats::Cause cause = result_.error.empty()
                                   ? slot->repeats.Next(slot->command)
                                   : Repeats::Cause::kNone;
  if (cause != Repeats::Cause::kNone) {
    ++(cause == Repeats::Cause::kTimeout ? result_.unanswered
                                         : result_.interrupted);
    if (slot->read) ClearForVerification(*slot);
    port_->Submit(&slot->command);
    return true;
  }
  absl::Status status = scsi::CommandStatus(slot->command);
  if (status.ok()) {
    status = absl::DataLossError(absl::StrCat(
        "the target left ", slot->command.residual, " bytes untransferred"));
  }
  Fail(
      absl::StrCat("offset ", options_.offset + slot->block * options_.io_bytes,
                   ": ", status.message()),
      false);
  return false;
}

void PerfJob::Completed(Slot* slot) {
  const int64_t now = NowNanos();
  const scsi::Command& command = slot->command;
  const bool ended_well =
      command.outcome == scsi::Command::Outcome::kCompleted &&
      (command.status == 0 || scsi::IsRecovered(command));
  if (!ended_well || command.residual != 0) {
    if (HandleFailure(slot)) return;
  } else {
    if (command.status != 0) ++result_.recovered;
    (slot->read ? result_.read_nanos : result_.write_nanos)
        .Add(static_cast<uint64_t>(now - slot->start_nanos));
    if (options_.verify) {
      if (slot->read) {
        CheckRead(*slot);
        written_[slot->block] &= ~kBusy;
      } else {
        written_[slot->block] = slot->sequence;
      }
    }
  }
  --in_flight_;
  if (!SubmitNext(slot, now) && in_flight_ == 0) Finish(now);
}

void PerfJob::CheckRead(const Slot& slot) {
  const uint64_t sequence = written_[slot.block] & ~kBusy;
  const bool exact = sequence != 0;
  const PatternTag expected = {options_.offset + slot.block * options_.io_bytes,
                               sequence, options_.run};
  PatternTag found;
  ++result_.verified;
  if (ReadPattern(slot.buffer, options_.io_bytes, &found) &&
      found.offset == expected.offset && (!exact || found == expected)) {
    return;
  }
  Fail(ExplainPattern(slot.buffer, options_.io_bytes, expected, exact), true);
}

}  // namespace skiff::tools
