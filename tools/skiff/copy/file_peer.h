#ifndef SKIFF_TOOLS_SKIFF_COPY_FILE_PEER_H_
#define SKIFF_TOOLS_SKIFF_COPY_FILE_PEER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "tools/skiff/copy/copy_peer.h"

namespace skiff::tools {

// A regular file, a block device, a pipe, or "-" for standard input and output.
// Blocks while it reads and writes.
class FilePeer final : public CopyPeer {
 public:
  enum class Use { kRead, kWrite };

  // A file to write is created when missing, and cut to the copy's length when
  // regular. It can be read back, for verification. Errors name the path.
  static absl::StatusOr<std::unique_ptr<FilePeer>> Open(const std::string& path,
                                                        Use use,
                                                        uint64_t start);
  FilePeer(const FilePeer&) = delete;
  FilePeer& operator=(const FilePeer&) = delete;
  ~FilePeer() override;

  std::string name() const override { return name_; }
  std::optional<uint64_t> size() const override { return size_; }
  uint32_t granularity() const override { return 1; }
  bool ordered() const override { return !seekable_; }

  void Read(CopySlot* slot) override;
  void Write(CopySlot* slot) override;
  bool WriteZeroes(CopySlot* slot) override;
  absl::Status Finish(uint64_t total) override;

 private:
  FilePeer(std::string name, int fd, uint64_t start)
      : name_(std::move(name)), fd_(fd), start_(start) {}
  absl::Status Inspect(Use use);

  const std::string name_;
  const int fd_;
  const uint64_t start_;
  bool seekable_ = false;
  bool regular_ = false;
  std::optional<uint64_t> size_;
};

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_SKIFF_COPY_FILE_PEER_H_
