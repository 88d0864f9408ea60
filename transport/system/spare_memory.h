#ifndef SKIFF_TRANSPORT_SYSTEM_SPARE_MEMORY_H_
#define SKIFF_TRANSPORT_SYSTEM_SPARE_MEMORY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace skiff::transport {

// Memory that is set aside for when the system has none left.
//
// What peers can make large is allocated so that failure is a status, and never
// takes of this (NotForThis). The rest is small: a line of the log, a text key,
// a posted function, what ends a connection. An exception in the middle of it
// would leave a session half-done, so it gets spare memory instead, and whoever
// caused it ends as soon as it is whole again (SpareMemory::Watch). That gives
// back what the next one needs.
//
// Only a process that calls Keep() has spare memory. Without it, and where it
// does not suffice, std::bad_alloc is thrown as ever. Thread-safe.
class SpareMemory {
 public:
  // Not a setting of skiffd: what it bounds is the small things of the work
  // that is under way where memory runs out, and that is one pass of each
  // reactor. It takes few of the 64 blocks, and gives them back as its
  // connection ends. A process with more than some dozen reactors may keep
  // more.
  static constexpr size_t kDefaultBytes = size_t{1} << 20;

  // Sets `bytes` aside for the rest of the process's life, in blocks of
  // kBlockBytes. Installs a std::new_handler, which calls the one that was
  // there once nothing is left. To be called once, before there are threads.
  static void Keep(size_t bytes = kDefaultBytes);
  static constexpr size_t kBlockBytes = size_t{16} << 10;

  // Sets aside again what was used, if the system has it; says in the log of
  // the process that it was. Reactors call it in every turn: as long as nothing
  // is missing, it is a load.
  static void Refill() {
    if (missing_blocks.load(std::memory_order_relaxed) > 0) [[unlikely]] {
      RefillMissing();
    }
  }
  // Blocks that are to be set aside again.
  static uint32_t missing() { return missing_blocks; }

  // Work for one peer, which is to end if memory runs out in it. It leaves a
  // quarter of the spare memory to what is nobody's: to ending it, above all.
  // Whoever has one catches std::bad_alloc. On this thread; may be nested.
  class Watch {
   public:
    Watch() : used_before_(used_here) { ++watches_here; }
    ~Watch() { --watches_here; }
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;
    // Whether spare memory was used on this thread since this began.
    bool ran_out() const { return used_here != used_before_; }

   private:
    const uint32_t used_before_;
  };

  // While there is one on this thread, nothing is taken of spare memory: for
  // `new (std::nothrow)`, which would have it otherwise.
  class NotForThis {
   public:
    NotForThis() { ++excluded_here; }
    ~NotForThis() { --excluded_here; }
    NotForThis(const NotForThis&) = delete;
    NotForThis& operator=(const NotForThis&) = delete;
  };

 private:
  static void Handle();
  static bool Give();
  static void RefillMissing();

  static std::atomic<uint32_t> missing_blocks;
  static constinit thread_local uint32_t used_here;  // Blocks, so far.
  static constinit thread_local uint32_t watches_here;
  static constinit thread_local uint32_t excluded_here;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_SYSTEM_SPARE_MEMORY_H_
