// A whole target connection, from the first byte on: framing, login, session,
// SCSI.
//
// The first byte of the input says how to feed the rest: bit 0 logs in first,
// bit 1 makes it a discovery session, bit 2 turns digests on, bits 3-7 choose
// the size of the reads.

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "protocol/session/target_session_harness.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using skiff::protocol::TargetSessionHarness;
  if (size == 0) return 0;
  const uint8_t how = data[0];
  TargetSessionHarness::Options options;
  options.session.queue_depth = 8;
  TargetSessionHarness harness(options);
  if ((how & 1) != 0) {
    harness.Login((how & 4) != 0
                      ? "HeaderDigest=CRC32C|DataDigest=CRC32C|InitialR2T=No|"
                      : "InitialR2T=No|",
                  /*discovery=*/(how & 2) != 0);
  }
  const size_t pace = how >> 3;
  const size_t step = pace == 0 ? ~size_t{0} : pace * 7;
  harness.Receive({reinterpret_cast<const char*>(data) + 1, size - 1}, step);
  harness.TakeBytes();
  return 0;
}
