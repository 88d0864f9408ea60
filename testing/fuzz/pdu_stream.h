#ifndef SKIFF_TESTING_FUZZ_PDU_STREAM_H_
#define SKIFF_TESTING_FUZZ_PDU_STREAM_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "protocol/codec/pdu.h"

namespace skiff::testing {

// Takes a header and its data segment from the front of a fuzzer's input, as a
// connection would, except that a data segment ends where the input does.
inline bool TakePdu(absl::Span<const uint8_t>* input,
                    absl::Span<const uint8_t>* bhs,
                    absl::Span<const uint8_t>* data) {
  if (input->size() < protocol::kBhsSize) return false;
  *bhs = input->subspan(0, protocol::kBhsSize);
  input->remove_prefix(protocol::kBhsSize);
  const size_t length = protocol::DecodeFrame(bhs->data()).data_segment_length;
  *data = input->subspan(0, std::min(length, input->size()));
  const size_t padded =
      length + protocol::PaddingFor(static_cast<uint32_t>(length));
  input->remove_prefix(std::min(padded, input->size()));
  return true;
}

}  // namespace skiff::testing

#endif  // SKIFF_TESTING_FUZZ_PDU_STREAM_H_
