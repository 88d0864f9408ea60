#ifndef SKIFF_SCSI_TARGET_MEDIUM_H_
#define SKIFF_SCSI_TARGET_MEDIUM_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "scsi/backend/backend.h"
#include "scsi/target/write_guard.h"

namespace skiff::scsi {

// A medium as those who serve it share it, below logical units. All logical
// units over one backend have the same Medium, whichever targets they are of:
// what must be one for each medium belongs here, such as the guard that makes
// COMPARE AND WRITE atomic. Knows no LUN, no target and no I_T nexus.
//
// Constant after creation, or atomic, or locked: used from every reactor.
class Medium {
  // Of whoever makes one: Of().
  struct Key {};

 public:
  // The medium of `backend`, which is not null; made if there is none. Errors
  // say what is wrong with the backend. Thread-safe.
  static absl::StatusOr<std::shared_ptr<Medium>> Of(
      const std::shared_ptr<Backend>& backend);
  Medium(Key key, std::shared_ptr<Backend> backend, BackendInfo info);
  Medium(const Medium&) = delete;
  Medium& operator=(const Medium&) = delete;
  // After the last channel.
  ~Medium();

  Backend& backend() const { return *backend_; }
  const std::shared_ptr<Backend>& shared_backend() const { return backend_; }
  // As it was when the backend's was looked at last. Takes a lock.
  BackendInfo info() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return info_;
  }
  // Of that, what commands look at.
  bool read_only() const { return Has(kReadOnly); }
  bool thin() const { return Has(kThin); }
  bool volatile_write_cache() const { return Has(kWriteCache); }
  // BackendInfo::identity: of the medium, beyond this process. Empty: it has
  // none.
  const std::string& identity() const { return identity_; }
  // All of it, to be read and written without a channel; null: it can't.
  uint8_t* memory() const { return memory_; }
  uint32_t block_size() const { return 1u << block_shift_; }
  uint32_t block_shift() const { return block_shift_; }
  uint64_t block_count() const {
    return block_count_.load(std::memory_order_relaxed);
  }
  // The backend's info() changed. What describes the blocks, what the medium is
  // and whether data were lost stay as they were when it was first served.
  void Refresh();

  const std::shared_ptr<WriteGuard>& write_guard() const { return guard_; }

 private:
  static constexpr uint8_t kReadOnly = 1;
  static constexpr uint8_t kThin = 2;
  static constexpr uint8_t kWriteCache = 4;

  bool Has(uint8_t flag) const {
    return (flags_.load(std::memory_order_relaxed) & flag) != 0;
  }
  // Under `mutex_`, or in the constructor.
  void Take(BackendInfo info);

  const std::shared_ptr<Backend> backend_;
  const std::string identity_;
  uint8_t* const memory_;
  const uint32_t block_shift_;
  std::atomic<uint64_t> block_count_{0};
  std::atomic<uint8_t> flags_{0};
  mutable std::mutex mutex_;
  BackendInfo info_;  // Under `mutex_`.
  const std::shared_ptr<WriteGuard> guard_;
};

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_TARGET_MEDIUM_H_
