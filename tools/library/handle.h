#ifndef SKIFF_TOOLS_LIBRARY_HANDLE_H_
#define SKIFF_TOOLS_LIBRARY_HANDLE_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "transport/memory/fork_detector.h"

namespace skiff::library {

// What the C interface has handles of.
enum class Kind : uint8_t { kContext = 1, kDisk, kBackend, kTarget, kServer };

// What a handle stands for.
class Object {
 public:
  Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() = default;
  // Knows whether this process is a child of the one that made the object.
  virtual const transport::ForkDetector& fork_detector() const = 0;
};

// Handles are numbers that look like pointers: the place in a table, and how
// often it was used. So anything may be given as a handle, and is told apart
// from one without looking at memory that it would point to.
//
// Thread-safe, without locks but to open and close.
class Handles {
 public:
  static constexpr int kMaxHandles = 1 << 16;

  // Null: there are too many.
  static void* Open(Kind kind, std::shared_ptr<Object> object);
  // From now on the handle is none. False: it was none before.
  static bool Close(void* handle);

 private:
  friend class Pin;
  struct Entry;
  static Entry* Table();
  static Entry* Acquire(void* handle);
  static void Release(Entry* entry);
  static Object* ObjectOf(Entry* entry);
  static std::shared_ptr<Object> Share(Entry* entry);
};

// Keeps what a handle stands for from being destroyed by another thread. Short:
// not while waiting.
class Pin {
 public:
  // Fails, and remembers the error, where `handle` is none of this kind.
  Pin(Kind kind, void* handle);
  Pin(const Pin&) = delete;
  Pin& operator=(const Pin&) = delete;
  ~Pin() {
    if (entry_ != nullptr) Handles::Release(entry_);
  }

  // 0, or what the function of the C interface is to return.
  int error() const { return error_; }
  // The object; null with an error.
  Object* get() const { return object_; }
  // To keep it for longer.
  std::shared_ptr<Object> Share() const { return Handles::Share(entry_); }

 private:
  int Check(Kind kind, void* handle);

  Handles::Entry* entry_ = nullptr;
  Object* object_ = nullptr;
  int error_ = 0;
};

// A pin of an object whose class says its kind: `static constexpr Kind kKind`.
// Converts from the handle types of the headers, which are never defined.
template <typename T>
class Pinned : public Pin {
 public:
  template <typename Handle>
  explicit Pinned(Handle* handle) : Pin(T::kKind, handle) {}
  T* operator->() const { return static_cast<T*>(get()); }
  T& operator*() const { return *static_cast<T*>(get()); }
  std::shared_ptr<T> Share() const {
    return std::static_pointer_cast<T>(Pin::Share());
  }
};

}  // namespace skiff::library

#endif  // SKIFF_TOOLS_LIBRARY_HANDLE_H_
