#include "protocol/datamover/stream/stream_receiver.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "protocol/codec/digest.h"

namespace skiff::protocol {

namespace {

bool CarriesPayload(const BhsFrame& frame) {
  const auto opcode = static_cast<Opcode>(frame.opcode);
  return opcode == Opcode::kScsiCommand || opcode == Opcode::kScsiDataOut ||
         opcode == Opcode::kScsiDataIn;
}

}  // namespace

absl::Span<const iovec> StreamReceiver::Spans() {
  if (state_ == State::kStopped) return {};
  assert(kept_ == nullptr);
  size_t n = 0;
  size_t scratch_size = buffers_->scratch_size() - kMaxHeader;
  if (state_ == State::kData && data_left_ >= kHeaderPeek &&
      sink_.kind != Sink::kDiscard) {
    size_t left = data_left_;
    const iovec* iov = at_iov_;
    size_t offset = at_offset_;
    while (left > 0 && n + 1 < kMaxSpans) {
      const size_t take = std::min(left, iov->iov_len - offset);
      if (take > 0)
        spans_[n++] = {static_cast<uint8_t*>(iov->iov_base) + offset, take};
      left -= take;
      ++iov;
      offset = 0;
    }
    // More entries than fit: what follows them is data too, not scratch.
    if (left > 0) return {spans_.data(), n};
    if (data_left_ >= kLargeSegment) scratch_size = kHeaderPeek;
  } else if (state_ == State::kHeader && expect_large_) {
    scratch_size = kHeaderPeek;
  }
  // Room in front for the carried header bytes.
  spans_[n++] = {buffers_->scratch() + kMaxHeader, scratch_size};
  return {spans_.data(), n};
}

void StreamReceiver::BytesReceived(size_t n) {
  received_bytes_ += n;
  if (state_ == State::kData && data_left_ >= kHeaderPeek &&
      sink_.kind != Sink::kDiscard) {
    const size_t direct = std::min<size_t>(n, data_left_);
    Advance(direct);
    n -= direct;
    if (data_left_ == 0 && TailSize(pdu_.frame.data_segment_length) == 0)
      FinishData();
  }
  if (n == 0 || state_ == State::kStopped) return;
  const uint8_t* p = buffers_->scratch() + kMaxHeader;
  const uint8_t* const end = p + n;
  if (state_ == State::kHeader && carry_size_ > 0) {
    p -= carry_size_;
    std::memcpy(const_cast<uint8_t*>(p), carry_.data(), carry_size_);
    carry_size_ = 0;
  }
  p = ConsumeAll(p, end);
  if (p != nullptr) Keep(p, end);
}

// The scratch is the next connection's now.
void StreamReceiver::Keep(const uint8_t* p, const uint8_t* end) {
  kept_at_ = 0;
  kept_end_ = static_cast<size_t>(end - p);
  kept_ = buffers_->blocks()->Take(kept_end_);
  if (kept_ == nullptr) {
    return Fail(
        absl::StrCat("no memory to keep ", kept_end_, " bytes that it sent"));
  }
  std::memcpy(kept_.get(), p, kept_end_);
}

void StreamReceiver::Resume() {
  if (kept_ == nullptr || state_ == State::kStopped) return;
  const uint8_t* const begin = kept_.get();
  const uint8_t* const p = ConsumeAll(begin + kept_at_, begin + kept_end_);
  if (p != nullptr) {
    kept_at_ = static_cast<size_t>(p - begin);
  } else {
    kept_.reset();
  }
}

// Returns where a pause began; null when everything was consumed.
const uint8_t* StreamReceiver::ConsumeAll(const uint8_t* p,
                                          const uint8_t* end) {
  while (p != nullptr && p < end && state_ != State::kStopped) {
    if (state_ == State::kHeader && handler_->ReceivePaused()) return p;
    p = Consume(p, end);
  }
  return nullptr;
}

// Returns where the next PDU begins, or null when more bytes are needed.
const uint8_t* StreamReceiver::Consume(const uint8_t* p, const uint8_t* end) {
  return state_ == State::kHeader ? ConsumeHeader(p, end) : ConsumeData(p, end);
}

const uint8_t* StreamReceiver::ConsumeHeader(const uint8_t* p,
                                             const uint8_t* end) {
  const auto have = static_cast<size_t>(end - p);
  size_t header_size = kBhsSize;
  Pdu pdu = {};
  if (have >= kBhsSize) {
    pdu.frame = DecodeFrame(p);
    header_size += pdu.frame.ahs_bytes + (header_digest_ ? kDigestSize : 0);
  }
  if (have < header_size) {
    std::memcpy(carry_.data(), p, have);
    carry_size_ = have;
    expect_large_ = false;
    return nullptr;
  }
  pdu.bhs = p;
  pdu.ahs = {p + kBhsSize, pdu.frame.ahs_bytes};
  if (!CheckHeader(pdu)) return nullptr;
  const uint32_t length = pdu.frame.data_segment_length;
  ++received_pdus_;
  pdu_data_digest_ = data_digest_;
  expect_large_ = length >= kLargeSegment;
  const size_t tail = TailSize(length);
  if (have - header_size >= length + tail) {
    const uint8_t* const data = p + header_size;
    DigestError error = DigestError::kNone;
    if (pdu_data_digest_ && length > 0) {
      const uint32_t padded = length + PaddingFor(length);
      const uint32_t digest =
          FinishDigest(ExtendDigest(kDigestInit, data, padded));
      if (digest != LoadDigest(data + padded)) error = DataDigestError();
    }
    handler_->OnPdu(pdu, {data, length}, error);
    return data + length + tail;
  }
  // The header outlives the scratch while the data arrive.
  std::memcpy(carry_.data(), p, header_size);
  pdu.bhs = carry_.data();
  pdu.ahs = {carry_.data() + kBhsSize, pdu.frame.ahs_bytes};
  BeginData(pdu);
  return p + header_size;
}

// Whether what follows can be found; else the stream has failed.
inline bool StreamReceiver::CheckHeader(const Pdu& pdu) {
  if (header_digest_) {
    const size_t covered = kBhsSize + pdu.frame.ahs_bytes;
    if (FinishDigest(ExtendDigest(kDigestInit, pdu.bhs, covered)) !=
        LoadDigest(pdu.bhs + covered)) {
      // Where the next PDU begins is not known either (RFC 7143 section 7.8).
      ++header_digest_errors_;
      Fail("header digest error");
      return false;
    }
  }
  const uint32_t length = pdu.frame.data_segment_length;
  if (length > max_data_segment_length_) {
    Fail(absl::StrCat(OpcodeName(pdu.frame.opcode), " with a data segment of ",
                      length, " bytes; ", max_data_segment_length_,
                      " were declared"));
    return false;
  }
  return true;
}

void StreamReceiver::BeginData(const Pdu& pdu) {
  state_ = State::kData;
  pdu_ = pdu;
  data_left_ = pdu.frame.data_segment_length;
  digest_ = kDigestInit;
  tail_have_ = 0;
  sink_ = Sink();
  const Sink sink = handler_->OnPduStart(pdu_);
  if (state_ == State::kStopped) return;
  sink_ = sink;
  if (sink_.kind == Sink::kAssemble) {
    assembly_ = buffers_->blocks()->Take(data_left_);
    if (assembly_ == nullptr) {
      return Fail(absl::StrCat("no memory for a data segment of ", data_left_,
                               " bytes"));
    }
    assembly_iov_ = {assembly_.get(), data_left_};
    sink_.iov = &assembly_iov_;
    sink_.iov_count = 1;
    sink_.offset = 0;
  }
  at_iov_ = sink_.iov;
  at_offset_ = sink_.offset;
  while (sink_.kind != Sink::kDiscard && at_offset_ > at_iov_->iov_len) {
    at_offset_ -= at_iov_->iov_len;
    ++at_iov_;
  }
}

// `n` bytes of the data segment are in their place now.
void StreamReceiver::Advance(size_t n) {
  data_left_ -= static_cast<uint32_t>(n);
  while (n > 0) {
    const size_t take = std::min(n, at_iov_->iov_len - at_offset_);
    if (pdu_data_digest_ && take > 0) {
      digest_ = ExtendDigest(
          digest_, static_cast<const uint8_t*>(at_iov_->iov_base) + at_offset_,
          take);
    }
    n -= take;
    at_offset_ += take;
    if (at_offset_ == at_iov_->iov_len && n > 0) {
      ++at_iov_;
      at_offset_ = 0;
    }
  }
}

const uint8_t* StreamReceiver::ConsumeData(const uint8_t* p,
                                           const uint8_t* end) {
  while (data_left_ > 0 && p < end) {
    size_t take = std::min<size_t>(data_left_, static_cast<size_t>(end - p));
    if (sink_.kind == Sink::kDiscard) {
      if (pdu_data_digest_) digest_ = ExtendDigest(digest_, p, take);
      data_left_ -= static_cast<uint32_t>(take);
    } else {
      if (at_offset_ == at_iov_->iov_len) {
        ++at_iov_;
        at_offset_ = 0;
      }
      take = std::min(take, at_iov_->iov_len - at_offset_);
      std::memcpy(static_cast<uint8_t*>(at_iov_->iov_base) + at_offset_, p,
                  take);
      if (CarriesPayload(pdu_.frame)) copied_bytes_ += take;
      Advance(take);
    }
    p += take;
  }
  const size_t tail = TailSize(pdu_.frame.data_segment_length);
  const size_t take =
      std::min<size_t>(tail - tail_have_, static_cast<size_t>(end - p));
  std::memcpy(tail_.data() + tail_have_, p, take);
  tail_have_ += take;
  p += take;
  if (data_left_ > 0 || tail_have_ < tail) return nullptr;
  FinishData();
  return p;
}

StreamReceiver::DigestError StreamReceiver::DataDigestError() {
  ++data_digest_errors_;
  return DigestError::kData;
}

void StreamReceiver::FinishData() {
  DigestError error = DigestError::kNone;
  if (pdu_data_digest_) {
    const size_t padding = PaddingFor(pdu_.frame.data_segment_length);
    digest_ = ExtendDigest(digest_, tail_.data(), padding);
    if (FinishDigest(digest_) != LoadDigest(tail_.data() + padding)) {
      error = DataDigestError();
    }
  }
  state_ = State::kHeader;
  if (sink_.kind != Sink::kAssemble) {
    handler_->OnPlaced(pdu_, error);
    return;
  }
  const BlockPool::Block data = std::move(assembly_);
  handler_->OnPdu(pdu_, {data.get(), pdu_.frame.data_segment_length}, error);
}

void StreamReceiver::AppendUnread(std::string* to) const {
  const auto append = [to](const uint8_t* from, size_t size) {
    to->append(reinterpret_cast<const char*>(from), size);
  };
  if (state_ == State::kData) {
    assert(sink_.kind == Sink::kAssemble);
    append(carry_.data(), kBhsSize + pdu_.frame.ahs_bytes +
                              (header_digest_ ? kDigestSize : 0));
    append(assembly_.get(), pdu_.frame.data_segment_length - data_left_);
    append(tail_.data(), tail_have_);
  } else {
    append(carry_.data(), carry_size_);
  }
  if (kept_ != nullptr) append(kept_.get() + kept_at_, kept_end_ - kept_at_);
}

void StreamReceiver::AbandonPlacement() {
  if (state_ == State::kData && sink_.kind == Sink::kPlace)
    sink_.kind = Sink::kDiscard;
}

void StreamReceiver::Fail(const std::string& why) {
  state_ = State::kStopped;
  handler_->OnFramingError(why);
}

}  // namespace skiff::protocol
