#include "protocol/datamover/stream/send_queue.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "protocol/codec/digest.h"

namespace skiff::protocol {
namespace {

// Copies `length` bytes from `offset` of an iovec list.
void Gather(const iovec* iov, int iov_count, size_t offset, size_t length,
            uint8_t* to) {
  for (int i = 0; i < iov_count && length > 0; ++i) {
    if (offset >= iov[i].iov_len) {
      offset -= iov[i].iov_len;
      continue;
    }
    const size_t n = std::min(length, iov[i].iov_len - offset);
    std::memcpy(to, static_cast<const uint8_t*>(iov[i].iov_base) + offset, n);
    to += n;
    length -= n;
    offset = 0;
  }
  assert(length == 0);
}

}  // namespace

bool SendQueue::Grow() {
  const size_t capacity = capacity_ * 2;
  BlockPool::Block block;
  if (!out_of_memory_ && capacity * sizeof(Item) <= BlockPool::kMaxBytes) {
    block = blocks_->Take(capacity * sizeof(Item));
  }
  if (block == nullptr) {
    out_of_memory_ = true;
    return false;
  }
  auto* const items = reinterpret_cast<Item*>(block.get());
  for (size_t i = 0; i < capacity; ++i) {
    Item* const item = new (items + i) Item;
    if (i < count_) *item = std::move(At(i));
  }
  const size_t count = count_;
  GiveRingBack();
  block_ = std::move(block);
  items_ = items;
  capacity_ = capacity;
  count_ = count;
  return true;
}

// What is in the ring is forgotten.
void SendQueue::GiveRingBack() {
  if (block_ != nullptr) std::destroy_n(items_, capacity_);
  block_.reset();
  items_ = first_.data();
  capacity_ = kFirstItems;
  head_ = count_ = 0;
}

// Null: there is no memory.
SendQueue::Item* SendQueue::Push() {
  if (count_ == capacity_ && !Grow()) return nullptr;
  Item& item = At(count_++);
  item.header_size = 0;
  item.tail_size = 0;
  item.notice = Notice::kNone;
  item.continuation = false;
  item.task = kNoTask;
  item.data_size = 0;
  item.pdu_data_size = 0;
  item.data = nullptr;
  return &item;
}

void SendQueue::FillHeaderDigest(Item* item) {
  item->header_size = kBhsSize;
  if (!header_digest_) return;
  StoreDigest(FinishDigest(ExtendDigest(kDigestInit, item->header, kBhsSize)),
              item->header + kBhsSize);
  item->header_size += kDigestSize;
}

void SendQueue::FillTail(Item* item, uint32_t data_size, uint32_t digest) {
  const uint32_t padding = PaddingFor(data_size);
  std::memset(item->tail, 0, sizeof(item->tail));
  item->tail_size = static_cast<uint8_t>(padding);
  if (data_digest_ && data_size > 0) {
    // The padding is covered by the digest (RFC 7143 section 11.2.4).
    digest = ExtendDigest(digest, item->tail, padding);
    StoreDigest(FinishDigest(digest), item->tail + padding);
    item->tail_size += kDigestSize;
  }
}

uint8_t* SendQueue::Begin() {
  Item* const item = Push();
  begun_ = item != nullptr;
  return begun_ ? item->header : lost_header_.data();
}

bool SendQueue::Commit(absl::Span<const uint8_t> data, TaskSlot task,
                       Notice notice) {
  if (!begun_) [[unlikely]] {
    return false;
  }
  Item& item = At(count_ - 1);
  EncodeLengths(item.header, 0, static_cast<uint32_t>(data.size()));
  FillHeaderDigest(&item);
  item.task = task;
  item.notice = notice;
  item.data = data.data();
  item.data_size = item.pdu_data_size = static_cast<uint32_t>(data.size());
  if (data_digest_ && !data.empty()) {
    item.owned = blocks_->Take(data.size());
    if (item.owned == nullptr) return GiveUp(&item);
    std::memcpy(item.owned.get(), data.data(), data.size());
    copied_bytes_ += data.size();
    item.data = item.owned.get();
    FillTail(&item, item.data_size,
             ExtendDigest(kDigestInit, item.data, item.data_size));
  } else if (PaddingFor(item.data_size) != 0) {
    FillTail(&item, item.data_size, 0);
  }
  bytes_ += item.size();
  return true;
}

// Nothing is sent any more: this PDU is missing. Its notice will come.
bool SendQueue::GiveUp(Item* item) {
  out_of_memory_ = true;
  item->header_size = item->tail_size = 0;
  item->data_size = 0;
  item->data = nullptr;
  return true;
}

bool SendQueue::AppendCopy(const uint8_t* bhs, absl::Span<const uint8_t> ahs,
                           absl::Span<const uint8_t> data, TaskSlot task,
                           Notice notice) {
  const iovec piece = {const_cast<uint8_t*>(data.data()), data.size()};
  std::memcpy(Begin(), bhs, kBhsSize);
  if (!begun_ || (ahs.empty() && data.empty())) {
    return Commit({}, task, notice);
  }
  // One block of our own holds AHS, header digest and data, in wire order.
  Item& item = At(count_ - 1);
  const auto data_size = static_cast<uint32_t>(data.size());
  EncodeLengths(item.header, ahs.size(), data_size);
  const size_t digest_size = header_digest_ ? kDigestSize : 0;
  const size_t prefix = ahs.empty() ? 0 : ahs.size() + digest_size;
  item.task = task;
  item.notice = notice;
  item.owned = blocks_->Take(prefix + data_size);
  if (item.owned == nullptr) return GiveUp(&item);
  if (ahs.empty()) {
    FillHeaderDigest(&item);
  } else {
    item.header_size = kBhsSize;
    std::memcpy(item.owned.get(), ahs.data(), ahs.size());
    if (header_digest_) {
      uint32_t digest = ExtendDigest(kDigestInit, item.header, kBhsSize);
      digest = ExtendDigest(digest, ahs.data(), ahs.size());
      StoreDigest(FinishDigest(digest), item.owned.get() + ahs.size());
    }
  }
  Gather(&piece, 1, 0, data_size, item.owned.get() + prefix);
  item.data = item.owned.get();
  item.data_size = static_cast<uint32_t>(prefix) + data_size;
  item.pdu_data_size = data_size;
  uint32_t digest = 0;
  if (data_digest_)
    digest = ExtendDigest(kDigestInit, item.data + prefix, data_size);
  FillTail(&item, data_size, digest);
  bytes_ += item.size();
  return true;
}

bool SendQueue::CommitPieces(absl::Span<const uint8_t> ahs, const iovec* iov,
                             int iov_count, size_t offset, uint32_t length,
                             TaskSlot task, Notice notice) {
  if (!begun_) [[unlikely]] {
    return false;
  }
  while (iov_count > 0 && offset >= iov->iov_len) {
    offset -= iov->iov_len;
    ++iov;
    --iov_count;
  }
  const bool contiguous =
      length == 0 || (iov_count > 0 && iov->iov_len - offset >= length);
  if (ahs.empty() && contiguous) {
    const auto* data =
        length == 0 ? nullptr
                    : static_cast<const uint8_t*>(iov->iov_base) + offset;
    return Commit({data, length}, task, notice);
  }
  // Rare or copied anyway: assemble, then append as one block.
  if (!ahs.empty() || data_digest_) {
    return CommitAssembled(ahs, iov, iov_count, offset, length, task, notice);
  }
  return CommitScattered(iov, offset, length, task, notice);
}

bool SendQueue::CommitAssembled(absl::Span<const uint8_t> ahs, const iovec* iov,
                                int iov_count, size_t offset, uint32_t length,
                                TaskSlot task, Notice notice) {
  uint8_t bhs[kBhsSize];
  std::memcpy(bhs, At(count_ - 1).header, kBhsSize);
  const BlockPool::Block block = blocks_->Take(length);
  if (block == nullptr) {
    Item& item = At(count_ - 1);
    item.task = task;
    item.notice = notice;
    return GiveUp(&item);
  }
  --count_;
  Gather(iov, iov_count, offset, length, block.get());
  copied_bytes_ += 2 * uint64_t{length};
  return AppendCopy(bhs, ahs, {block.get(), length}, task, notice);
}

// An item for each piece; the last one has the notice.
bool SendQueue::CommitScattered(const iovec* iov, size_t offset,
                                uint32_t length, TaskSlot task, Notice notice) {
  Item* item = &At(count_ - 1);
  EncodeLengths(item->header, 0, length);
  FillHeaderDigest(item);
  uint32_t left = length;
  for (;;) {
    const auto n =
        static_cast<uint32_t>(std::min<size_t>(left, iov->iov_len - offset));
    item->data = static_cast<const uint8_t*>(iov->iov_base) + offset;
    item->data_size = n;
    item->task = task;
    left -= n;
    if (left == 0) break;
    bytes_ += item->size();
    ++iov;
    offset = 0;
    Item* const next = Push();
    if (next == nullptr) {
      At(count_ - 1).notice = notice;
      At(count_ - 1).pdu_data_size = length;
      return true;
    }
    item = next;
    item->continuation = true;
  }
  item->notice = notice;
  item->pdu_data_size = length;
  FillTail(item, length, 0);
  bytes_ += item->size();
  return true;
}

absl::Span<const iovec> SendQueue::Spans() {
  if (out_of_memory_) return {};
  size_t n = 0;
  size_t skip = head_sent_;
  const auto add = [&](const uint8_t* data, size_t size) {
    if (skip >= size) {
      skip -= size;
      return;
    }
    spans_[n++] = {const_cast<uint8_t*>(data) + skip, size - skip};
    skip = 0;
  };
  for (size_t i = 0; i < count_ && n + 3 <= kMaxSpans; ++i) {
    const Item& item = At(i);
    if (item.header_size > 0) add(item.header, item.header_size);
    if (item.data_size > 0) add(item.data, item.data_size);
    if (item.tail_size > 0) add(item.tail, item.tail_size);
  }
  return {spans_.data(), n};
}

SendQueue::Due SendQueue::PopFront() {
  Item& item = At(0);
  bytes_ -= item.size();
  item.owned.reset();
  const Due due = {item.task, item.notice, item.pdu_data_size};
  head_ = (head_ + 1) & (capacity_ - 1);
  --count_;
  head_sent_ = 0;
  return due;
}

void SendQueue::BytesSent(size_t n) {
  // Notices wait until the queue agrees with the stream again: a listener may
  // cancel what these very bytes were part of. An item that was cancelled has
  // size zero and goes with the one before it.
  bytes_sent_ += n;
  while (count_ > 0) {
    const size_t left = At(0).size() - head_sent_;
    if (n < left) break;
    n -= left;
    if (!At(0).continuation && left > 0) ++pdus_sent_;
    const Due due = PopFront();
    if (due.notice != Notice::kNone) due_.push_back(due);
  }
  assert(count_ > 0 || n == 0);
  head_sent_ += n;
  for (size_t i = 0; i < due_.size(); ++i) {
    const Due due = due_[i];
    listener_->OnSent(due.task, due.notice, due.bytes, /*sent=*/true);
  }
  due_.clear();
  ShrinkIfEmpty();
}

bool SendQueue::HeaderSent(TaskSlot task) const {
  for (size_t i = 0; i < count_; ++i) {
    const Item& item = At(i);
    if (item.task != task) continue;
    return item.continuation || (i == 0 && head_sent_ >= item.header_size);
  }
  return true;
}

void SendQueue::TakeOver(Item* item) {
  if (item->owned != nullptr || item->data_size == 0) return;
  item->owned = blocks_->Take(item->data_size);
  if (item->owned == nullptr) {
    out_of_memory_ = true;
    item->data = nullptr;  // Counted in `bytes_`, and never looked at.
    return;
  }
  std::memcpy(item->owned.get(), item->data, item->data_size);
  copied_bytes_ += item->data_size;
  item->data = item->owned.get();
}

void SendQueue::Cancel(TaskSlot task) {
  std::vector<Due> notices;
  bool started = false;
  for (size_t i = 0; i < count_; ++i) {
    Item& item = At(i);
    if (!item.continuation) started = i == 0 && head_sent_ > 0;
    if (item.task != task) continue;
    if (item.notice != Notice::kNone) {
      notices.push_back({task, item.notice, item.pdu_data_size});
      item.notice = Notice::kNone;
    }
    item.task = kNoTask;
    if (started || (i == 0 && item.continuation)) {
      // The peer has part of this PDU: the rest must follow, from a copy.
      started = true;
      TakeOver(&item);
      continue;
    }
    bytes_ -= item.size();
    item.owned.reset();
    item.header_size = item.tail_size = 0;
    item.data_size = 0;
  }
  // Those without memory for their data have no size either, but a notice.
  while (count_ > 0 && At(0).size() == 0 && At(0).notice == Notice::kNone) {
    PopFront();
  }
  for (const Due& due : notices) {
    listener_->OnSent(due.task, due.notice, due.bytes, /*sent=*/false);
  }
}

void SendQueue::Clear() {
  while (count_ > 0) {
    const Due due = PopFront();
    if (due.notice == Notice::kNone) continue;
    listener_->OnSent(due.task, due.notice, due.bytes, /*sent=*/false);
  }
  ShrinkIfEmpty();
}

}  // namespace skiff::protocol
