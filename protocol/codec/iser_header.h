#ifndef SKIFF_PROTOCOL_CODEC_ISER_HEADER_H_
#define SKIFF_PROTOCOL_CODEC_ISER_HEADER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "protocol/codec/pdu.h"

// The iSER header of RFC 7145 section 9 and the messages that it starts, as
// structs, and pure functions between them and bytes. Nothing here allocates,
// keeps state, or trusts a byte.
//
// There is one format: what initiators and targets of the field send is that of
// RFC 7145, whose 28 bytes are older than it (its appendix A, item 8). The
// header of 12 bytes in RFC 5046 was never deployed, and fails here as a
// message that is too short. In what the Write Base Offset means, practice and
// RFC differ; that is the datamover's business, not the format's.

namespace skiff::protocol {

inline constexpr size_t kIserHeaderSize = 28;
// What a receive buffer must hold besides AHSs and data.
inline constexpr size_t kIserControlSize = kIserHeaderSize + kBhsSize;
// "It MUST be set to 10" (sections 9.3 and 9.4).
inline constexpr uint8_t kIserVersion = 10;

using IserHeaderBytes = std::array<uint8_t, kIserHeaderSize>;

enum class IserOpcode : uint8_t {
  kControl = 1,
  kHello = 2,
  kHelloReply = 3,
};
// "iSER Hello", "0x7 (unassigned)", ...: for logs. Takes the 4 bits.
std::string IserOpcodeName(uint8_t opcode);

// Section 9.2: precedes an iSCSI control-type PDU. A buffer is advertised if
// its flag is set; encoding writes zeros for one that is not, and decoding
// leaves zeros.
struct IserControlHeader {
  bool write_stag_valid = false;  // WSV: the target may RDMA Read it.
  bool read_stag_valid = false;   // RSV: the target may RDMA Write it.
  uint32_t write_stag = 0;
  uint64_t write_base_offset = 0;
  uint32_t read_stag = 0;
  uint64_t read_base_offset = 0;
};

// Section 9.3: the whole message.
struct IserHello {
  uint8_t max_version = kIserVersion;  // 4 bits.
  uint8_t min_version = kIserVersion;  // 4 bits.
  uint16_t iser_ird = 0;  // RDMA Reads that the initiator can serve at a time.
};

// Section 9.4: the whole message.
struct IserHelloReply {
  bool reject = false;
  uint8_t max_version = kIserVersion;      // 4 bits.
  uint8_t current_version = kIserVersion;  // 4 bits.
  uint16_t iser_ord = 0;  // RDMA Reads that the target has out at a time.
};

// Each writes all kIserHeaderSize bytes; reserved fields are zero.
void Encode(const IserControlHeader& header, uint8_t* out);
void Encode(const IserHello& hello, uint8_t* out);
void Encode(const IserHelloReply& reply, uint8_t* out);

// Why a received message is none. `problem` is statically allocated and reads
// well after "iSER message of N bytes: ".
struct IserDecodeResult {
  enum Code : uint8_t {
    kOk,
    kLength,       // Cut short, or longer than what it says it holds.
    kWrongOpcode,  // Unassigned.
  };
  Code code = kOk;
  const char* problem = "";
  bool ok() const { return code == kOk; }
};

// A received Send, cut into its parts. The spans point into the message.
// kControl: the header, and the PDU after it.
struct IserMessage : ControlPdu {
  IserOpcode opcode = IserOpcode::kControl;
  IserControlHeader control;
  // kHello and kHelloReply.
  IserHello hello;
  IserHelloReply hello_reply;
};

// Cuts the bytes of one received Send. The lengths in the BHS are checked
// against the message: it must hold what they say, and at most 3 bytes more.
// The PDU needs no padding on a transport with messages, but some senders pad
// the data segment to 4 bytes (the Linux target does, and its initiator does
// not). A Hello or HelloReply is exactly one header (section 10.1.3.3).
// Reserved fields, and STags without their flag, are ignored (section 9.2);
// whether the versions suit is for the caller. Of `out`, what another kind of
// message has is left alone, and after a failure nothing is to be relied on.
IserDecodeResult DecodeIserMessage(absl::Span<const uint8_t> message,
                                   IserMessage* out);

// Whether the versions of a Hello and ours overlap (section 10.1.3.2).
inline constexpr bool IserVersionsOverlap(uint8_t min_version,
                                          uint8_t max_version) {
  return min_version <= kIserVersion && kIserVersion <= max_version;
}

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_CODEC_ISER_HEADER_H_
