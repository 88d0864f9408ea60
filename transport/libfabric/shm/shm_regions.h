#ifndef SKIFF_TRANSPORT_LIBFABRIC_SHM_SHM_REGIONS_H_
#define SKIFF_TRANSPORT_LIBFABRIC_SHM_SHM_REGIONS_H_

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "transport/memory/fork_detector.h"
#include "transport/net/scoped_fd.h"
#include "transport/rdma_endpoint.h"

namespace skiff::transport {

// READs over shared memory that the provider has no part in: it copies every
// READ twice, one at a time, and takes nothing else meanwhile. Each process
// lists its regions that are open to remote reading where its peers can map the
// list; a peer looks a key up, and has the kernel copy (process_vm_readv(2)).

struct ShmRegionTable;

struct ShmRegionUnmap {
  void operator()(ShmRegionTable* table) const;
};

// The list of a domain of this process. Thread-safe. A fork of the process
// shares it, and so has to leave it alone.
class ShmRegionList {
 public:
  static constexpr uint32_t kEntries = 1 << 14;
  static constexpr uint32_t kUnlisted = ~0u;

  // An error if the kernel does not give the memory.
  static absl::StatusOr<std::unique_ptr<ShmRegionList>> Create();

  // What ShmReader::Open() needs to know; -1 in a fork of the process.
  int descriptor() const { return forked() ? -1 : file_.get(); }
  // Which entry it is, or kUnlisted if there is no room: less than kEntries may
  // be in use then, as a key goes into one of a few.
  uint32_t Add(uint64_t key, const void* data, size_t size);
  // Nobody begins to use the region after this, and who has begun learns of it.
  void Remove(uint32_t entry);

 private:
  ShmRegionList(ScopedFd file, ShmRegionTable* table)
      : file_(std::move(file)), table_(table) {}

  bool forked() const { return fork_detector_.forked(); }

  const ForkDetector fork_detector_;
  const ScopedFd file_;
  const std::unique_ptr<ShmRegionTable, ShmRegionUnmap> table_;
  std::mutex mutex_;
  uint32_t generation_ = 0;  // Guarded by mutex_.
};

// Reads the memory of one peer.
class ShmReader {
 public:
  // The peer's process, which may be this one, or 0 if it is not known here;
  // and its list's descriptor, if it has a list. An error says why we cannot
  // read there, and what would help.
  static absl::StatusOr<std::unique_ptr<ShmReader>> Open(
      pid_t process, std::optional<uint32_t> descriptor);

  // Fills `to`, `length` bytes in all. False if the peer does not list the
  // region, or not all the while: `to` may have been written to.
  bool Read(absl::Span<const iovec> to, size_t length, RemoteBuffer from);

  // Readable once the process has ended (pidfd_open(2)). Its number may be
  // another's from then on: nothing must be read any more.
  int process_end() const { return process_end_.get(); }

 private:
  ShmReader(pid_t process, ScopedFd process_end, const ShmRegionTable* table)
      : process_(process),
        process_end_(std::move(process_end)),
        table_(const_cast<ShmRegionTable*>(table)) {}

  // That the process is the one with this list, and open to us.
  absl::Status Check() const;

  const pid_t process_;
  const ScopedFd process_end_;
  const std::unique_ptr<ShmRegionTable, ShmRegionUnmap> table_;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_SHM_SHM_REGIONS_H_
