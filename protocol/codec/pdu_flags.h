#ifndef SKIFF_PROTOCOL_CODEC_PDU_FLAGS_H_
#define SKIFF_PROTOCOL_CODEC_PDU_FLAGS_H_

#include <cstdint>

// Bits of the Basic Header Segment, shared by the encoder and the decoder. The
// RFC numbers bits from the most significant one; these are masks.

namespace skiff::protocol {

// Byte 0 (RFC 7143 section 11.2.1).
inline constexpr uint8_t kImmediateBit = 0x40;
inline constexpr uint8_t kOpcodeMask = 0x3f;

// Byte 1. The first two bits change their names with the opcode.
inline constexpr uint8_t kFinalBit = 0x80;        // F; T in logins.
inline constexpr uint8_t kContinueBit = 0x40;     // C of Text and Login.
inline constexpr uint8_t kReadBit = 0x40;         // R of SCSI Command.
inline constexpr uint8_t kAcknowledgeBit = 0x40;  // A of Data-In.
inline constexpr uint8_t kWriteBit = 0x20;        // W of SCSI Command.
inline constexpr uint8_t kAttributeMask = 0x07;   // ATTR of SCSI Command.
inline constexpr uint8_t kBidiOverflowBit = 0x10;
inline constexpr uint8_t kBidiUnderflowBit = 0x08;
inline constexpr uint8_t kOverflowBit = 0x04;
inline constexpr uint8_t kUnderflowBit = 0x02;
inline constexpr uint8_t kStatusBit = 0x01;       // S of Data-In.
inline constexpr uint8_t kFunctionMask = 0x7f;    // TMF function.
inline constexpr uint8_t kReasonMask = 0x7f;      // Logout reason.
inline constexpr uint8_t kSnackTypeMask = 0x0f;   // SNACK type.
inline constexpr uint8_t kCurrentStageShift = 2;  // CSG of logins.
inline constexpr uint8_t kStageMask = 0x03;

// AHS types (section 11.2.2.1); the two bits above the code are reserved.
inline constexpr uint8_t kAhsCodeMask = 0x3f;
inline constexpr uint8_t kAhsExtendedCdb = 1;
inline constexpr uint8_t kAhsBidiReadLength = 2;

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_CODEC_PDU_FLAGS_H_
