#ifndef SKIFF_TOOLS_SKIFF_COPY_PIPELINE_H_
#define SKIFF_TOOLS_SKIFF_COPY_PIPELINE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "tools/skiff/copy/copy_peer.h"

namespace skiff::tools {

struct PipelineOptions {
  // Bytes to copy; nothing: until the source ends.
  std::optional<uint64_t> length;
  uint32_t piece_bytes = 1u << 20;
  uint32_t depth = 16;  // Pieces on their way at once.
  // The last piece is filled with zeroes up to the destination's granularity;
  // otherwise a source of another length is an error.
  bool pad = false;
  bool sparse = false;  // Zeroes are not sent where the destination can do it.
};

// Moves pieces from a source to a destination, many at once, and remembers the
// CRC32C of each; a later pass over the destination can check them. On one
// thread, whose peers may do the work on others.
class Pipeline {
 public:
  explicit Pipeline(const PipelineOptions& options);
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;
  ~Pipeline() = default;  // Only when nothing runs.

  // `done` runs once, on this thread, perhaps from inside the call.
  void Copy(CopyPeer* source, CopyPeer* destination,
            absl::AnyInvocable<void(absl::Status)> done);
  // After a successful Copy(): reads the destination again and compares. The
  // error, of code kDataLoss, says where the first difference is.
  void Verify(CopyPeer* destination,
              absl::AnyInvocable<void(absl::Status)> done);

  // Thread-safe. Ends the pass early: nothing more is read, and what was read
  // is still written, so that what was copied is a whole start of the source.
  void Stop() { stopped_ = true; }

  // Of the current or last pass.
  uint64_t bytes_done() const { return bytes_done_; }
  // As far as it is known.
  std::optional<uint64_t> length() const { return length_; }
  // Where pieces are on their way, and who keeps it.
  absl::Span<uint8_t> memory() const {
    return {memory_.get(), size_t{options_.depth} * options_.piece_bytes};
  }
  std::shared_ptr<const void> memory_owner() const { return memory_; }

 private:
  static void OnRead(CopySlot* slot);
  static void OnWritten(CopySlot* slot);
  void Start(CopyPeer* source, CopyPeer* destination,
             absl::AnyInvocable<void(absl::Status)> done);
  void Pump();
  void HandleRead(CopySlot* slot);
  // Pads, or refuses, a piece that the destination cannot take as it is.
  void FitLastPiece(CopySlot* slot);
  void CheckPiece(CopySlot* slot);
  void WritePiece(CopySlot* slot);
  void HandleWritten(CopySlot* slot);
  void Fail(absl::Status status);

  const PipelineOptions options_;
  std::vector<CopySlot> slots_;
  std::shared_ptr<uint8_t> memory_;
  std::vector<uint32_t> piece_crcs_;

  CopyPeer* source_ = nullptr;
  CopyPeer* destination_ = nullptr;  // Null while verifying.
  absl::AnyInvocable<void(absl::Status)> done_;
  std::vector<CopySlot*> free_;
  // Pieces that arrived before their turn, for an ordered destination.
  std::map<uint64_t, CopySlot*> waiting_;
  std::optional<uint64_t> length_;
  uint64_t next_read_ = 0;
  uint64_t next_write_ = 0;
  uint64_t bytes_done_ = 0;
  std::atomic<bool> stopped_{false};
  bool reading_ended_ = false;
  bool pumping_ = false;
  absl::Status status_;
};

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_SKIFF_COPY_PIPELINE_H_
