#include <cstddef>
#include <cstdint>
#include <cstring>

#include "protocol/codec/pdu.h"
#include "testing/fuzz/check.h"

// Any 48 bytes, as every PDU. What is accepted survives another round through
// the encoder.

namespace skiff::protocol {
namespace {

template <typename Pdu>
void Try(const uint8_t* bhs) {
  Pdu pdu;
  const DecodeResult result = Decode(bhs, &pdu);
  SKIFF_FUZZ_CHECK(result.field != nullptr);
  if (!result.ok()) return;
  const BhsFrame frame = DecodeFrame(bhs);
  Bhs first;
  Encode(pdu, first.data());
  EncodeLengths(first.data(), frame.ahs_bytes, frame.data_segment_length);
  Pdu again;
  SKIFF_FUZZ_CHECK(Decode(first.data(), &again).ok());
  Bhs second;
  Encode(again, second.data());
  EncodeLengths(second.data(), frame.ahs_bytes, frame.data_segment_length);
  SKIFF_FUZZ_CHECK(first == second);
}

template <typename... Pdus>
void TryAll(const uint8_t* bhs) {
  (Try<Pdus>(bhs), ...);
}

void Run(const uint8_t* bhs) {
  TryAll<ScsiCommandPdu, ScsiResponsePdu, TaskManagementRequestPdu,
         TaskManagementResponsePdu, ScsiDataOutPdu, ScsiDataInPdu, R2tPdu,
         AsyncMessagePdu, TextRequestPdu, TextResponsePdu, LoginRequestPdu,
         LoginResponsePdu, LogoutRequestPdu, LogoutResponsePdu, SnackRequestPdu,
         RejectPdu, NopOutPdu, NopInPdu>(bhs);
}

}  // namespace
}  // namespace skiff::protocol

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size >= skiff::protocol::kBhsSize) skiff::protocol::Run(data);
  return 0;
}
