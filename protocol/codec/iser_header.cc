#include "protocol/codec/iser_header.h"

#include <cstring>

#include "absl/strings/str_format.h"
#include "protocol/codec/endian.h"

namespace skiff::protocol {
namespace {

constexpr uint8_t kOpcodeShift = 4;
constexpr uint8_t kWriteStagValid = 0x08;
constexpr uint8_t kReadStagValid = 0x04;
constexpr uint8_t kReject = 0x01;
constexpr uint8_t kNibble = 0x0f;

// Padding of a data segment to whole words is at most this.
constexpr size_t kMaxTrailingBytes = 3;

uint8_t FirstByte(IserOpcode opcode, uint8_t flags) {
  return static_cast<uint8_t>((static_cast<uint8_t>(opcode) << kOpcodeShift) |
                              flags);
}

uint8_t Versions(uint8_t high, uint8_t low) {
  return static_cast<uint8_t>((high << 4) | (low & kNibble));
}

constexpr IserDecodeResult BadLength(const char* problem) {
  return {IserDecodeResult::kLength, problem};
}

void DecodeControl(const uint8_t* header, IserControlHeader* control) {
  const bool write = (header[0] & kWriteStagValid) != 0;
  const bool read = (header[0] & kReadStagValid) != 0;
  control->write_stag_valid = write;
  control->read_stag_valid = read;
  control->write_stag = write ? Load32(header + 4) : 0;
  control->write_base_offset = write ? Load64(header + 8) : 0;
  control->read_stag = read ? Load32(header + 16) : 0;
  control->read_base_offset = read ? Load64(header + 20) : 0;
}

IserDecodeResult CutPdu(absl::Span<const uint8_t> message, IserMessage* out) {
  if (message.size() < kIserControlSize) {
    return BadLength("the Basic Header Segment is cut short");
  }
  DecodeControl(message.data(), &out->control);
  out->bhs = message.data() + kIserHeaderSize;
  out->frame = DecodeFrame(out->bhs);
  const uint8_t* const rest = message.data() + kIserControlSize;
  size_t left = message.size() - kIserControlSize;
  const size_t ahs = out->frame.ahs_bytes;
  if (left < ahs) {
    return BadLength("TotalAHSLength is more than was received");
  }
  out->ahs = {rest, ahs};
  left -= ahs;
  const size_t data = out->frame.data_segment_length;
  if (left < data) {
    return BadLength("DataSegmentLength is more than was received");
  }
  out->data = {rest + ahs, data};
  if (left - data > kMaxTrailingBytes) {
    return BadLength("DataSegmentLength is less than was received");
  }
  return {};
}

}  // namespace

std::string IserOpcodeName(uint8_t opcode) {
  switch (static_cast<IserOpcode>(opcode)) {
    case IserOpcode::kControl:
      return "iSCSI control-type PDU";
    case IserOpcode::kHello:
      return "iSER Hello";
    case IserOpcode::kHelloReply:
      return "iSER HelloReply";
  }
  return absl::StrFormat("0x%x (unassigned)", opcode);
}

void Encode(const IserControlHeader& header, uint8_t* out) {
  std::memset(out, 0, kIserHeaderSize);
  uint8_t flags = 0;
  if (header.write_stag_valid) {
    flags |= kWriteStagValid;
    Store32(header.write_stag, out + 4);
    Store64(header.write_base_offset, out + 8);
  }
  if (header.read_stag_valid) {
    flags |= kReadStagValid;
    Store32(header.read_stag, out + 16);
    Store64(header.read_base_offset, out + 20);
  }
  out[0] = FirstByte(IserOpcode::kControl, flags);
}

void Encode(const IserHello& hello, uint8_t* out) {
  std::memset(out, 0, kIserHeaderSize);
  out[0] = FirstByte(IserOpcode::kHello, 0);
  out[1] = Versions(hello.max_version, hello.min_version);
  Store16(hello.iser_ird, out + 2);
}

void Encode(const IserHelloReply& reply, uint8_t* out) {
  std::memset(out, 0, kIserHeaderSize);
  out[0] = FirstByte(IserOpcode::kHelloReply, reply.reject ? kReject : 0);
  out[1] = Versions(reply.max_version, reply.current_version);
  Store16(reply.iser_ord, out + 2);
}

IserDecodeResult DecodeIserMessage(absl::Span<const uint8_t> message,
                                   IserMessage* out) {
  if (message.size() < kIserHeaderSize) {
    return BadLength("the iSER header is cut short");
  }
  const uint8_t* header = message.data();
  out->opcode = static_cast<IserOpcode>(header[0] >> kOpcodeShift);
  switch (out->opcode) {
    case IserOpcode::kControl:
      return CutPdu(message, out);
    case IserOpcode::kHello:
      if (message.size() != kIserHeaderSize) {
        return BadLength("an iSER Hello is a header and nothing else");
      }
      out->hello.max_version = header[1] >> 4;
      out->hello.min_version = header[1] & kNibble;
      out->hello.iser_ird = Load16(header + 2);
      return {};
    case IserOpcode::kHelloReply:
      if (message.size() != kIserHeaderSize) {
        return BadLength("an iSER HelloReply is a header and nothing else");
      }
      out->hello_reply.reject = (header[0] & kReject) != 0;
      out->hello_reply.max_version = header[1] >> 4;
      out->hello_reply.current_version = header[1] & kNibble;
      out->hello_reply.iser_ord = Load16(header + 2);
      return {};
  }
  return {IserDecodeResult::kWrongOpcode, "its iSER opcode is unassigned"};
}

}  // namespace skiff::protocol
