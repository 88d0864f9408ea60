#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "testing/fuzz/check.h"
#include "transport/libfabric/datagram/handshake.h"

// Any bytes as a message of the handshake over libfabric's datagrams. What is
// taken is exactly what an honest peer would have sent.

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using skiff::transport::kMaxHandshakeBytes;
  const absl::Span<const uint8_t> bytes(data, size);
  const auto length = skiff::transport::HandshakeLength(bytes);
  const auto message = skiff::transport::DecodeHandshake(bytes);
  if (!length.ok()) {
    SKIFF_FUZZ_CHECK(!message.ok());
    return 0;
  }
  SKIFF_FUZZ_CHECK(*length <= kMaxHandshakeBytes);
  if (!message.ok()) return 0;
  SKIFF_FUZZ_CHECK(*length == size);
  const std::vector<uint8_t> again =
      skiff::transport::EncodeHandshake(*message);
  SKIFF_FUZZ_CHECK(absl::MakeConstSpan(again) == bytes);
  return 0;
}
