#include "scsi/backend/ram_backend.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <limits>
#include <mutex>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "scsi/backend/medium_record.h"
#include "scsi/backend/memory_limit.h"
#include "scsi/backend/provisioning_map.h"
#include "scsi/iovec_cursor.h"

namespace skiff::scsi {
namespace {

// Zeroing less than this is cheaper by memset than by giving pages back and
// faulting them in again.
constexpr uint64_t kMinDiscard = 1u << 20;
constexpr uint64_t kHugePage = 2u << 20;
// Bounds the time of one ProvisioningAt(): 64 GiB of 4 KiB granules.
constexpr uint64_t kMaxRun = 1u << 24;

// Asking the system reads a dozen of its files: the answer serves for all the
// disks that a configuration opens in one go.
uint64_t RecentUsableMemory() {
  using Clock = std::chrono::steady_clock;
  static std::mutex mutex;
  static uint64_t usable = 0;
  static Clock::time_point until;
  const std::lock_guard<std::mutex> lock(mutex);
  if (const Clock::time_point now = Clock::now(); now >= until) {
    usable = UsableMemory();
    until = now + std::chrono::seconds(1);
  }
  return usable;
}

bool IsZero(const uint8_t* data, uint64_t length) {
  return length == 0 ||
         (data[0] == 0 && std::memcmp(data, data + 1, length - 1) == 0);
}

class RamBackend : public Backend {
 public:
  explicit RamBackend(const RamBackendOptions& options);
  RamBackend(const RamBackend&) = delete;
  RamBackend& operator=(const RamBackend&) = delete;
  ~RamBackend() override {
    if (reserved_ != nullptr) munmap(reserved_, reserved_bytes_);
  }

  absl::Status Init();

  BackendInfo info() const override { return info_; }
  absl::StatusOr<std::unique_ptr<BackendChannel>> OpenChannel(
      transport::Reactor* reactor) override;
  uint8_t* direct_memory() override { return memory_; }
  bool direct_memory_moves() const override { return info_.thin; }
  void NoteWritten(uint64_t offset, uint64_t length) override;
  ProvisioningExtent ProvisioningAt(uint64_t offset) override;

  void Execute(IoRequest* request);

 private:
  bool InBounds(const IoRequest& request) const {
    return request.offset <= info_.size_bytes &&
           request.length <= info_.size_bytes - request.offset;
  }
  void Transfer(IoRequest* request);
  void CompareAndWrite(IoRequest* request);
  void WriteZeroes(uint64_t offset, uint64_t length);
  void Unmap(uint64_t offset, uint64_t length);
  void ZeroUnlessZero(uint64_t offset, uint64_t length);
  void Discard(uint64_t offset, uint64_t length);
  uint64_t GranuleRoundUp(uint64_t offset) const {
    return (offset + granule_ - 1) / granule_ * granule_;
  }

  BackendInfo info_;
  const uint64_t granule_;  // A page: what can be given back.
  const bool huge_pages_;
  // The mapping, and the medium in it, which begins where a huge page could.
  void* reserved_ = nullptr;
  uint64_t reserved_bytes_ = 0;
  uint64_t mapped_bytes_ = 0;
  uint8_t* memory_ = nullptr;
  ProvisioningMap map_;
};

class RamChannel : public BackendChannel {
 public:
  explicit RamChannel(RamBackend* backend) : backend_(backend) {}
  bool Submit(IoRequest* request) override {
    backend_->Execute(request);
    return true;
  }

