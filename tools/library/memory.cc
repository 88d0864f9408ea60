#include "tools/library/memory.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tools/library/error.h"

namespace skiff::library {
namespace {

void* AllocateAligned(void* /*user*/, size_t size, size_t alignment) {
  const size_t rounded = (size + alignment - 1) / alignment * alignment;
  return rounded >= size ? std::aligned_alloc(alignment, rounded) : nullptr;
}

void FreeAligned(void* /*user*/, void* memory, size_t /*size*/) {
  std::free(memory);
}

// Frees a buffer in the end.
class Buffer {
 public:
  Buffer(skiff_free_fn free, void* user, void* data, size_t size)
      : free_(free), user_(user), data_(data), size_(size) {}
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { free_(user_, data_, size_); }

 private:
  const skiff_free_fn free_;
  void* const user_;
  void* const data_;
  const size_t size_;
};

// What is under way on all reactors.
struct Forgetting {
  std::atomic<size_t> left;
  absl::AnyInvocable<void()> done;
  std::unique_ptr<Buffer> buffer;
};

}  // namespace

Memories::Memories(const skiff_context_options& options)
    : alloc_(options.alloc != nullptr ? options.alloc : AllocateAligned),
      free_(options.free != nullptr ? options.free : FreeAligned),
      user_(options.memory_user) {}

void Memories::Attach(const std::vector<transport::Reactor*>& reactors) {
  reactors_ = reactors;
  users_.resize(reactors.size());
}

int Memories::Add(void* data, size_t size, bool is_buffer) {
  const auto begin = reinterpret_cast<uintptr_t>(data);
  if (data == nullptr || size == 0 || begin + size < begin) {
    return Fail(EINVAL,
                absl::StrCat("there are no ", size, " bytes of memory at 0x",
                             absl::Hex(begin)));
  }
  auto owner = std::make_shared<char>();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto next = ranges_.lower_bound(begin);
    if ((next != ranges_.end() && next->first < begin + size) ||
        (next != ranges_.begin() &&
         std::prev(next)->first + std::prev(next)->second.size > begin)) {
      return Fail(EEXIST,
                  absl::StrCat("a part of the ", size, " bytes at 0x",
                               absl::Hex(begin), " is registered already"));
    }
    ranges_[begin] = {size, owner, is_buffer};
    if (is_buffer) ++buffers_;
  }
  for (size_t i = 0; i < reactors_.size(); ++i) {
    reactors_[i]->Post([this, i, data, size, owner] {
      for (MemoryUser* user : users_[i]) user->UseMemory(data, size, owner);
    });
  }
  return 0;
}

int Memories::Remove(void* data, bool is_buffer,
                     absl::AnyInvocable<void()> done) {
  auto forgetting = std::make_shared<Forgetting>();
  size_t size = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = ranges_.find(reinterpret_cast<uintptr_t>(data));
    if (found == ranges_.end() || found->second.is_buffer != is_buffer) {
      return Fail(
          ENOENT,
          absl::StrCat(
              is_buffer ? "no buffer of this context" : "no registered memory",
              " begins at 0x", absl::Hex(reinterpret_cast<uintptr_t>(data))));
    }
    size = found->second.size;
    ranges_.erase(found);
    if (is_buffer) --buffers_;
  }
  forgetting->left = reactors_.size();
  forgetting->done = std::move(done);
  if (is_buffer) {
    forgetting->buffer = std::make_unique<Buffer>(free_, user_, data, size);
  }
  for (size_t i = 0; i < reactors_.size(); ++i) {
    reactors_[i]->Post([this, i, data, size, forgetting] {
      for (MemoryUser* user : users_[i]) user->ForgetMemory(data, size);
      if (forgetting->left.fetch_sub(1) != 1) return;
      forgetting->buffer.reset();
      if (forgetting->done) forgetting->done();
    });
  }
  return 0;
}

int Memories::Register(void* data, size_t size) {
  return Add(data, size, /*is_buffer=*/false);
}

int Memories::Unregister(void* data, absl::AnyInvocable<void()> done) {
  return Remove(data, /*is_buffer=*/false, std::move(done));
}

int Memories::Allocate(size_t size, void** buffer) {
  if (size == 0) return Fail(EINVAL, "a buffer of no bytes is none");
  void* const data =
      alloc_(user_, size, static_cast<size_t>(sysconf(_SC_PAGESIZE)));
  if (data == nullptr) {
    return Fail(ENOMEM,
                absl::StrCat("there are no ", size, " bytes for a buffer"));
  }
  if (const int error = Add(data, size, /*is_buffer=*/true)) {
    free_(user_, data, size);
    return error;
  }
  *buffer = data;
  return 0;
}

int Memories::Free(void* buffer) {
  return Remove(buffer, /*is_buffer=*/true, nullptr);
}

size_t Memories::buffers() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return buffers_;
}

void Memories::AddUser(uint32_t index, MemoryUser* user) {
  users_[index].push_back(user);
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [begin, range] : ranges_) {
    user->UseMemory(reinterpret_cast<void*>(begin), range.size, range.owner);
  }
}

void Memories::RemoveUser(uint32_t index, MemoryUser* user) {
  std::erase(users_[index], user);
}

}  // namespace skiff::library
