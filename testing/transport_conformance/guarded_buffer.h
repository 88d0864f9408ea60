#ifndef SKIFF_TESTING_TRANSPORT_CONFORMANCE_GUARDED_BUFFER_H_
#define SKIFF_TESTING_TRANSPORT_CONFORMANCE_GUARDED_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

namespace skiff::testing {

// Memory with a guard pattern before and behind it, and a pattern of bytes
// inside that depends on a seed and the position.
class GuardedBuffer {
 public:
  // The first byte lies `misalignment` bytes behind a page boundary.
  GuardedBuffer(size_t size, size_t misalignment);

  char* data() const { return data_; }
  size_t size() const { return size_; }

  void Fill(size_t offset, size_t length, uint64_t seed);
  // See ConformanceHost::Mismatch().
  int64_t Mismatch(size_t offset, size_t length, uint64_t seed,
                   size_t skip) const;
  // Empty, or which guard byte was overwritten.
  std::string BrokenGuard() const;

 private:
  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };

  const size_t size_;
  const size_t total_;
  const std::unique_ptr<char, Free> memory_;
  char* const data_;
};

}  // namespace skiff::testing

#endif  // SKIFF_TESTING_TRANSPORT_CONFORMANCE_GUARDED_BUFFER_H_
