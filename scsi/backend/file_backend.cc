#include "scsi/backend/file_backend.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "scsi/backend/file_channel.h"
#include "scsi/backend/file_engine.h"
#include "scsi/backend/file_medium.h"

namespace skiff::scsi {
namespace {

constexpr uint32_t kMaxQueueDepth = 4096;

class ServedFile : public FileBackend {
 public:
  ServedFile(std::shared_ptr<FileMedium> medium, uint32_t queue_depth,
             const absl::Status& io_uring)
      : medium_(std::move(medium)),
        info_(medium_->info()),
        queue_depth_(queue_depth),
        use_io_uring_(io_uring.ok()) {
    if (!use_io_uring_) {
      absl::StrAppend(&info_.description, ", through a helper thread (",
                      io_uring.message(), ")");
    }
  }

  BackendInfo info() const override {
    BackendInfo info = info_;
    info.size_bytes = medium_->size_bytes();
    return info;
  }

  absl::Status Resize(uint64_t size_bytes) override {
    return medium_->Resize(size_bytes);
  }

  absl::StatusOr<std::unique_ptr<BackendChannel>> OpenChannel(
      transport::Reactor* reactor) override {
    const absl::StatusOr<int> fd = medium_->OpenAgain();
    if (!fd.ok()) return fd.status();
    auto channel = std::make_unique<FileChannel>(medium_, queue_depth_, *fd);
    absl::StatusOr<std::unique_ptr<FileEngine>> engine =
        use_io_uring_
            ? MakeUringEngine(reactor, *fd, queue_depth_, channel.get())
            : MakeThreadEngine(reactor, *fd, channel.get());
    if (!engine.ok()) {
      return absl::Status(
          engine.status().code(),
          absl::StrCat(info_.description, ": ", engine.status().message()));
    }
    channel->SetEngine(*std::move(engine));
    return channel;
  }

  ProvisioningExtent ProvisioningAt(uint64_t offset) override {
    return medium_->ProvisioningAt(offset);
  }

 private:
  std::shared_ptr<FileMedium> medium_;
  BackendInfo info_;  // But for its size.
  const uint32_t queue_depth_;
  const bool use_io_uring_;
};

absl::Status CheckOptions(const FileBackendOptions& options) {
  if (options.path.empty()) {
    return absl::InvalidArgumentError("a medium in a file needs a path");
  }
  if (options.block_size != 512 && options.block_size != 4096) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.path, ": block_size must be 512 or 4096, not ",
                     options.block_size));
  }
  if (options.queue_depth == 0 || options.queue_depth > kMaxQueueDepth) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.path, ": queue_depth must be 1 to ",
                     kMaxQueueDepth, ", not ", options.queue_depth));
  }
  if (options.size_bytes % options.block_size != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        options.path, ": the size ", options.size_bytes,
        " is not a multiple of the block size ", options.block_size));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<FileBackend>> MakeFileBackend(
    const FileBackendOptions& options) {
  if (auto status = CheckOptions(options); !status.ok()) return status;
  absl::Status io_uring = options.io == FileIo::kHelperThread
                              ? absl::CancelledError("as configured")
                              : CheckIoUring();
  if (options.io == FileIo::kIoUring && !io_uring.ok()) {
    return absl::Status(io_uring.code(),
                        absl::StrCat(options.path, ": ", io_uring.message()));
  }
  absl::StatusOr<std::shared_ptr<FileMedium>> medium =
      FileMedium::Open(options);
  if (!medium.ok()) return medium.status();
  return std::make_unique<ServedFile>(*std::move(medium), options.queue_depth,
                                      io_uring);
}

}  // namespace skiff::scsi
