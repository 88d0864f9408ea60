#include "transport/memory/fork_detector.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>

namespace skiff::transport {
namespace {

size_t PageBytes() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

}  // namespace

ForkDetector::ForkDetector() : pid_(getpid()) {
  void* const page = mmap(nullptr, PageBytes(), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return;
  if (madvise(page, PageBytes(), MADV_WIPEONFORK) != 0) {
    munmap(page, PageBytes());
    return;
  }
  page_ = static_cast<volatile char*>(page);
  *page_ = 1;
}

ForkDetector::~ForkDetector() {
  if (page_ != nullptr) munmap(const_cast<char*>(page_), PageBytes());
}

bool ForkDetector::PidChanged() const { return getpid() != pid_; }

}  // namespace skiff::transport
