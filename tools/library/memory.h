#ifndef SKIFF_TOOLS_LIBRARY_MEMORY_H_
#define SKIFF_TOOLS_LIBRARY_MEMORY_H_

#include <skiff/common.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "transport/reactor/reactor.h"

namespace skiff::library {

// Who lets devices register memory: a session. Lives on one reactor.
class MemoryUser {
 public:
  virtual ~MemoryUser() = default;
  // As protocol::Initiator::UseMemory().
  virtual void UseMemory(void* data, size_t size,
                         const std::shared_ptr<const void>& owner) = 0;
  // Nobody owns that memory any more.
  virtual void ForgetMemory(void* data, size_t size) = 0;
};

// The memory that a context's user has named, and his buffers. Thread-safe but
// for what is of one reactor.
class Memories {
 public:
  explicit Memories(const skiff_context_options& options);
  Memories(const Memories&) = delete;
  Memories& operator=(const Memories&) = delete;
  ~Memories() = default;

  // Before all else.
  void Attach(const std::vector<transport::Reactor*>& reactors);

  // Each returns 0, or a remembered error.
  int Register(void* data, size_t size);
  // `done` runs on a reactor when no device knows the memory.
  int Unregister(void* data, absl::AnyInvocable<void()> done);
  int Allocate(size_t size, void** buffer);
  // The memory goes when no device knows it, or with the reactors.
  int Free(void* buffer);

  // How many buffers are allocated.
  size_t buffers() const;

  // On the thread of reactor `index`: tells `user` of all memory, and of what
  // comes, until it is removed.
  void AddUser(uint32_t index, MemoryUser* user);
  void RemoveUser(uint32_t index, MemoryUser* user);

 private:
  struct Range {
    size_t size = 0;
    std::shared_ptr<const void> owner;
    bool is_buffer = false;
  };

  int Add(void* data, size_t size, bool is_buffer);
  // Takes it out of the list, and lets each reactor forget it. `done` runs on
  // the last; `freed` then goes.
  int Remove(void* data, bool is_buffer, absl::AnyInvocable<void()> done);

  const skiff_alloc_fn alloc_;
  const skiff_free_fn free_;
  void* const user_;
  std::vector<transport::Reactor*> reactors_;
  // Of each reactor, on its thread.
  std::vector<std::vector<MemoryUser*>> users_;
  mutable std::mutex mutex_;
  std::map<uintptr_t, Range> ranges_;  // Under `mutex_`, by their beginning.
  size_t buffers_ = 0;                 // Under `mutex_`.
};

}  // namespace skiff::library

#endif  // SKIFF_TOOLS_LIBRARY_MEMORY_H_
