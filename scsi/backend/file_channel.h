#ifndef SKIFF_SCSI_BACKEND_FILE_CHANNEL_H_
#define SKIFF_SCSI_BACKEND_FILE_CHANNEL_H_

#include <sys/uio.h>

#include <array>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "scsi/backend/backend.h"
#include "scsi/backend/file_engine.h"
#include "scsi/backend/file_medium.h"

namespace skiff::scsi {

// Carries out requests as sequences of system calls: continues short ones,
// retries interrupted ones, goes through aligned memory where O_DIRECT needs
// it. Requests beyond `max_requests` wait in order.
//
// Flushes are joined: one is under way at a time, and those that come meanwhile
// share the next one, which begins after they came.
class FileChannel : public BackendChannel, public FileEngine::Sink {
 public:
  // Closes `fd`, which the engine uses, in the end; -1: there is none.
  FileChannel(std::shared_ptr<FileMedium> medium, uint32_t max_requests,
              int fd);
  ~FileChannel() override;
  // Before the first Submit().
  void SetEngine(std::unique_ptr<FileEngine> engine) {
    engine_ = std::move(engine);
  }

  bool Submit(IoRequest* request) override;
  // Takes back what waits for others. What the system has may be anywhere.
  bool Cancel(IoRequest* request) override;
  void OnCallDone(FileCall* call, int64_t result) override;

 private:
  static constexpr int kMaxIov = 64;
  static constexpr uint64_t kBounceBytes = 256u << 10;

  static constexpr std::align_val_t kBounceAlignment{4096};

  struct AlignedDelete {
    void operator()(uint8_t* memory) const {
      ::operator delete(memory, kBounceAlignment);
    }
  };
  using AlignedMemory = std::unique_ptr<uint8_t, AlignedDelete>;

  // What the current call of a request is for.
  enum class Step : uint8_t {
    kTransfer,     // kRead, kWrite; the write of kCompareAndWrite.
    kCompare,      // Read into the bounce buffer, then compared.
    kPunch,        // kUnmap; kWriteZeroes that may unmap.
    kZeroRange,    // kWriteZeroes.
    kWriteBuffer,  // kWriteZeroes without the file system's help.
    kSync,         // kFlush; the FUA of kWriteZeroes.
  };

  // A request in progress. One call at a time.
  struct Operation : FileCall {
    IoRequest* request = nullptr;
    Step step = Step::kTransfer;
    bool bounced = false;
    int retries = 0;       // In a row without progress.
    int doubtful = 0;      // The error that the write is tried again for.
    uint64_t done = 0;     // Bytes of the step that are finished.
    AlignedMemory bounce;  // Allocated when first needed, then kept.
    std::array<iovec, kMaxIov> iov_storage;
    Operation* next_free = nullptr;
    // Of one that is to be stable: when it began; and, once it has succeeded,
    // the last that had begun by then.
    uint64_t ticket = 0;
    uint64_t waits_for = 0;
    Operation* next_held = nullptr;
    // Of a flush: others that end as it does, by `backend_next`.
    IoRequest* joined = nullptr;
    Operation* stable_prev = nullptr;
    Operation* stable_next = nullptr;
  };

  // It was when it came, unless the medium was made smaller since.
  bool IsWithin(const IoRequest& request) const;
  // Settles what needs no system call. Returns true when finished.
  bool FinishEarly(IoRequest* request);
  void Begin(IoRequest* request, Operation* operation);
  void BeginFlush(Operation* operation);
  void StartFlush(Operation* operation);
  void JoinFlush(IoRequest* request);
  // Ends the requests that were joined to one which ended like this.
  static void CompleteJoined(IoRequest* joined, const IoRequest& how);
  // The next request that waits for an operation, or null.
  IoRequest* NextWaiting();
  void Enter(Operation* operation, Step step);
  void Continue(Operation* operation);
  bool NeedsBounce(const IoRequest& request) const;
  bool Provide(const IoRequest& request, Operation* operation) const;
  void StartWaiting(Operation* operation, IoRequest* ended);
  void PrepareTransfer(Operation* operation);
  void PrepareBounced(Operation* operation, uint64_t length);
  void PrepareZeroes(Operation* operation);
  void OnAllocated(Operation* operation);
  void OnTransferred(Operation* operation, uint64_t bytes);
  bool Retry(Operation* operation, int error);
  void FailDoubtful(Operation* operation);
  void Fail(Operation* operation, int error);
  void Finish(Operation* operation, IoStatus status, uint64_t error_offset);
  void Complete(Operation* operation);
  void EnterStable(Operation* operation);
  void LeaveStable(Operation* operation);

  std::shared_ptr<FileMedium> medium_;
  std::unique_ptr<FileEngine> engine_;
  std::vector<Operation> operations_;
  Operation* free_ = nullptr;
  uint32_t in_flight_ = 0;
  // By `backend_next`. The `backend_data` of each that waits is the place of
  // the pointer to it, and of all others null.
  IoRequest* waiting_ = nullptr;
  IoRequest** waiting_end_ = &waiting_;
  // Operations that are to be stable. The kernel tells of data that were lost
  // to one of those that are under way on a descriptor, and the others succeed:
  // a success is held until all that ran beside it have ended.
  uint64_t last_ticket_ = 0;
  Operation* stable_head_ = nullptr;  // Those under way, the oldest first.
  Operation* stable_tail_ = nullptr;
  Operation* held_ = nullptr;        // Those that have succeeded, and wait.
  Operation* flush_ = nullptr;       // The flush that is under way.
  Operation* next_flush_ = nullptr;  // Begins when that has ended.
  const int fd_;
};

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_BACKEND_FILE_CHANNEL_H_
