#ifndef SKIFF_SCSI_BACKEND_PROVISIONING_MAP_H_
#define SKIFF_SCSI_BACKEND_PROVISIONING_MAP_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"

namespace skiff::scsi {

// Which granules of a medium were written: one bit each, in memory that itself
// appears only where bits were set. Every method is thread-safe and lock-free;
// overlapping calls from several threads leave each bit in one of the states
// that they asked for.
class ProvisioningMap {
 public:
  ProvisioningMap() = default;
  ProvisioningMap(const ProvisioningMap&) = delete;
  ProvisioningMap& operator=(const ProvisioningMap&) = delete;
  ~ProvisioningMap();

  // For `granules` granules, none of them mapped. Once.
  absl::Status Init(uint64_t granules);

  // Granules [first, first + count). Setting what is set already is a plain
  // load, so that rewriting does not bounce cache lines between reactors.
  void Set(uint64_t first, uint64_t count);
  void Clear(uint64_t first, uint64_t count);
  bool IsSet(uint64_t granule) const;

  // How many granules from `first` on have the state of `first`. Looks at most
  // at `limit` granules, and not beyond the end.
  uint64_t RunLength(uint64_t first, uint64_t limit) const;

 private:
  static constexpr uint64_t kWordBits = 64;
  std::atomic_ref<uint64_t> Word(uint64_t index) const {
    return std::atomic_ref<uint64_t>(words_[index]);
  }
  template <typename Update>
  void ForEachWord(uint64_t first, uint64_t count, Update update);

  uint64_t granules_ = 0;
  uint64_t* words_ = nullptr;  // mmapped.
  size_t bytes_ = 0;
};

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_BACKEND_PROVISIONING_MAP_H_
