#include "protocol/codec/iser_cm_private_data.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace skiff::protocol {
namespace {

constexpr uint8_t kNoZeroBasedVirtualAddress = 0x80;
constexpr uint8_t kNoSendWithInvalidate = 0x40;
constexpr uint8_t kFlags = kNoZeroBasedVirtualAddress | kNoSendWithInvalidate;

// Whether the four bytes have their number in front. As flags, that number
// would be a reserved bit, which peers leave zero.
bool IsCounted(absl::Span<const uint8_t> private_data) {
  if (private_data.size() <= kIserCmPrivateDataSize ||
      private_data[0] != kIserCmPrivateDataSize) {
    return false;
  }
  const auto said = private_data.subspan(1, kIserCmPrivateDataSize);
  return (said[0] & ~kFlags) == 0 && said[1] == 0 && said[2] == 0 &&
         said[3] == 0;
}

}  // namespace

IserCmPrivateDataBytes Encode(const IserCmPrivateData& data) {
  uint8_t flags = 0;
  if (!data.zero_based_virtual_address) flags |= kNoZeroBasedVirtualAddress;
  if (!data.send_with_invalidate) flags |= kNoSendWithInvalidate;
  IserCmPrivateDataBytes bytes = {flags, 0, 0, 0};
  if (data.counted) bytes.insert(bytes.begin(), kIserCmPrivateDataSize);
  return bytes;
}

absl::StatusOr<IserCmPrivateData> DecodeIserCmPrivateData(
    absl::Span<const uint8_t> private_data) {
  if (private_data.empty()) return IserCmPrivateData{};
  if (private_data.size() < kIserCmPrivateDataSize) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the connection's private data is ", private_data.size(),
        " bytes; iSER's is ", kIserCmPrivateDataSize, ", or none"));
  }
  const bool counted = IsCounted(private_data);
  const uint8_t flags = private_data[counted ? 1 : 0];
  return IserCmPrivateData{
      .zero_based_virtual_address = (flags & kNoZeroBasedVirtualAddress) == 0,
      .send_with_invalidate = (flags & kNoSendWithInvalidate) == 0,
      .counted = counted,
  };
}

}  // namespace skiff::protocol
