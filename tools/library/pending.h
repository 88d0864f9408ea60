#ifndef SKIFF_TOOLS_LIBRARY_PENDING_H_
#define SKIFF_TOOLS_LIBRARY_PENDING_H_

#include <skiff/disk.h>
#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "scsi/initiator/disk.h"
#include "scsi/initiator/retrying_command.h"
#include "tools/library/context.h"

namespace skiff::library {

class Disk;

// What was submitted to a disk and has not ended.
struct Pending {
  enum class What : uint8_t { kIo, kRawCommand };

  explicit Pending(What kind) : what(kind) {}

  const What what;
  uint64_t id = 0;
  Ending::Done done;
  absl::Time begun;
  Pending* previous = nullptr;
  Pending* next = nullptr;
};

// All of a disk, in the order in which they were started.
class PendingList {
 public:
  bool empty() const { return first_ == nullptr; }
  Pending* first() const { return first_; }
  void Add(Pending* pending) {
    pending->previous = last_;
    pending->next = nullptr;
    (last_ != nullptr ? last_->next : first_) = pending;
    last_ = pending;
  }
  void Remove(Pending* pending) {
    (pending->previous != nullptr ? pending->previous->next : first_) =
        pending->next;
    (pending->next != nullptr ? pending->next->previous : last_) =
        pending->previous;
  }
  // Null: it is not there.
  Pending* Find(uint64_t id) const {
    Pending* at = first_;
    while (at != nullptr && at->id != id) at = at->next;
    return at;
  }

 private:
  Pending* first_ = nullptr;
  Pending* last_ = nullptr;
};

// An I/O, with its iovecs.
struct Io : Pending {
  Io() : Pending(What::kIo) {}
  // Copies an array of them.
  void CopyIov(const iovec* iov, uint32_t count);

  Disk* disk = nullptr;
  scsi::DiskIo io;
  std::array<iovec, 4> few;
  std::vector<iovec> many;
  Io* next_free = nullptr;
};

// I/O that ended, to be used again.
class IoPool {
 public:
  IoPool() = default;
  IoPool(const IoPool&) = delete;
  IoPool& operator=(const IoPool&) = delete;
  ~IoPool();

  // Made anew if there is none.
  Io* Get();
  void Put(Io* io);

 private:
  // What is more goes back to the system.
  static constexpr size_t kMaxKept = 1024;

  Io* first_ = nullptr;
  size_t count_ = 0;
};

// A SCSI command, with what it is copied to. Used again and again.
class RawCommand : public Pending {
 public:
  RawCommand(Disk* disk, const scsi::RetryingCommand::Environment* environment);

  // Copies it. Only when not running, as Start().
  void Fill(const scsi::RetryingCommand::Environment* environment,
            const skiff_command& given, skiff_command_result* result);
  Disk* disk() const { return disk_; }
  void Start() { command_.Start(); }
  void Stop() { command_.Stop(); }
  const absl::Status& status() const { return command_.status(); }
  // Fills what the caller wants to know.
  void FillResult() const;

 private:
  static void OnDone(scsi::RetryingCommand* command);

  Disk* const disk_;
  scsi::RetryingCommand command_;
  std::vector<iovec> out_;
  std::vector<iovec> in_;
  skiff_command_result* result_ = nullptr;
};

}  // namespace skiff::library

#endif  // SKIFF_TOOLS_LIBRARY_PENDING_H_
