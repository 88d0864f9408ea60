#include "scsi/backend/file_probe.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "scsi/backend/direct_io_alignment.h"

namespace skiff::scsi {
namespace {

constexpr uint32_t kMaxPhysicalBlock = 64u << 10;
constexpr uint32_t kPage = 4096;

// A number from the sysfs directory of a block device's queue; a partition's
// is that of its disk.
absl::optional<uint64_t> QueueFact(dev_t device, const char* name) {
  for (const char* up : {"", "../"}) {
    const std::string path =
        absl::StrCat("/sys/dev/block/", major(device), ":", minor(device), "/",
                     up, "queue/", name);
    FILE* file = std::fopen(path.c_str(), "re");
    if (file == nullptr) continue;
    unsigned long long value = 0;
    const bool read = std::fscanf(file, "%llu", &value) == 1;
    std::fclose(file);
    if (read) return value;
  }
  return absl::nullopt;
}

absl::Status CheckSize(const FileBackendOptions& options, uint64_t size) {
  if (options.size_bytes != 0 && options.size_bytes != size) {
    return absl::FailedPreconditionError(absl::StrCat(
        options.path, " has ", size, " bytes, but the configuration says ",
        options.size_bytes,
        ". Correct the configuration, or resize the file by hand: it is never "
        "resized here."));
  }
  if (size == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(options.path, " is empty: a medium needs a size"));
  }
  if (size % options.block_size != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        options.path, " has ", size,
        " bytes, which is not a multiple of the block size ",
        options.block_size, ". Extend it (truncate -s), or use blocks of ",
        options.block_size == 4096 ? "512 bytes." : "another size."));
  }
  return absl::OkStatus();
}

// Punches beyond the end of the file, where there is nothing to lose.
bool CanPunchHoles(int fd, uint64_t size) {
  const auto beyond = static_cast<off_t>((size + kMaxPhysicalBlock - 1) /
                                         kMaxPhysicalBlock * kMaxPhysicalBlock);
  return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, beyond,
                   kPage) == 0;
}

void DescribeFile(int fd, const struct stat& facts, BackendInfo* info) {
  const auto preferred = static_cast<uint32_t>(facts.st_blksize);
  if (std::has_single_bit(preferred)) {
    info->physical_block_size =
        std::clamp(preferred, info->block_size, kMaxPhysicalBlock);
  }
  info->unmap_granularity_bytes = info->physical_block_size;
  info->thin = !info->read_only && CanPunchHoles(fd, info->size_bytes);
  info->rotational = QueueFact(facts.st_dev, "rotational").value_or(0) != 0;
}

absl::Status DescribeDevice(int fd, const struct stat& facts,
                            const FileBackendOptions& options,
                            BackendInfo* info) {
  int logical = 0;
  unsigned int physical = 0;
  if (ioctl(fd, BLKSSZGET, &logical) != 0 ||
      ioctl(fd, BLKPBSZGET, &physical) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot ask ", options.path,
                                                   " for its block sizes"));
  }
  if (options.block_size % static_cast<uint32_t>(logical) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(options.path, " has blocks of ", logical,
                     " bytes, so the logical unit cannot have blocks of ",
                     options.block_size, ": choose ", logical));
  }
  info->physical_block_size =
      std::clamp(physical, info->block_size, kMaxPhysicalBlock);
  const dev_t device = facts.st_rdev;
  // Punching a hole in a device asks it to write zeroes (and to unmap where it
  // can); without that offload the kernel refuses.
  info->thin = !info->read_only &&
               QueueFact(device, "write_zeroes_max_bytes").value_or(0) > 0 &&
               QueueFact(device, "discard_max_bytes").value_or(0) > 0;
  info->unmap_granularity_bytes = static_cast<uint32_t>(
      std::max<uint64_t>(QueueFact(device, "discard_granularity").value_or(0),
                         info->physical_block_size));
  info->rotational = QueueFact(device, "rotational").value_or(0) != 0;
  return absl::OkStatus();
}

// Where the kernel does not tell the alignment, one read does.
bool DirectReadWorks(int fd, const BackendInfo& info) {
  void* memory = nullptr;
  if (posix_memalign(&memory, kPage, info.block_size) != 0) return false;
  const std::unique_ptr<void, decltype(&std::free)> owner(memory, &std::free);
  // The second block where there is one: the first is aligned to anything.
  const uint64_t offset =
      info.size_bytes > info.block_size ? info.block_size : 0;
  return pread(fd, memory, info.block_size, static_cast<off_t>(offset)) >= 0 ||
         errno != EINVAL;
}

absl::Status DescribeDirectIo(int fd, const FileBackendOptions& options,
                              BackendInfo* info) {
  if (!options.direct) return absl::OkStatus();
  const auto known = QueryDirectIoAlignment(fd);
  if (known.has_value() && (known->memory == 0 || known->offset == 0)) {
    return absl::FailedPreconditionError(absl::StrCat(
        options.path, ": its file system lacks O_DIRECT: turn direct off"));
  }
  info->buffer_alignment = known.has_value() ? known->memory : kPage;
  const bool fits = known.has_value() ? options.block_size % known->offset == 0
                                      : DirectReadWorks(fd, *info);
  if (fits) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      options.path, ": O_DIRECT here needs larger blocks than ",
      options.block_size, " bytes",
      known.has_value() ? absl::StrCat(" (", known->offset, ")") : "",
      ". Use block_size 4096, or turn direct off."));
}

}  // namespace

absl::StatusOr<uint64_t> SizeOfMediumFile(int fd, const std::string& path) {
  struct stat facts = {};
  uint64_t size = 0;
  if (fstat(fd, &facts) != 0 ||
      (S_ISBLK(facts.st_mode) && ioctl(fd, BLKGETSIZE64, &size) != 0)) {
    return absl::ErrnoToStatus(
        errno, absl::StrCat("cannot ask ", path, " for its size"));
  }
  return S_ISBLK(facts.st_mode) ? size : static_cast<uint64_t>(facts.st_size);
}

absl::StatusOr<BackendInfo> ProbeMediumFile(int fd,
                                            const FileBackendOptions& options) {
  struct stat facts = {};
  if (fstat(fd, &facts) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("fstat ", options.path));
  }
  const absl::StatusOr<uint64_t> size = SizeOfMediumFile(fd, options.path);
  if (!size.ok()) return size.status();
  BackendInfo info;
  info.size_bytes = *size;
  info.block_size = options.block_size;
  info.read_only = options.read_only;
  info.volatile_write_cache = !options.read_only;
  info.description =
      absl::StrCat(S_ISBLK(facts.st_mode) ? "block device " : "file ",
                   options.path, options.direct ? ", O_DIRECT" : "");
  absl::Status status;
  if (S_ISBLK(facts.st_mode)) {
    status = DescribeDevice(fd, facts, options, &info);
  } else {
    DescribeFile(fd, facts, &info);
  }
  if (status.ok()) status = CheckSize(options, info.size_bytes);
  if (status.ok()) status = DescribeDirectIo(fd, options, &info);
  if (!status.ok()) return status;
  return info;
}

}  // namespace skiff::scsi
