#include "transport/libfabric/shm/shm_regions.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <random>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace skiff::transport {
namespace {

constexpr uint32_t kEntries = ShmRegionList::kEntries;
// Places where a key may be, from the one on that its low bits name.
constexpr uint32_t kTries = 8;
// A list that can shrink under its reader would kill it (SIGBUS).
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
// MFD_NOEXEC_SEAL, which Linux has since 6.3, and may insist on
// (vm.memfd_noexec).
constexpr unsigned int kNotExecutable = 8;

uint32_t Place(uint64_t key, uint32_t attempt) {
  return (static_cast<uint32_t>(key) + attempt) % kEntries;
}

}  // namespace

// A region's entry is written by its process while others read. `name` is 0
// while there is no region, and else the key below a number that only grows: if
// it is the same before and after, all between was this region's.
struct ShmRegionEntry {
  std::atomic<uint64_t> name;
  std::atomic<uint64_t> base;
  std::atomic<uint64_t> size;
};

struct ShmRegionTable {
  // By these, a reader sees that it has the right process.
  uint64_t secret;
  uint64_t address;  // Where this is in the process.
  std::array<ShmRegionEntry, kEntries> entries;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

namespace {

ShmRegionTable* Map(int file, int protection) {
  void* const memory =
      mmap(nullptr, sizeof(ShmRegionTable), protection, MAP_SHARED, file, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<ShmRegionTable*>(memory);
}

// As a list of a process of this user is.
bool IsOurs(const struct stat& facts) {
  return S_ISREG(facts.st_mode) && facts.st_uid == geteuid() &&
         facts.st_size == sizeof(ShmRegionTable);
}

absl::Status Closed(int error, absl::string_view what) {
  return absl::Status(
      absl::ErrnoToStatusCode(error),
      absl::StrCat(what, ": ", std::strerror(error),
                   "; run both ends as one user, with "
                   "kernel.yama.ptrace_scope=0 or CAP_SYS_PTRACE, and let "
                   "containers use process_vm_readv(2)"));
}

absl::Status NotAList(pid_t process) {
  return absl::InvalidArgumentError(
      absl::StrCat("what process ", process,
                   " says to be the list of its memory is none of this user"));
}

// Of a peer, which may be anybody.
absl::StatusOr<ScopedFd> OpenList(pid_t process, uint32_t descriptor) {
  const std::string path = absl::StrCat("/proc/", process, "/fd/", descriptor);
  // Anything else is not opened: that may do something.
  struct stat facts = {};
  if (stat(path.c_str(), &facts) != 0) return Closed(errno, path);
  if (!IsOurs(facts)) return NotAList(process);
  ScopedFd file(
      open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.valid() || fstat(file.get(), &facts) != 0) {
    return Closed(errno, path);
  }
  const int seals = fcntl(file.get(), F_GET_SEALS);
  if (!IsOurs(facts) || seals < 0 || (seals & kSeals) != kSeals) {
    return NotAList(process);
  }
  return file;
}

}  // namespace

void ShmRegionUnmap::operator()(ShmRegionTable* table) const {
  munmap(table, sizeof(ShmRegionTable));
}

absl::StatusOr<std::unique_ptr<ShmRegionList>> ShmRegionList::Create() {
  constexpr unsigned int kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  ScopedFd file(memfd_create("skiff-regions", kFlags | kNotExecutable));
  if (!file.valid()) file = ScopedFd(memfd_create("skiff-regions", kFlags));
  if (!file.valid() || ftruncate(file.get(), sizeof(ShmRegionTable)) != 0 ||
      fcntl(file.get(), F_ADD_SEALS, kSeals) != 0) {
    return absl::ErrnoToStatus(errno, "a sealed memfd_create(2)");
  }
  ShmRegionTable* const table = Map(file.get(), PROT_READ | PROT_WRITE);
  if (table == nullptr) return absl::ErrnoToStatus(errno, "mmap of a memfd");
  std::random_device random;
  table->secret = (uint64_t{random()} << 32) | random();
  table->address = reinterpret_cast<uintptr_t>(table);
  return std::unique_ptr<ShmRegionList>(
      new ShmRegionList(std::move(file), table));
}

uint32_t ShmRegionList::Add(uint64_t key, const void* data, size_t size) {
  if (key >> 32 != 0 || forked()) return kUnlisted;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (uint32_t i = 0; i < kTries; ++i) {
    const uint32_t place = Place(key, i);
    ShmRegionEntry& entry = table_->entries[place];
    if (entry.name.load(std::memory_order_relaxed) != 0) continue;
    // A reader that sees what follows sees that the earlier region is gone.
    std::atomic_thread_fence(std::memory_order_release);
    entry.base.store(reinterpret_cast<uintptr_t>(data),
                     std::memory_order_relaxed);
    entry.size.store(size, std::memory_order_relaxed);
    entry.name.store((uint64_t{++generation_} << 32) | key,
                     std::memory_order_release);
    return place;
  }
  return kUnlisted;
}

void ShmRegionList::Remove(uint32_t entry) {
  if (forked()) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  table_->entries[entry].name.store(0, std::memory_order_relaxed);
  // Before the memory is used for anything else.
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

absl::StatusOr<std::unique_ptr<ShmReader>> ShmReader::Open(
    pid_t process, std::optional<uint32_t> descriptor) {
  if (!descriptor.has_value()) {
    return absl::FailedPreconditionError(
        "the peer has no list of its memory: it could not make one, and has "
        "said so on standard error, or is a fork of the process that did");
  }
  if (process <= 0) {
    return absl::FailedPreconditionError(
        "the peer is in another PID namespace; run both ends in one");
  }
  // First: whichever process has the list below is the one whose end it tells.
  ScopedFd end(static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
  if (!end.valid()) {
    return absl::ErrnoToStatus(
        errno,
        absl::StrCat("pidfd_open of process ", process,
                     errno == ENOSYS ? ", which Linux has since 5.3" : ""));
  }
  const auto file = OpenList(process, *descriptor);
  if (!file.ok()) return file.status();
  const ShmRegionTable* const table = Map(file->get(), PROT_READ);
  if (table == nullptr) return absl::ErrnoToStatus(errno, "mmap of the list");
  std::unique_ptr<ShmReader> reader(
      new ShmReader(process, std::move(end), table));
  absl::Status right = reader->Check();
  if (!right.ok()) return right;
  return reader;
}

absl::Status ShmReader::Check() const {
  const uint64_t address = table_->address;
  uint64_t found[2] = {};
  const iovec to = {found, sizeof(found)};
  const iovec from = {reinterpret_cast<void*>(address), sizeof(found)};
  const ssize_t read = process_vm_readv(process_, &to, 1, &from, 1, 0);
  if (read < 0 && errno != EFAULT) {
    return Closed(errno,
                  absl::StrCat("process_vm_readv of process ", process_));
  }
  if (read != sizeof(found) || found[0] != table_->secret ||
      found[1] != address) {
    return NotAList(process_);
  }
  return absl::OkStatus();
}

bool ShmReader::Read(absl::Span<const iovec> to, size_t length,
                     RemoteBuffer from) {
  const uint64_t key = from.key.value;
  if (length == 0 || key == 0 || key >> 32 != 0) return false;
  for (uint32_t i = 0; i < kTries; ++i) {
    const ShmRegionEntry& entry = table_->entries[Place(key, i)];
    const uint64_t name = entry.name.load(std::memory_order_acquire);
    if ((name & 0xffffffff) != key) continue;
    const uint64_t base = entry.base.load(std::memory_order_relaxed);
    const uint64_t size = entry.size.load(std::memory_order_relaxed);
    if (from.address > size || length > size - from.address) return false;
    const iovec piece = {reinterpret_cast<void*>(base + from.address), length};
    const ssize_t read =
        process_vm_readv(process_, to.data(), to.size(), &piece, 1, 0);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return read == static_cast<ssize_t>(length) &&
           entry.name.load(std::memory_order_relaxed) == name;
  }
  return false;
}

}  // namespace skiff::transport
