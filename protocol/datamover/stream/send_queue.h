#ifndef SKIFF_PROTOCOL_DATAMOVER_STREAM_SEND_QUEUE_H_
#define SKIFF_PROTOCOL_DATAMOVER_STREAM_SEND_QUEUE_H_

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "protocol/codec/pdu.h"
#include "protocol/datamover/block_pool.h"
#include "protocol/datamover/datamover.h"
#include "protocol/negotiation/parameters.h"

namespace skiff::protocol {

// Encoded PDUs on their way into a byte stream: headers inside, payload by
// reference. Turns many PDUs into one list of iovecs. No allocation once it has
// grown to what the connection needs.
class SendQueue {
 public:
  // What to tell when the last byte of a PDU has left, or will never leave.
  enum class Notice : uint8_t { kNone, kPut, kTask };
  class Listener {
   public:
    virtual ~Listener() = default;
    // From inside BytesSent (sent = true), Cancel or Clear (sent = false).
    virtual void OnSent(TaskSlot task, Notice notice, uint32_t bytes,
                        bool sent) = 0;
  };

  // Blocks of `blocks` hold copies, and what the queue itself needs.
  SendQueue(Listener* listener, BlockPool* blocks)
      : listener_(listener), blocks_(blocks) {}
  ~SendQueue() { GiveRingBack(); }
  SendQueue(const SendQueue&) = delete;
  SendQueue& operator=(const SendQueue&) = delete;

  // Digests of everything appended from now on.
  void SetDigests(Digest header, Digest data) {
    header_digest_ = header == Digest::kCrc32c;
    data_digest_ = data == Digest::kCrc32c;
  }

  // Appends a PDU whose data segment is copied. `bhs` gets its lengths here.
  // False: there was no memory to remember the PDU. out_of_memory() holds, and
  // the notice will not come.
  bool AppendCopy(const uint8_t* bhs, absl::Span<const uint8_t> ahs,
                  absl::Span<const uint8_t> data, TaskSlot task, Notice notice);

  // Appends a PDU whose data segment stays where it is until the notice. With
  // data digests on it is copied nevertheless: memory that changes between
  // digest and send would make the digest wrong. Returns where the BHS is to be
  // encoded: 48 bytes, valid until the next call; finish with Commit(), whose
  // result is AppendCopy's.
  uint8_t* Begin();
  bool Commit(absl::Span<const uint8_t> data, TaskSlot task, Notice notice);
  // As Commit, for a data segment in pieces: `length` bytes from `offset` of
  // the list. `ahs` goes between header and data.
  bool CommitPieces(absl::Span<const uint8_t> ahs, const iovec* iov,
                    int iov_count, size_t offset, uint32_t length,
                    TaskSlot task, Notice notice);

  // The front of the queue as a gather list; valid until the next call of
  // anything.
  absl::Span<const iovec> Spans();
  void BytesSent(size_t n);

  // Whether the header of the task's next PDU has left; true when none waits.
  bool HeaderSent(TaskSlot task) const;

  // Forgets the task's PDUs that have not begun to leave, and takes a copy of
  // what is left of one that has: the task's memory is free on return. Notices
  // are given.
  void Cancel(TaskSlot task);
  // Forgets everything, with notices.
  void Clear();

  bool empty() const { return count_ == 0; }
  // There was no memory for a copy, or for the queue: nothing leaves any more,
  // and the connection is of no more use. What was appended still gets its
  // notices.
  bool out_of_memory() const { return out_of_memory_; }
  // PDUs and bytes that have left, and payload that was copied.
  uint64_t pdus_sent() const { return pdus_sent_; }
  uint64_t bytes_sent() const { return bytes_sent_; }
  uint64_t copied_bytes() const { return copied_bytes_; }
  size_t bytes() const { return bytes_; }
  // More waits than `limit` bytes, or takes more than that to remember: small
  // PDUs are shorter than what is kept of them.
  bool exceeds(size_t limit) const {
    return bytes_ > limit || count_ > limit / sizeof(Item);
  }
  // Of the ring, for tests.
  size_t capacity() const { return capacity_; }

 private:
  static constexpr size_t kMaxSpans = 256;
  // A PDU, or, when its data are in several pieces, one of the consecutive
  // items that make it up; the first has the header, the last the tail and the
  // notice.
  struct Item {
    uint8_t header[kBhsSize + 4];
    uint8_t tail[8];  // Padding and data digest.
    uint8_t header_size;
    uint8_t tail_size;
    Notice notice;
    bool continuation;
    TaskSlot task;
    uint32_t data_size;
    uint32_t pdu_data_size;  // Of the whole PDU, for the notice.
    const uint8_t* data;
    BlockPool::Block owned;

    size_t size() const { return size_t{header_size} + data_size + tail_size; }
  };

  // A notice that is to be given.
  struct Due {
    TaskSlot task;
    Notice notice;
    uint32_t bytes;
  };

  // An idle connection has these; a bigger ring is kept up to a size.
  static constexpr size_t kFirstItems = 16;
  static constexpr size_t kKeptItems = 128;

  Item* Push();
  bool Grow();
  void GiveRingBack();
  void ShrinkIfEmpty() {
    if (count_ == 0 && capacity_ > kKeptItems) [[unlikely]] {
      GiveRingBack();
    }
  }
  const Item& At(size_t i) const {
    return items_[(head_ + i) & (capacity_ - 1)];
  }
  Item& At(size_t i) { return items_[(head_ + i) & (capacity_ - 1)]; }
  Due PopFront();
  void FillHeaderDigest(Item* item);
  void FillTail(Item* item, uint32_t data_size, uint32_t digest);
  void TakeOver(Item* item);
  // The two ways of CommitPieces() that are not Commit().
  bool CommitAssembled(absl::Span<const uint8_t> ahs, const iovec* iov,
                       int iov_count, size_t offset, uint32_t length,
                       TaskSlot task, Notice notice);
  bool CommitScattered(const iovec* iov, size_t offset, uint32_t length,
                       TaskSlot task, Notice notice);
  bool GiveUp(Item* item);

  Listener* const listener_;
  BlockPool* const blocks_;
  bool header_digest_ = false;
  bool data_digest_ = false;
  // The ring: `first_`, or items in `block_`. A power of two.
  std::array<Item, kFirstItems> first_;
  BlockPool::Block block_;
  Item* items_ = first_.data();
  size_t capacity_ = kFirstItems;
  // Where a BHS goes that there is no item for.
  std::array<uint8_t, kBhsSize> lost_header_;
  bool begun_ = false;  // The last item is what Begin() returned.
  bool out_of_memory_ = false;
  size_t head_ = 0;
  size_t count_ = 0;
  size_t head_sent_ = 0;  // Bytes of the front item that have left.
  size_t bytes_ = 0;
  uint64_t pdus_sent_ = 0;
  uint64_t bytes_sent_ = 0;
  uint64_t copied_bytes_ = 0;
  std::vector<Due> due_;  // Empty but inside BytesSent.
  std::array<iovec, kMaxSpans> spans_;
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_DATAMOVER_STREAM_SEND_QUEUE_H_
