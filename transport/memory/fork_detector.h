#ifndef SKIFF_TRANSPORT_MEMORY_FORK_DETECTOR_H_
#define SKIFF_TRANSPORT_MEMORY_FORK_DETECTOR_H_

#include <sys/types.h>

namespace skiff::transport {

// Knows whether this process is a fork(2) of the one that made it, at the cost
// of one load: by a page that the kernel empties in children
// (MADV_WIPEONFORK, madvise(2)). Where there is no such page, by getpid().
class ForkDetector {
 public:
  ForkDetector();
  ~ForkDetector();
  ForkDetector(const ForkDetector&) = delete;
  ForkDetector& operator=(const ForkDetector&) = delete;

  bool forked() const { return page_ != nullptr ? *page_ == 0 : PidChanged(); }

 private:
  bool PidChanged() const;

  volatile char* page_ = nullptr;
  const pid_t pid_;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_MEMORY_FORK_DETECTOR_H_
