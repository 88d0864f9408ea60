#include "transport/libfabric/fabric/receive_sinks.h"

#include <algorithm>
#include <cstring>

namespace skiff::transport {

uint32_t ReceiveSinks::Add(uint32_t index, FabricWork* work) {
  const auto room = static_cast<uint32_t>(std::min(work->length, longest_));
  if (!last_pieces_.empty() && last_pieces_[index] != nullptr) {
    last_pieces_[index]->real = {};
  }
  if (work->count < domain_.max_iovecs()) {
    work->pieces[work->count] = {domain_.sink(), longest_};
    work->descriptors[work->count++] = nullptr;
    return room;
  }
  if (last_pieces_.empty()) last_pieces_.resize(indices_);
  auto& last = last_pieces_[index];
  if (last == nullptr) last = std::make_unique<LastPiece>();
  iovec& piece = work->pieces[work->count - 1];
  last->memory.resize(longest_);
  last->real = piece;
  last->before = work->length - piece.iov_len;
  piece = {last->memory.data(), longest_};
  return room;
}

void ReceiveSinks::TakeFromLastPiece(uint32_t index, size_t bytes) {
  if (last_pieces_[index] == nullptr) return;
  LastPiece& last = *last_pieces_[index];
  if (last.real.iov_base != nullptr && bytes > last.before) {
    std::memcpy(last.real.iov_base, last.memory.data(),
                std::min(bytes - last.before, last.real.iov_len));
  }
  last.real = {};
}

}  // namespace skiff::transport
