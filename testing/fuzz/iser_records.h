#ifndef SKIFF_TESTING_FUZZ_ISER_RECORDS_H_
#define SKIFF_TESTING_FUZZ_ISER_RECORDS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/types/span.h"
#include "protocol/codec/iser_header.h"
#include "protocol/codec/pdu.h"

namespace skiff::testing {

// Cuts an input into records: a byte that says what, one with a length in units
// of 4, and so many bytes.
template <typename Run>
void ForEachRecord(absl::Span<const uint8_t> input, Run run) {
  while (input.size() >= 2) {
    const uint8_t what = input[0];
    const size_t length = size_t{input[1]} * 4;
    input.remove_prefix(2);
    const absl::Span<const uint8_t> bytes = input.subspan(0, length);
    run(what, std::string(bytes.begin(), bytes.end()));
    input.remove_prefix(bytes.size());
  }
}

// Runs an `Attack` of the input: its first byte says how, the others are
// records.
template <typename Attack>
int RunAttack(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  Attack attack(data[0]);
  ForEachRecord({data + 1, size - 1},
                [&attack](uint8_t what, std::string bytes) {
                  attack.Run(what, std::move(bytes));
                });
  attack.Finish();
  return 0;
}

// The message of a PDU, whose lengths are made to fit; the rest is as it is.
inline std::string FittingMessage(const protocol::IserControlHeader& header,
                                  std::string pdu) {
  using protocol::kBhsSize;
  pdu.resize(std::max(pdu.size(), kBhsSize));
  auto* bhs = reinterpret_cast<uint8_t*>(pdu.data());
  const uint32_t ahs =
      std::min<uint32_t>(protocol::DecodeFrame(bhs).ahs_bytes,
                         static_cast<uint32_t>(pdu.size() - kBhsSize) / 4 * 4);
  protocol::EncodeLengths(bhs, ahs,
                          static_cast<uint32_t>(pdu.size() - kBhsSize - ahs));
  std::string message(protocol::kIserHeaderSize, '\0');
  Encode(header, reinterpret_cast<uint8_t*>(message.data()));
  return message + pdu;
}

}  // namespace skiff::testing

#endif  // SKIFF_TESTING_FUZZ_ISER_RECORDS_H_
