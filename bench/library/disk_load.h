#ifndef SKIFF_BENCH_LIBRARY_DISK_LOAD_H_
#define SKIFF_BENCH_LIBRARY_DISK_LOAD_H_

#include <cstdint>
#include <memory>
#include <string>

#include "transport/address.h"

namespace skiff::bench {

// What is served, and used: all of it was written once.
inline constexpr char kTargetName[] = "iqn.2026-11.org.skiff:library";
inline constexpr uint64_t kDiskBytes = 32 << 20;

// So many I/Os at once, each of so many bytes, at random places.
struct DiskWork {
  std::string name;
  bool write = false;
  uint32_t bytes = 4096;
  uint32_t depth = 1;
};

inline constexpr uint32_t kMaxDepth = 32;
inline constexpr uint32_t kMaxBytes = 128 << 10;

// A disk of the calling thread, which polls it and never sleeps. Exits when
// anything fails.
class DiskLoad {
 public:
  virtual ~DiskLoad() = default;
  // I/Os in a second, measured for so many seconds. None is left in flight.
  double Measure(const DiskWork& work, double seconds);

 protected:
  // Starts an I/O that ends with OnDone(slot).
  virtual void Submit(const DiskWork& work, uint32_t slot, uint64_t offset,
                      void* memory) = 0;
  // One turn of its loop.
  virtual void Poll() = 0;
  void OnDone(uint32_t slot);

 private:
  void SubmitNext(uint32_t slot);

  const std::unique_ptr<uint8_t[]> memory_ =
      std::make_unique<uint8_t[]>(size_t{kMaxDepth} * kMaxBytes);
  const DiskWork* work_ = nullptr;
  bool stopping_ = false;
  uint32_t in_flight_ = 0;
  uint64_t completed_ = 0;
  uint64_t random_ = 0x9e3779b97f4a7c15;
};

// By scsi::Disk and what is below it.
std::unique_ptr<DiskLoad> MakeInternalLoad(const transport::Address& portal);

// By the interface for C: what is linked into this program, or, with a path,
// that shared library.
std::unique_ptr<DiskLoad> MakeLibraryLoad(const transport::Address& portal,
                                          const std::string& path);

}  // namespace skiff::bench

#endif  // SKIFF_BENCH_LIBRARY_DISK_LOAD_H_
