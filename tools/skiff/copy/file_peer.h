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
  //
  // Whoever waits for a pipe or a terminal is woken once `stop_fd` is readable:
  // it then seems to have ended, or writing to it fails (Cancelled). -1 for
  // never.
  static absl::StatusOr<std::unique_ptr<FilePeer>> Open(const std::string& path,
                                                        Use use, uint64_t start,
                                                        int stop_fd = -1);
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
  FilePeer(std::string name, int fd, uint64_t start, int stop_fd)
      : name_(std::move(name)), fd_(fd), start_(start), stop_fd_(stop_fd) {}
  absl::Status Inspect(Use use);
  // Waits until a pipe or the like is ready for `events` (poll(2)); false where
  // it is to be left alone.
  bool Ready(int16_t events) const;

  const std::string name_;
  const int fd_;
  const uint64_t start_;
  const int stop_fd_;
  bool seekable_ = false;
  bool regular_ = false;
  std::optional<uint64_t> size_;
};

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_SKIFF_COPY_FILE_PEER_H_
