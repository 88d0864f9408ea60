#ifndef SKIFF_PROTOCOL_DATAMOVER_STREAM_STREAM_RECEIVER_H_
#define SKIFF_PROTOCOL_DATAMOVER_STREAM_STREAM_RECEIVER_H_

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "protocol/codec/pdu.h"
#include "protocol/datamover/stream/stream_datamover.h"
#include "protocol/negotiation/parameters.h"

namespace skiff::protocol {

// Cuts a byte stream into PDUs, checks lengths and digests, and lands big data
// segments where they belong without a copy.
//
// A PDU that is wholly in the scratch is handled in place: OnPdu. Of a bigger
// one, the header comes first (OnPduStart) and its handler says what to do with
// the data segment; the rest of it is then received straight to its place.
class StreamReceiver {
 public:
  using Pdu = ControlPdu;  // Its `data` are empty: they come beside it.

  // What to do with a data segment that is still arriving.
  struct Sink {
    enum Kind : uint8_t {
      kAssemble,  // Gather it; OnPdu follows with the whole.
      kPlace,     // Into `iov`, from `offset` on; OnPlaced follows.
      kDiscard,   // Drop it; OnPlaced follows.
    };
    Kind kind = kAssemble;
    const iovec* iov = nullptr;  // Stays valid until OnPlaced or Abandon.
    int iov_count = 0;
    size_t offset = 0;
  };

  enum class DigestError : uint8_t { kNone, kData };

  class Handler {
   public:
    virtual ~Handler() = default;
    virtual void OnPdu(const Pdu& pdu, absl::Span<const uint8_t> data,
                       DigestError error) = 0;
    virtual Sink OnPduStart(const Pdu& pdu) = 0;
    virtual void OnPlaced(const Pdu& pdu, DigestError error) = 0;
    // The stream cannot be cut into PDUs any more; nothing follows.
    virtual void OnFramingError(const std::string& why) = 0;
    // Whether the next PDU is to wait for Resume().
    virtual bool ReceivePaused() const { return false; }
  };

  StreamReceiver(StreamBuffers* buffers, Handler* handler)
      : buffers_(buffers), handler_(handler) {}
  StreamReceiver(const StreamReceiver&) = delete;
  StreamReceiver& operator=(const StreamReceiver&) = delete;

  // In force from the next PDU on (when called from inside OnPdu: from the one
  // after).
  void SetDigests(Digest header, Digest data) {
    header_digest_ = header == Digest::kCrc32c;
    data_digest_ = data == Digest::kCrc32c;
  }
  void SetMaxDataSegmentLength(uint32_t bytes) {
    max_data_segment_length_ = bytes;
  }

  // Not between a pause and the Resume() that ends it.
  absl::Span<const iovec> Spans();
  void BytesReceived(size_t n);

  // Handles what had been received when the handler paused.
  void Resume();

  // The memory of the current kPlace sink goes away: the rest is dropped.
  // OnPlaced still follows.
  void AbandonPlacement();

  // No more callbacks, ever; Spans() is empty.
  void Stop() { state_ = State::kStopped; }

  // What is arriving belongs nowhere any more.
  bool discarding() const {
    return state_ == State::kData && sink_.kind == Sink::kDiscard;
  }
  // Appends what was received and not told of, as it came. Not while it places
  // or discards data. Nothing may follow but Stop().
  void AppendUnread(std::string* to) const;

  bool mid_pdu() const { return carry_size_ > 0 || state_ == State::kData; }
  uint64_t received_bytes() const { return received_bytes_; }
  // PDUs whose header has come, and payload that came with other bytes and was
  // copied to its place.
  uint64_t received_pdus() const { return received_pdus_; }
  uint64_t copied_bytes() const { return copied_bytes_; }
  // PDUs that it told of as such, or failed for.
  uint64_t header_digest_errors() const { return header_digest_errors_; }
  uint64_t data_digest_errors() const { return data_digest_errors_; }

 private:
  enum class State : uint8_t { kHeader, kData, kStopped };
  // A header in the making: BHS, the longest AHS, digest.
  static constexpr size_t kMaxHeader = kBhsSize + kMaxAhsBytes + 4;
  static constexpr size_t kMaxSpans = 64;
  // From this size on a data segment is worth a receive of its own.
  static constexpr size_t kLargeSegment = 16 * 1024;
  // What is received beyond a large data segment: the next headers.
  static constexpr size_t kHeaderPeek = 1024;

  const uint8_t* ConsumeAll(const uint8_t* p, const uint8_t* end);
  const uint8_t* Consume(const uint8_t* p, const uint8_t* end);
  const uint8_t* ConsumeHeader(const uint8_t* p, const uint8_t* end);
  bool CheckHeader(const Pdu& pdu);
  const uint8_t* ConsumeData(const uint8_t* p, const uint8_t* end);
  void Keep(const uint8_t* p, const uint8_t* end);
  void Advance(size_t n);
  void BeginData(const Pdu& pdu);
  void FinishData();
  DigestError DataDigestError();
  void Fail(const std::string& why);

  size_t TailSize(uint32_t data_length) const {
    return data_length == 0
               ? 0
               : PaddingFor(data_length) + (pdu_data_digest_ ? 4 : 0);
  }

  StreamBuffers* const buffers_;
  Handler* const handler_;
  State state_ = State::kHeader;
  bool header_digest_ = false;
  bool data_digest_ = false;
  uint32_t max_data_segment_length_ = 8192;
  bool expect_large_ = false;
  uint64_t received_bytes_ = 0;
  uint64_t received_pdus_ = 0;
  uint64_t copied_bytes_ = 0;
  uint64_t header_digest_errors_ = 0;
  uint64_t data_digest_errors_ = 0;

  // Bytes of an incomplete header, kept between receives.
  size_t carry_size_ = 0;
  std::array<uint8_t, kMaxHeader> carry_;

  // Bytes that wait for Resume(), from `kept_at_` to `kept_end_`. Null: none.
  BlockPool::Block kept_;
  size_t kept_at_ = 0;
  size_t kept_end_ = 0;

  // The PDU whose data segment is arriving; its header lives in carry_.
  Pdu pdu_ = {};
  bool pdu_data_digest_ = false;
  Sink sink_;
  uint32_t data_left_ = 0;
  uint32_t digest_ = 0;
  // Where the next byte goes: an entry of the sink's list and an offset in it.
  const iovec* at_iov_ = nullptr;
  size_t at_offset_ = 0;
  iovec assembly_iov_ = {};
  BlockPool::Block assembly_;
  size_t tail_have_ = 0;
  std::array<uint8_t, 8> tail_;

  std::array<iovec, kMaxSpans> spans_;
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_DATAMOVER_STREAM_STREAM_RECEIVER_H_
