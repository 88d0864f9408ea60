#ifndef SKIFF_PROTOCOL_CODEC_ISER_CM_PRIVATE_DATA_H_
#define SKIFF_PROTOCOL_CODEC_ISER_CM_PRIVATE_DATA_H_

#include <cstddef>
#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

// What iSER peers tell each other in the private data of the connection
// manager's messages, before the first PDU: four bytes, the same in both
// directions, in InfiniBand's "Annex A12: Support for iSCSI Extensions for
// RDMA". RFC 7145 has none of it; initiators and targets of the field send and
// expect it on InfiniBand, RoCE and iWARP.

namespace skiff::protocol {

inline constexpr size_t kIserCmPrivateDataSize = 4;

using IserCmPrivateDataBytes =
    absl::InlinedVector<uint8_t, kIserCmPrivateDataSize + 1>;

// On the wire the flags are the opposite: a set bit says "not".
struct IserCmPrivateData {
  // Request: the initiator can use addresses that count from zero. Reply: the
  // connection uses them.
  bool zero_based_virtual_address = false;
  // Request: the initiator can take a Send with Invalidate. Reply: the target
  // may send one.
  bool send_with_invalidate = false;
  // Their number comes in front of the four bytes: libfabric's verbs provider
  // puts it there, and expects it. Whoever was told so answers so.
  bool counted = false;

  bool operator==(const IserCmPrivateData&) const = default;
};

IserCmPrivateDataBytes Encode(const IserCmPrivateData& data);

// Of all the private data that came with a request or a reply. More than the
// four bytes is fine: InfiniBand fills its messages with zeros. None at all
// means that the peer says nothing (tgt does so where the network does not
// fill): neither is in use then. 1 to 3 bytes are an error. Reserved bits are
// ignored, but where they are the number 4 and iSER's four bytes follow.
absl::StatusOr<IserCmPrivateData> DecodeIserCmPrivateData(
    absl::Span<const uint8_t> private_data);

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_CODEC_ISER_CM_PRIVATE_DATA_H_
