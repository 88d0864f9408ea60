#ifndef SKIFF_BENCH_PROTOCOL_COMMAND_BATCH_H_
#define SKIFF_BENCH_PROTOCOL_COMMAND_BATCH_H_

#include <sys/uio.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "protocol/datamover/connection_counters.h"
#include "scsi/initiator/command.h"
#include "scsi/target/target.h"

namespace skiff::protocol {

inline constexpr char kDiskName[] = "iqn.2001-04.com.example:disk";
inline constexpr char kHostName[] = "iqn.2001-04.com.example:host";

// A target with a RAM disk of this size, which RDMA devices can register once.
std::shared_ptr<scsi::Target> MakeDisk(uint64_t bytes);

// Commands that are issued together, again and again: each reads or writes
// blocks of its own, the same in every batch.
class CommandBatch {
 public:
  CommandBatch(uint32_t depth, uint32_t bytes_of_each);

  uint32_t depth() const { return static_cast<uint32_t>(slots_.size()); }
  // The data of one command: what a write takes, and where a read puts it.
  absl::Span<char> Data(uint32_t command);
  // All of it gets other bytes than with another seed, each block its own.
  void Fill(uint8_t seed);
  // All of it.
  const std::shared_ptr<std::vector<char>>& memory() const { return memory_; }

  // Makes all commands ready to be issued.
  void Prepare(bool write);
  // The first, instead: for the unit attention that greets a new nexus.
  void PrepareGreeting();
  scsi::Command* command(uint32_t index) { return &slots_[index].command; }

  uint32_t finished() const { return finished_; }
  bool done() const { return finished_ == depth(); }
  // Since Prepare(): why one failed.
  const std::string& failure() const { return failure_; }

 private:
  struct Slot {
    CommandBatch* batch;
    scsi::Command command;
    iovec iov;
  };

  static void OnDone(scsi::Command* command);

  const uint32_t bytes_;
  const std::shared_ptr<std::vector<char>> memory_;
  std::deque<Slot> slots_;
  uint32_t finished_ = 0;
  std::string failure_;
};

// Who runs them: two ends, and what is between these.
class CommandRunner {
 public:
  virtual ~CommandRunner() = default;
  // Runs the batch to its end. False if a command failed.
  virtual bool RunBatch(bool write) = 0;
  virtual CommandBatch& batch() = 0;
  virtual ConnectionCounters InitiatorCounters() = 0;
  virtual ConnectionCounters TargetCounters() = 0;
  // Why it is of no use.
  virtual const std::string& failure() const = 0;
};

}  // namespace skiff::protocol

#endif  // SKIFF_BENCH_PROTOCOL_COMMAND_BATCH_H_
