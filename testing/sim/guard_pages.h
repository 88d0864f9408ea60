#ifndef SKIFF_TESTING_SIM_GUARD_PAGES_H_
#define SKIFF_TESTING_SIM_GUARD_PAGES_H_

#include <sys/mman.h>
#include <unistd.h>

#include <cassert>
#include <cstddef>
#include <cstring>

#include "absl/strings/string_view.h"

namespace skiff::testing {

// Memory between two pages that nobody may touch. What is used of it ends where
// the second one begins, and is filled up to the first with a pattern.
class GuardPages {
 public:
  explicit GuardPages(size_t size)
      : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))),
        room_((size + page_ - 1) / page_ * page_),
        memory_(static_cast<char*>(mmap(nullptr, room_ + 2 * page_, PROT_NONE,
                                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    assert(memory_ != MAP_FAILED);
    [[maybe_unused]] const int result =
        mprotect(memory_ + page_, room_, PROT_READ | PROT_WRITE);
    assert(result == 0);
  }
  ~GuardPages() { munmap(memory_, room_ + 2 * page_); }
  GuardPages(const GuardPages&) = delete;
  GuardPages& operator=(const GuardPages&) = delete;

  // From now on so many bytes are used, which are `content`.
  void Use(size_t size, char content) {
    assert(size <= room_);
    size_ = size;
    std::memset(begin(), kPattern, room_ - size_);
    std::memset(data(), content, size_);
  }
  char* data() const { return begin() + room_ - size_; }
  size_t size() const { return size_; }
  absl::string_view view() const { return {data(), size_}; }
  // Whether what lies before is as it was.
  bool intact() const {
    for (const char* at = begin(); at != data(); ++at) {
      if (*at != kPattern) return false;
    }
    return true;
  }

 private:
  static constexpr char kPattern = 0x5a;

  char* begin() const { return memory_ + page_; }

  const size_t page_;
  const size_t room_;
  char* const memory_;
  size_t size_ = 0;
};

}  // namespace skiff::testing

#endif  // SKIFF_TESTING_SIM_GUARD_PAGES_H_
