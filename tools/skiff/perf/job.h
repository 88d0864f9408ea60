#ifndef SKIFF_TOOLS_SKIFF_PERF_JOB_H_
#define SKIFF_TOOLS_SKIFF_PERF_JOB_H_

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "scsi/initiator/command.h"
#include "tools/skiff/base/repeats.h"
#include "tools/skiff/perf/histogram.h"

namespace skiff::tools {

struct PerfJobOptions {
  uint64_t lun = 0;  // As in Command::lun.
  uint32_t logical_block_size = 512;
  // The job's own part of the logical unit, in bytes; multiples of io_bytes.
  uint64_t offset = 0;
  uint64_t size = 0;
  uint32_t io_bytes = 4096;
  uint32_t depth = 1;  // Commands in flight; at most size / io_bytes.
  bool random = false;
  uint32_t read_percent = 100;
  // Writes carry the pattern of pattern.h, reads check it. `run` tells this run
  // from others.
  bool verify = false;
  uint64_t run = 0;
  uint64_t seed = 1;  // Of the random order.
};

struct PerfJobResult {
  Histogram read_nanos;
  Histogram write_nanos;
  uint64_t verified = 0;  // Blocks.
  // How often commands were sent again (Repeats).
  uint64_t interrupted = 0;
  uint64_t unanswered = 0;
  uint64_t recovered = 0;   // Ended with RECOVERED ERROR, and well.
  int64_t start_nanos = 0;  // On CLOCK_MONOTONIC.
  int64_t end_nanos = 0;
  std::string error;           // Empty: none.
  bool verify_failed = false;  // `error` is about the data.
};

// Keeps a number of commands in flight, each completion submitting the next.
// Allocates nothing while it runs. Lives on the port's reactor.
class PerfJob {
 public:
  // The memory that a job of `options` with `verify` needs to know what it
  // wrote.
  static uint64_t VerifyTableBytes(const PerfJobOptions& options) {
    return options.size / options.io_bytes * sizeof(uint64_t);
  }

  // `port` must outlive the job.
  PerfJob(const PerfJobOptions& options, scsi::CommandPort* port);
  PerfJob(const PerfJob&) = delete;
  PerfJob& operator=(const PerfJob&) = delete;
  ~PerfJob() = default;  // Only when nothing runs.

  enum class Pass {
    kWorkload,  // What the options say.
    kFill,      // Writes each block once, in order.
    kReadBack,  // Reads each block that this job wrote, in order, and checks
                // it.
  };
  // Starts a pass, whose result replaces the one before. With a `runtime` the
  // workload goes on for so long, otherwise for as many commands as there are
  // blocks. `done` runs once, when nothing is in flight any more.
  void Start(Pass pass, absl::Duration runtime,
             absl::AnyInvocable<void()> done);

  // Submits nothing more, in this pass and later ones, which end as soon as
  // nothing is in flight. On the port's reactor.
  void Stop() { stopped_ = true; }

  const PerfJobResult& result() const { return result_; }
  // What commands read and write, and who keeps it.
  absl::Span<uint8_t> memory() const { return {memory_.get(), memory_bytes_}; }
  std::shared_ptr<const void> memory_owner() const { return memory_; }

 private:
  struct Slot {
    scsi::Command command;
    iovec iov;
    PerfJob* job = nullptr;
    uint8_t* buffer = nullptr;
    uint64_t block = 0;
    uint64_t sequence = 0;
    int64_t start_nanos = 0;
    Repeats repeats;
    bool read = true;
  };

  static void OnDone(scsi::Command* command);
  void Completed(Slot* slot);
  // True when the command was sent again (Repeats). Otherwise the job has
  // failed.
  bool HandleFailure(Slot* slot);
  void ClearForVerification(const Slot& slot);
  void CheckRead(const Slot& slot);
  // Picks the slot's next command and submits it; false when the pass is over.
  bool SubmitNext(Slot* slot, int64_t now);
  void Prepare(Slot* slot);
  bool PickBlock(Slot* slot);
  void Finish(int64_t now);
  void Fail(std::string error, bool verify);
  uint64_t Random();

  static constexpr uint64_t kBusy = uint64_t{1} << 63;

  const PerfJobOptions options_;
  scsi::CommandPort* const port_;
  const uint64_t blocks_;
  const size_t memory_bytes_;
  const std::shared_ptr<uint8_t> memory_;
  std::vector<Slot> slots_;
  // By block: the sequence of the last write, 0 for none, with kBusy while a
  // command is in flight. Empty without `verify`.
  std::vector<uint64_t> written_;
  uint64_t sequence_ = 0;
  uint64_t random_state_;

  Pass pass_ = Pass::kWorkload;
  absl::AnyInvocable<void()> done_;
  uint64_t next_block_ = 0;
  uint64_t left_ = 0;  // Commands still to submit.
  int64_t deadline_nanos_ = 0;
  uint32_t in_flight_ = 0;
  bool stopped_ = false;
  PerfJobResult result_;
};

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_SKIFF_PERF_JOB_H_
