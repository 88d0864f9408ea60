#include "testing/transport_conformance/guarded_buffer.h"

#include "absl/strings/str_cat.h"
#include "testing/transport_conformance/host.h"

namespace skiff::testing {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kGuard = kPage;

char PatternByte(uint64_t seed, size_t index) {
  const uint64_t mixed =
      (index + (index >> 8) * 31 + (index >> 16) * 7) * 167 + seed * 59;
  return static_cast<char>(mixed);
}

char GuardByte(size_t index) {
  return static_cast<char>(0xa5 ^ (index * 13 & 0xff));
}

}  // namespace

GuardedBuffer::GuardedBuffer(size_t size, size_t misalignment)
    : size_(size),
      total_((kGuard + misalignment + size + kGuard + kPage - 1) / kPage *
             kPage),
      memory_(static_cast<char*>(std::aligned_alloc(kPage, total_))),
      data_(memory_.get() + kGuard + misalignment) {
  for (size_t i = 0; i < total_; ++i) memory_.get()[i] = GuardByte(i);
  Fill(0, size_, kUntouched);
}

void GuardedBuffer::Fill(size_t offset, size_t length, uint64_t seed) {
  for (size_t i = 0; i < length; ++i) data_[offset + i] = PatternByte(seed, i);
}

int64_t GuardedBuffer::Mismatch(size_t offset, size_t length, uint64_t seed,
                                size_t skip) const {
  for (size_t i = 0; i < length; ++i) {
    if (data_[offset + i] != PatternByte(seed, skip + i)) {
      return static_cast<int64_t>(i);
    }
  }
  return -1;
}

std::string GuardedBuffer::BrokenGuard() const {
  const char* memory = memory_.get();
  const size_t begin = static_cast<size_t>(data_ - memory);
  for (size_t i = 0; i < total_; ++i) {
    if (i == begin) i += size_;
    if (i >= total_ || memory[i] == GuardByte(i)) continue;
    return i < begin ? absl::StrCat(begin - i, " bytes before its start")
                     : absl::StrCat(i - begin - size_, " bytes behind its end");
  }
  return "";
}

}  // namespace skiff::testing
