#ifndef SKIFF_TRANSPORT_LIBFABRIC_FABRIC_HELD_WORK_H_
#define SKIFF_TRANSPORT_LIBFABRIC_FABRIC_HELD_WORK_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "transport/libfabric/fabric/fabric_work.h"

namespace skiff::transport {

// Requests that were accepted, and that the provider is handed later: those
// that are held, and READs that are due. By the index of their slots. There is
// room for all of them from the first on, and none before.
class HeldWork {
 public:
  // `inline_bytes`: the most of a request whose memory is its user's again
  // already.
  HeldWork(uint32_t indices, size_t inline_bytes)
      : indices_(indices), inline_bytes_(inline_bytes) {}

  // Needs one of the two below before.
  const FabricWork& Of(uint32_t index) const { return work_[index]; }
  // With a copy of what is inline.
  void Keep(uint32_t index, const FabricWork& work) {
    MakeRoom();
    FabricWork& kept = work_[index];
    kept = work;
    if (!work.is_inline) return;
    inline_.resize(indices_ * inline_bytes_);
    uint8_t* const copy = inline_.data() + index * inline_bytes_;
    size_t offset = 0;
    for (size_t i = 0; i < work.count; ++i) {
      std::copy_n(static_cast<const uint8_t*>(work.pieces[i].iov_base),
                  work.pieces[i].iov_len, copy + offset);
      offset += work.pieces[i].iov_len;
    }
    kept.pieces[0] = {copy, work.length};
    kept.undescribed = true;
    kept.count = 1;
  }
  // Of a READ, which has nothing inline. It may be here already.
  void KeepRead(uint32_t index, const FabricPieces& pieces,
                const RemoteBuffer& from) {
    MakeRoom();
    FabricWork& kept = work_[index];
    if (pieces.iovecs == kept.pieces) return;
    std::copy_n(pieces.iovecs, pieces.count, kept.pieces);
    kept.undescribed = pieces.descriptors == nullptr;
    if (!kept.undescribed) {
      std::copy_n(pieces.descriptors, pieces.count, kept.descriptors);
    }
    kept.count = pieces.count;
    kept.length = pieces.length;
    kept.remote = from;
    kept.is_inline = false;
  }

 private:
  void MakeRoom() { work_.resize(indices_); }

  const uint32_t indices_;
  const size_t inline_bytes_;
  std::vector<FabricWork> work_;
  std::vector<uint8_t> inline_;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_FABRIC_HELD_WORK_H_
