#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/types/span.h"
#include "protocol/codec/iser_cm_private_data.h"
#include "protocol/codec/iser_header.h"
#include "testing/fuzz/check.h"

// Any bytes as one received Send, and as the private data of a connection. What
// is accepted lies inside of the message and survives another round through the
// encoder.

namespace skiff::protocol {
namespace {

bool Inside(absl::Span<const uint8_t> part, absl::Span<const uint8_t> whole) {
  return part.data() >= whole.data() &&
         part.data() + part.size() <= whole.data() + whole.size();
}

IserHeaderBytes HeaderOf(const IserMessage& message) {
  IserHeaderBytes header;
  switch (message.opcode) {
    case IserOpcode::kControl:
      Encode(message.control, header.data());
      break;
    case IserOpcode::kHello:
      Encode(message.hello, header.data());
      break;
    case IserOpcode::kHelloReply:
      Encode(message.hello_reply, header.data());
      break;
  }
  return header;
}

void CheckMessage(absl::Span<const uint8_t> bytes) {
  IserMessage first;
  const IserDecodeResult result = DecodeIserMessage(bytes, &first);
  SKIFF_FUZZ_CHECK(result.problem != nullptr);
  if (!result.ok()) {
    SKIFF_FUZZ_CHECK(result.problem[0] != '\0');
    return;
  }
  const IserHeaderBytes header = HeaderOf(first);
  std::vector<uint8_t> copy(header.begin(), header.end());
  if (first.opcode == IserOpcode::kControl) {
    SKIFF_FUZZ_CHECK(Inside({first.bhs, kBhsSize}, bytes));
    SKIFF_FUZZ_CHECK(Inside(first.ahs, bytes));
    SKIFF_FUZZ_CHECK(Inside(first.data, bytes));
    copy.insert(copy.end(), first.bhs, first.bhs + kBhsSize);
    copy.insert(copy.end(), first.ahs.begin(), first.ahs.end());
    copy.insert(copy.end(), first.data.begin(), first.data.end());
    SKIFF_FUZZ_CHECK(bytes.size() - copy.size() <= 3);
  }
  IserMessage again;
  SKIFF_FUZZ_CHECK(DecodeIserMessage(copy, &again).ok());
  SKIFF_FUZZ_CHECK(again.opcode == first.opcode);
  SKIFF_FUZZ_CHECK(HeaderOf(again) == header);
}

void CheckPrivateData(absl::Span<const uint8_t> bytes) {
  const auto decoded = DecodeIserCmPrivateData(bytes);
  if (!decoded.ok()) return;
  const auto again = DecodeIserCmPrivateData(Encode(*decoded));
  SKIFF_FUZZ_CHECK(again.ok() && *again == *decoded);
}

}  // namespace
}  // namespace skiff::protocol

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  skiff::protocol::CheckMessage({data, size});
  skiff::protocol::CheckPrivateData({data, size});
  return 0;
}
