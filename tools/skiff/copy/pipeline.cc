#include "tools/skiff/copy/pipeline.h"

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "protocol/codec/digest.h"
#include "tools/skiff/base/exit_code.h"

namespace skiff::tools {
namespace {

constexpr size_t kAlignment = 4096;
constexpr int kStale = 0xa5;  // Rarely all that a piece holds.

uint32_t Crc(const uint8_t* data, size_t size) {
  return protocol::FinishDigest(
      protocol::ExtendDigest(protocol::kDigestInit, data, size));
}

bool AllZero(const uint8_t* data, size_t size) {
  // A zero byte, followed by bytes that each equal the one before.
  return size == 0 ||
         (data[0] == 0 && std::memcmp(data, data + 1, size - 1) == 0);
}

}  // namespace

Pipeline::Pipeline(const PipelineOptions& options)
    : options_(options), slots_(options.depth) {
  assert(options.depth > 0 && options.piece_bytes % kAlignment == 0);
  memory_.reset(static_cast<uint8_t*>(std::aligned_alloc(
                    kAlignment, size_t{options.depth} * options.piece_bytes)),
                &std::free);
  if (memory_ == nullptr) throw std::bad_alloc();
  for (uint32_t i = 0; i < options.depth; ++i) {
    slots_[i].index = i;
    slots_[i].data = memory_.get() + size_t{i} * options.piece_bytes;
    slots_[i].context = this;
  }
}

void Pipeline::Copy(CopyPeer* source, CopyPeer* destination,
                    absl::AnyInvocable<void(absl::Status)> done) {
  length_ = options_.length;
  piece_crcs_.clear();
  Start(source, destination, std::move(done));
}

void Pipeline::Verify(CopyPeer* destination,
                      absl::AnyInvocable<void(absl::Status)> done) {
  length_ = bytes_done_;
  Start(destination, nullptr, std::move(done));
}

void Pipeline::Start(CopyPeer* source, CopyPeer* destination,
                     absl::AnyInvocable<void(absl::Status)> done) {
  source_ = source;
  destination_ = destination;
  done_ = std::move(done);
  free_.clear();
  waiting_.clear();
  for (CopySlot& slot : slots_) free_.push_back(&slot);
  next_read_ = next_write_ = bytes_done_ = 0;
  reading_ended_ = length_.has_value() && *length_ == 0;
  status_ = absl::OkStatus();
  Pump();
}

void Pipeline::Fail(absl::Status status) {
  if (status_.ok()) status_ = std::move(status);
  reading_ended_ = true;
  // What these wait for will not come.
  for (const auto& [offset, slot] : waiting_) free_.push_back(slot);
  waiting_.clear();
}

// Reads as long as there are free slots. Peers that are done from inside
// Read() come back here, which `pumping_` keeps from nesting.
void Pipeline::Pump() {
  if (pumping_) return;
  pumping_ = true;
  if (stopped_) reading_ended_ = true;
  while (!free_.empty() && !reading_ended_) {
    CopySlot* slot = free_.back();
    free_.pop_back();
    slot->offset = next_read_;
    slot->size = options_.piece_bytes;
    if (length_.has_value()) {
      slot->size = static_cast<uint32_t>(
          std::min<uint64_t>(slot->size, *length_ - next_read_));
    }
    next_read_ += slot->size;
    if (length_.has_value() && next_read_ == *length_) reading_ended_ = true;
    if (stopped_) reading_ended_ = true;
    slot->end = false;
    slot->status = absl::OkStatus();
    slot->done = &Pipeline::OnRead;
    // What the buffer holds from copying may be what is expected.
    if (destination_ == nullptr) std::memset(slot->data, kStale, slot->size);
    source_->Read(slot);
  }
  pumping_ = false;
  if (reading_ended_ && free_.size() == slots_.size() && done_ != nullptr) {
    // May start the next pass.
    std::exchange(done_, nullptr)(status_);
  }
}

void Pipeline::OnRead(CopySlot* slot) {
  static_cast<Pipeline*>(slot->context)->HandleRead(slot);
}

void Pipeline::HandleRead(CopySlot* slot) {
  if (!slot->status.ok()) {
    Fail(slot->status);
  } else if (slot->end) {
    if (!stopped_ && length_.has_value()) {
      Fail(absl::OutOfRangeError(absl::StrCat(source_->name(), " ended after ",
                                              slot->offset + slot->size, " of ",
                                              *length_, " bytes")));
    } else {
      reading_ended_ = true;
    }
  }
  if (status_.ok() && slot->size > 0) {
    destination_ == nullptr ? CheckPiece(slot) : FitLastPiece(slot);
  }
  if (!status_.ok() || slot->size == 0 || destination_ == nullptr) {
    if (status_.ok()) bytes_done_ += slot->size;
    free_.push_back(slot);
    Pump();
    return;
  }
  const uint64_t piece = slot->offset / options_.piece_bytes;
  if (piece_crcs_.size() <= piece) piece_crcs_.resize(piece + 1);
  piece_crcs_[piece] = Crc(slot->data, slot->size);
  if (!destination_->ordered()) {
    WritePiece(slot);
    return;
  }
  waiting_[slot->offset] = slot;
  while (!waiting_.empty() && waiting_.begin()->first == next_write_) {
    CopySlot* next = waiting_.begin()->second;
    waiting_.erase(waiting_.begin());
    next_write_ += next->size;
    WritePiece(next);
  }
}

void Pipeline::FitLastPiece(CopySlot* slot) {
  const uint32_t excess = slot->size % destination_->granularity();
  if (excess != 0 && stopped_) {
    // Not the last of the source; all that fits counts.
    slot->size -= excess;
  } else if (excess != 0 && options_.pad) {
    const uint32_t missing = destination_->granularity() - excess;
    std::memset(slot->data + slot->size, 0, missing);
    slot->size += missing;
  } else if (excess != 0) {
    Fail(UsageError(absl::StrCat(
        source_->name(), " has ", slot->offset + slot->size,
        " bytes, no multiple of the block size, ", destination_->granularity(),
        ": --pad fills the last block with zeroes. The ", slot->offset,
        " bytes before were written")));
    return;
  }
  const std::optional<uint64_t> room = destination_->size();
  if (room.has_value() && slot->offset + slot->size > *room) {
    Fail(absl::OutOfRangeError(
        absl::StrCat(source_->name(), " is longer than the ", *room,
                     " bytes of ", destination_->name(), ". The ", slot->offset,
                     " bytes before were written")));
  }
}

void Pipeline::CheckPiece(CopySlot* slot) {
  const uint32_t crc = piece_crcs_[slot->offset / options_.piece_bytes];
  if (crc == Crc(slot->data, slot->size)) return;
  Fail(WithExitCode(
      absl::DataLossError(absl::StrCat(
          "verification failed: ", source_->name(),
          " differs from the source "
          "between bytes ",
          slot->offset, " and ", slot->offset + slot->size, " of the copy")),
      ExitCode::kVerifyFailed));
}

void Pipeline::WritePiece(CopySlot* slot) {
  slot->done = &Pipeline::OnWritten;
  if (options_.sparse && AllZero(slot->data, slot->size) &&
      destination_->WriteZeroes(slot)) {
    return;
  }
  destination_->Write(slot);
}

void Pipeline::OnWritten(CopySlot* slot) {
  static_cast<Pipeline*>(slot->context)->HandleWritten(slot);
}

void Pipeline::HandleWritten(CopySlot* slot) {
  if (slot->status.ok()) {
    bytes_done_ += slot->size;
  } else {
    Fail(slot->status);
  }
  free_.push_back(slot);
  Pump();
}

}  // namespace skiff::tools
