#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "protocol/codec/pdu.h"
#include "testing/fuzz/check.h"

// Any bytes as Additional Header Segments.

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using skiff::protocol::AhsView;
  if (size > skiff::protocol::kMaxAhsBytes) return 0;
  AhsView view;
  if (!DecodeAhs(absl::MakeConstSpan(data, size), &view).ok()) return 0;
  if (!view.extended_cdb.empty()) {
    SKIFF_FUZZ_CHECK(view.extended_cdb.data() >= data);
    SKIFF_FUZZ_CHECK(view.extended_cdb.data() + view.extended_cdb.size() <=
                     data + size);
  }
  std::array<uint8_t, skiff::protocol::kMaxAhsBytes> encoded;
  const size_t written = EncodeAhs(view, encoded.data());
  SKIFF_FUZZ_CHECK(written == size);
  AhsView again;
  SKIFF_FUZZ_CHECK(
      DecodeAhs(absl::MakeConstSpan(encoded.data(), written), &again).ok());
  SKIFF_FUZZ_CHECK(again.extended_cdb == view.extended_cdb);
  SKIFF_FUZZ_CHECK(again.has_bidi_read_length == view.has_bidi_read_length);
  SKIFF_FUZZ_CHECK(again.bidi_read_length == view.bidi_read_length);
  return 0;
}
