#include "tools/library/handle.h"

#include <atomic>
#include <cerrno>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tools/library/error.h"

namespace skiff::library {
namespace {

static_assert(sizeof(void*) == sizeof(uint64_t), "handles need 64 bits");

// A handle: how often its entry was used, which, and the kind.
constexpr int kKindBits = 4;
constexpr int kIndexBits = 16;
static_assert(Handles::kMaxHandles == 1 << kIndexBits);

uint64_t Number(const void* handle) {
  return reinterpret_cast<uintptr_t>(handle);
}
uint32_t IndexOf(uint64_t number) {
  return (number >> kKindBits) & ((1u << kIndexBits) - 1);
}
unsigned KindOf(uint64_t number) { return number & ((1u << kKindBits) - 1); }

absl::string_view NameOf(unsigned kind) {
  switch (static_cast<Kind>(kind)) {
    case Kind::kContext:
      return "skiff_context";
    case Kind::kDisk:
      return "skiff_disk";
    case Kind::kBackend:
      return "skiff_backend";
    case Kind::kTarget:
      return "skiff_target";
    case Kind::kServer:
      return "skiff_server";
  }
  return "";
}

}  // namespace

// A line of a cache of its own: threads count their pins in it.
struct alignas(64) Handles::Entry {
  // The handle; 0: closed, or free.
  std::atomic<uint64_t> number = 0;
  // Pins, and one for the handle while it is open. 0: free.
  std::atomic<uint32_t> users = 0;
  uint32_t next_free = 0;
  uint64_t uses = 0;
  // Not the pointer itself, since that would need a destructor.
  std::shared_ptr<Object>* object = nullptr;
};

// Zeroes, of which the system makes pages as they are used; and nothing that
// would be destroyed at exit, when threads may be running still.
Handles::Entry* Handles::Table() {
  static constinit Entry table[kMaxHandles];
  return table;
}

namespace {

// Free entries, the one that was freed first in front: so it takes long until
// an entry is used again. Index 0 is none.
std::mutex free_mutex;
uint32_t first_free = 0;
uint32_t last_free = 0;
uint32_t never_used = 1;

}  // namespace

void* Handles::Open(Kind kind, std::shared_ptr<Object> object) {
  Entry* const table = Table();
  const std::lock_guard<std::mutex> lock(free_mutex);
  uint32_t index = never_used;
  if (first_free != 0) {
    index = first_free;
    first_free = table[index].next_free;
    if (first_free == 0) last_free = 0;
  } else if (never_used < kMaxHandles) {
    ++never_used;
  } else {
    return nullptr;
  }
  Entry& entry = table[index];
  ++entry.uses;
  entry.object = new std::shared_ptr<Object>(std::move(object));
  const uint64_t number = entry.uses << (kKindBits + kIndexBits) |
                          uint64_t{index} << kKindBits |
                          static_cast<uint64_t>(kind);
  entry.number.store(number);
  entry.users.store(1);
  return reinterpret_cast<void*>(number);
}

bool Handles::Close(void* handle) {
  Entry& entry = Table()[IndexOf(Number(handle))];
  uint64_t number = Number(handle);
  if (number == 0 || !entry.number.compare_exchange_strong(number, 0)) {
    return false;
  }
  Release(&entry);
  return true;
}

Handles::Entry* Handles::Acquire(void* handle) {
  Entry& entry = Table()[IndexOf(Number(handle))];
  uint32_t users = entry.users.load(std::memory_order_relaxed);
  do {
    if (users == 0) return nullptr;
  } while (!entry.users.compare_exchange_weak(users, users + 1));
  if (entry.number.load() == Number(handle)) return &entry;
  Release(&entry);
  return nullptr;
}

void Handles::Release(Entry* entry) {
  if (entry->users.fetch_sub(1) != 1) return;
  const std::unique_ptr<std::shared_ptr<Object>> object(entry->object);
  entry->object = nullptr;
  const std::lock_guard<std::mutex> lock(free_mutex);
  const auto index = static_cast<uint32_t>(entry - Table());
  entry->next_free = 0;
  if (last_free != 0) Table()[last_free].next_free = index;
  last_free = index;
  if (first_free == 0) first_free = index;
}

Object* Handles::ObjectOf(Entry* entry) { return entry->object->get(); }

std::shared_ptr<Object> Handles::Share(Entry* entry) { return *entry->object; }

Pin::Pin(Kind kind, void* handle) {
  error_ = Check(kind, handle);
  if (error_ != 0) object_ = nullptr;
}

int Pin::Check(Kind kind, void* handle) {
  const absl::string_view name = NameOf(static_cast<unsigned>(kind));
  if (handle == nullptr) {
    return Fail(EINVAL, absl::StrCat("the ", name, " is NULL"));
  }
  entry_ = Handles::Acquire(handle);
  const unsigned given = KindOf(Number(handle));
  if (entry_ == nullptr) {
    return Fail(EBADF, absl::StrCat("the ", name,
                                    " was closed before, or is no handle"));
  }
  if (given != static_cast<unsigned>(kind)) {
    return Fail(EBADF, absl::StrCat("a ", NameOf(given), " was given where a ",
                                    name, " is wanted"));
  }
  object_ = Handles::ObjectOf(entry_);
  if (object_->fork_detector().forked()) {
    return Fail(ECHILD, absl::StrCat("the ", name,
                                     " belongs to the parent of this process: "
                                     "after fork(), a child makes its own"));
  }
  return 0;
}

}  // namespace skiff::library