 private:
  RamBackend* backend_;
};

RamBackend::RamBackend(const RamBackendOptions& options)
    : granule_(std::max<uint64_t>(4096, sysconf(_SC_PAGESIZE))),
      huge_pages_(options.huge_pages.value_or(options.size_bytes <=
                                              RecentUsableMemory() / 4)) {
  info_.description = absl::StrCat("memory, ", options.size_bytes, " bytes",
                                   huge_pages_ ? ", huge pages" : "");
  // What was in memory is lost with it: another one is another disk.
  info_.identity = MakeMediumIdentity();
  info_.size_bytes = options.size_bytes;
  info_.block_size = options.block_size;
  info_.physical_block_size = 4096;
  info_.read_only = options.read_only;
  info_.thin = options.thin;
  info_.unmap_granularity_bytes = static_cast<uint32_t>(granule_);
}

absl::Status RamBackend::Init() {
  mapped_bytes_ = GranuleRoundUp(info_.size_bytes);
  reserved_bytes_ = mapped_bytes_ + kHugePage;
  void* memory = mmap(nullptr, reserved_bytes_, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "cannot map ", mapped_bytes_,
        " bytes for a medium in memory: ", std::strerror(errno),
        ". Choose a smaller size, raise the limit on the address space "
        "(ulimit -v, RLIMIT_AS), or allow overcommitment "
        "(vm.overcommit_memory other than 2)."));
  }
  reserved_ = memory;
  const auto start = reinterpret_cast<uintptr_t>(memory);
  const uintptr_t aligned = (start + kHugePage - 1) / kHugePage * kHugePage;
  memory_ = static_cast<uint8_t*>(memory) + (aligned - start);
  // Advice only: a core dump of a sparse terabyte helps nobody.
  madvise(memory_, mapped_bytes_, MADV_DONTDUMP);
  madvise(memory_, mapped_bytes_,
          huge_pages_ ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  return map_.Init(mapped_bytes_ / granule_);
}

absl::StatusOr<std::unique_ptr<BackendChannel>> RamBackend::OpenChannel(
    transport::Reactor* /*reactor*/) {
  return std::make_unique<RamChannel>(this);
}

void RamBackend::NoteWritten(uint64_t offset, uint64_t length) {
  if (length == 0) return;
  const uint64_t first = offset / granule_;
  map_.Set(first, (offset + length - 1) / granule_ - first + 1);
}

ProvisioningExtent RamBackend::ProvisioningAt(uint64_t offset) {
  if (offset >= info_.size_bytes) return {0, false};
  const uint64_t rest = info_.size_bytes - offset;
  if (!info_.thin) return {rest, true};
  const uint64_t granule = offset / granule_;
  const bool mapped = map_.IsSet(granule);
  const uint64_t end = (granule + map_.RunLength(granule, kMaxRun)) * granule_;
  return {std::min(rest, end - offset), mapped};
}

void RamBackend::Execute(IoRequest* request) {
  using Op = IoRequest::Op;
  request->status = IoStatus::kOk;
  request->error_offset = request->offset;
  const bool writes = request->op != Op::kRead && request->op != Op::kFlush;
  if (!InBounds(*request)) {
    request->status = writes ? IoStatus::kWriteError : IoStatus::kReadError;
    return;
  }
  if (writes && info_.read_only) {
    request->status = IoStatus::kNotSupported;
    return;
  }
  switch (request->op) {
    case Op::kRead:
    case Op::kWrite:
      return Transfer(request);
    case Op::kFlush:
      return;  // There is no cache in front of the memory.
    case Op::kUnmap:
      return Unmap(request->offset, request->length);
    case Op::kWriteZeroes:
      return request->may_unmap ? Unmap(request->offset, request->length)
                                : WriteZeroes(request->offset, request->length);
    case Op::kCompareAndWrite:
      return CompareAndWrite(request);
  }
}

void RamBackend::Transfer(IoRequest* request) {
  IovecCursor iov(request->iov, request->iov_count);
  uint8_t* at = memory_ + request->offset;
  const bool write = request->op == IoRequest::Op::kWrite;
  if (write) NoteWritten(request->offset, request->length);
  const uint64_t done = write ? iov.CopyTo(at, request->length)
                              : iov.CopyFrom(at, request->length);
  if (done == request->length) return;
  // The caller's buffer is too short.
  request->status = write ? IoStatus::kWriteError : IoStatus::kReadError;
  request->error_offset = request->offset + done;
}

void RamBackend::CompareAndWrite(IoRequest* request) {
  IovecCursor iov(request->iov, request->iov_count);
  uint8_t* at = memory_ + request->offset;
  const uint64_t equal = iov.Match(at, request->length);
  if (equal < request->length) {
    request->status = IoStatus::kMiscompare;
    request->error_offset = request->offset + equal;
    return;
  }
  NoteWritten(request->offset, request->length);
  const uint64_t done = iov.CopyTo(at, request->length);
  if (done == request->length) return;
  request->status = IoStatus::kWriteError;
  request->error_offset = request->offset + done;
}

void RamBackend::WriteZeroes(uint64_t offset, uint64_t length) {
  NoteWritten(offset, length);
  if (info_.thin && length >= kMinDiscard) return Discard(offset, length);
  std::memset(memory_ + offset, 0, length);
}

void RamBackend::Unmap(uint64_t offset, uint64_t length) {
  if (!info_.thin) return ZeroUnlessZero(offset, length);
  const uint64_t first = GranuleRoundUp(offset);
  // The last granule of the medium may be partial: reaching its end covers it.
  const uint64_t end = offset + length == info_.size_bytes
                           ? mapped_bytes_
                           : (offset + length) / granule_ * granule_;
  if (first < end) map_.Clear(first / granule_, (end - first) / granule_);
  Discard(offset, length);
}

// Reads first, so that untouched pages stay absent. Does not rely on the map,
// which a write that overlaps an unmap may leave either way.
void RamBackend::ZeroUnlessZero(uint64_t offset, uint64_t length) {
  while (length > 0) {
    const uint64_t step = std::min(length, granule_ - offset % granule_);
    uint8_t* at = memory_ + offset;
    if (!IsZero(at, step)) std::memset(at, 0, step);
    offset += step;
    length -= step;
  }
}

// Makes a range read as zeroes; whole pages go back to the system.
void RamBackend::Discard(uint64_t offset, uint64_t length) {
  const uint64_t range_end = offset + length;
  const uint64_t first = GranuleRoundUp(offset);
  const uint64_t end = range_end == info_.size_bytes
                           ? mapped_bytes_
                           : range_end / granule_ * granule_;
  // The kernel refuses for locked memory (mlockall).
  if (first >= end ||
      madvise(memory_ + first, end - first, MADV_DONTNEED) != 0) {
    return ZeroUnlessZero(offset, length);
  }
  ZeroUnlessZero(offset, first - offset);
  if (end < range_end) ZeroUnlessZero(end, range_end - end);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> MakeRamBackend(
    const RamBackendOptions& options) {
  if (options.block_size != 512 && options.block_size != 4096) {
    return absl::InvalidArgumentError(
        absl::StrCat("a medium in memory has blocks of 512 or 4096 bytes, not ",
                     options.block_size));
  }
  if (options.size_bytes == 0) {
    return absl::InvalidArgumentError(
        "a medium in memory needs a size: size_bytes is 0");
  }
  if (options.size_bytes % options.block_size != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the size of a medium in memory, ", options.size_bytes,
        " bytes, is not a multiple of its block size, ", options.block_size));
  }
  // Beyond this no address space goes, and rounding up could overflow.
  if (options.size_bytes > std::numeric_limits<int64_t>::max() / 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("the size of a medium in memory, ", options.size_bytes,
                     " bytes, is larger than any address space"));
  }
  auto backend = std::make_unique<RamBackend>(options);
  if (absl::Status status = backend->Init(); !status.ok()) return status;
  return backend;
}

}  // namespace skiff::scsi
