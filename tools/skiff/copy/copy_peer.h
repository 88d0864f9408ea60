#ifndef SKIFF_TOOLS_SKIFF_COPY_COPY_PEER_H_
#define SKIFF_TOOLS_SKIFF_COPY_COPY_PEER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace skiff::tools {

// A piece of a copy on its way. Owned by the pipeline; a peer fills or empties
// it.
struct CopySlot {
  uint32_t index = 0;  // Which of the pipeline's slots; constant.
  uint8_t* data = nullptr;
  uint64_t offset = 0;  // Of the piece, from the start of the copy.
  uint32_t size = 0;    // To read, then what was read, and to write.
  bool end = false;     // Read: nothing follows.
  absl::Status status;
  // The pipeline's; runs on its thread, perhaps from inside Read() or Write().
  void (*done)(CopySlot* slot) = nullptr;
  void* context = nullptr;
};

// One end of a copy: a logical unit, a file, or a pipe. Offsets count from
// where the copy starts in it. Used from the pipeline's thread.
class CopyPeer {
 public:
  virtual ~CopyPeer() = default;

  // For messages: "iscsi://..." or "disk.img".
  virtual std::string name() const = 0;
  // What there is to read, or room to write; nothing when unknown (a pipe) or
  // unlimited (a new file).
  virtual std::optional<uint64_t> size() const = 0;
  // Pieces must be multiples of this, all but the last of a file.
  virtual uint32_t granularity() const = 0;
  // True when pieces must be read (or written) in order.
  virtual bool ordered() const = 0;

  virtual void Read(CopySlot* slot) = 0;
  virtual void Write(CopySlot* slot) = 0;
  // Makes a range read as zeroes without sending them; false when it cannot.
  // Then done as after Write().
  virtual bool WriteZeroes(CopySlot* slot) = 0;
  // After the last Write(): makes everything stable. `total` is the copy's
  // length. Blocks.
  virtual absl::Status Finish(uint64_t total) = 0;
};

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_SKIFF_COPY_COPY_PEER_H_
