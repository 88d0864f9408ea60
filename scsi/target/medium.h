#ifndef SKIFF_SCSI_TARGET_MEDIUM_H_
#define SKIFF_SCSI_TARGET_MEDIUM_H_

#include <atomic>
#include <cstdint>
#include <memory>
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
  Medium(Key key, std::shared_ptr<Backend> backend);
  Medium(const Medium&) = delete;
  Medium& operator=(const Medium&) = delete;
  // After the last channel.
  ~Medium();

  Backend& backend() const { return *backend_; }
  const std::shared_ptr<Backend>& shared_backend() const { return backend_; }
  // Without the size, which may change.
  const BackendInfo& info() const { return info_; }
  // BackendInfo::identity: of the medium, beyond this process. Empty: it has
  // none.
  const std::string& identity() const { return info_.identity; }
  // All of it, to be read and written without a channel; null: it can't.
  uint8_t* memory() const { return memory_; }
  uint32_t block_size() const { return info_.block_size; }
  uint32_t block_shift() const { return block_shift_; }
  uint64_t block_count() const {
    return block_count_.load(std::memory_order_relaxed);
  }
  // The backend's size changed.
  void RefreshCapacity();

  const std::shared_ptr<WriteGuard>& write_guard() const { return guard_; }

 private:
  const std::shared_ptr<Backend> backend_;
  const BackendInfo info_;
  uint8_t* const memory_;
  const uint32_t block_shift_;
  std::atomic<uint64_t> block_count_{0};
  const std::shared_ptr<WriteGuard> guard_;
};

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_TARGET_MEDIUM_H_
