#ifndef SKIFF_SCSI_BACKEND_FILE_ENGINE_H_
#define SKIFF_SCSI_BACKEND_FILE_ENGINE_H_

#include <sys/uio.h>

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "transport/reactor/reactor.h"

namespace skiff::scsi {

// One system call on the file. Owned by the caller, who keeps it and its
// memory alive until the sink got it back.
struct FileCall {
  enum class Kind : uint8_t {
    kRead,
    kWrite,
    kSync,      // fdatasync.
    kAllocate,  // fallocate(mode, offset, length).
  };
  Kind kind = Kind::kRead;
  bool dsync = false;  // kWrite: RWF_DSYNC.
  int mode = 0;        // kAllocate.
  int iov_count = 0;   // kRead, kWrite.
  const iovec* iov = nullptr;
  uint64_t offset = 0;
  uint64_t length = 0;  // kAllocate.

  FileCall* engine_next = nullptr;  // The engine's.
  int64_t engine_result = 0;        // The engine's.
};

// Makes calls on one file for one channel, on its reactor.
class FileEngine {
 public:
  // Who gets the results; never from inside Start().
  class Sink {
   public:
    // `result` is what the system call returns, or a negated errno.
    virtual void OnCallDone(FileCall* call, int64_t result) = 0;

   protected:
    ~Sink() = default;
  };

  virtual ~FileEngine() = default;  // Only when no call is in flight.
  // At most the number of calls that the engine was created for may be in
  // flight.
  virtual void Start(FileCall* call) = 0;
};

// io_uring: calls of one reactor turn are submitted together at its end. Not
// OK where the kernel refuses io_uring or is too old: says why and what to do.
absl::Status CheckIoUring();
absl::StatusOr<std::unique_ptr<FileEngine>> MakeUringEngine(
    transport::Reactor* reactor, int fd, uint32_t max_calls,
    FileEngine::Sink* sink);

// One helper thread that makes blocking calls, one after the other.
absl::StatusOr<std::unique_ptr<FileEngine>> MakeThreadEngine(
    transport::Reactor* reactor, int fd, FileEngine::Sink* sink);

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_BACKEND_FILE_ENGINE_H_
