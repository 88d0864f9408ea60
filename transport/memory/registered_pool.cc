#include "transport/memory/registered_pool.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"

namespace skiff::transport {
namespace {

// Keeps sums and products of sizes far from overflow.
constexpr size_t kMaxBytes = size_t{1} << 40;

size_t RoundUp(size_t value, size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

size_t PageBytes() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

absl::Status Check(const RegisteredPoolOptions& options) {
  if (options.buffer_bytes == 0 || options.buffer_bytes > kMaxBytes ||
      options.slab_bytes > kMaxBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "buffer pool: buffers of ", options.buffer_bytes, " bytes in slabs of ",
        options.slab_bytes, " make no sense"));
  }
  if (options.max_buffers == 0 ||
      options.max_buffers > std::numeric_limits<uint32_t>::max() ||
      options.initial_buffers > options.max_buffers) {
    return absl::InvalidArgumentError(absl::StrCat(
        "buffer pool: ", options.initial_buffers, " buffers at first and ",
        options.max_buffers, " at most make no sense"));
  }
  const size_t alignment = options.alignment;
  if (alignment == 0 || (alignment & (alignment - 1)) != 0 ||
      alignment > PageBytes()) {
    return absl::InvalidArgumentError(
        absl::StrCat("buffer pool: alignment ", alignment,
                     " is no power of two of at most ", PageBytes()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<RegisteredPool>> RegisteredPool::Create(
    MemoryDomain* domain, const RegisteredPoolOptions& options) {
  absl::Status status = Check(options);
  if (!status.ok()) return status;
  std::unique_ptr<RegisteredPool> pool(new RegisteredPool(domain, options));
  status = pool->Reserve(options.initial_buffers);
  if (!status.ok()) return status;
  return pool;
}

RegisteredPool::RegisteredPool(MemoryDomain* domain,
                               const RegisteredPoolOptions& options)
    : domain_(domain),
      options_(options),
      stride_(RoundUp(options.buffer_bytes, options.alignment)),
      buffers_per_slab_(std::clamp<size_t>(options.slab_bytes / stride_, 1,
                                           options.max_buffers)),
      slab_bytes_(RoundUp(buffers_per_slab_ * stride_, PageBytes())) {}

RegisteredPool::~RegisteredPool() {
  assert(in_use() == 0 && "a buffer outlives its pool");
  for (Slab& slab : slabs_) {
    // In a child the device would take it from the parent.
    if (fork_detector_.forked()) static_cast<void>(slab.region.release());
    slab.region.reset();
    munmap(slab.memory, slab_bytes_);
  }
}

RegisteredPool::Buffer RegisteredPool::GetNew() {
  if (fork_detector_.forked()) return {};
  if (made_ == options_.max_buffers || !growth_error_.ok()) return {};
  growth_error_ = AddSlab();
  return growth_error_.ok() ? Get() : Buffer();
}

absl::Status RegisteredPool::Reserve(size_t buffers) {
  if (buffers > options_.max_buffers) {
    return absl::InvalidArgumentError(
        absl::StrCat("buffer pool: cannot reserve ", buffers,
                     " buffers, since there are at most ", options_.max_buffers,
                     " (max_buffers)"));
  }
  if (fork_detector_.forked()) {
    return absl::FailedPreconditionError(
        "buffer pool: this process was forked, and registered memory stays "
        "with the parent; make a new pool in the child");
  }
  growth_error_ = absl::OkStatus();
  while (made_ < buffers && growth_error_.ok()) growth_error_ = AddSlab();
  return growth_error_;
}

absl::Status RegisteredPool::AddSlab() {
  void* const memory = mmap(nullptr, slab_bytes_, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("buffer pool: cannot map ", slab_bytes_, " bytes (",
                     std::strerror(errno), ")"));
  }
  auto region = domain_->Register(memory, slab_bytes_, options_.access);
  if (!region.ok()) {
    munmap(memory, slab_bytes_);
    return absl::Status(region.status().code(),
                        absl::StrCat("buffer pool: cannot grow beyond ", made_,
                                     " buffers: ", region.status().message()));
  }
  const size_t count =
      std::min(buffers_per_slab_, options_.max_buffers - made_);
  made_ += count;
  free_.resize(made_);
  for (size_t i = count; i > 0; --i) {
    Put({static_cast<char*>(memory) + (i - 1) * stride_, region->get()});
  }
  slabs_.push_back({memory, *std::move(region)});
  return absl::OkStatus();
}

}  // namespace skiff::transport
