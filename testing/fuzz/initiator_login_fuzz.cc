#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "protocol/codec/pdu.h"
#include "protocol/negotiation/initiator_login.h"
#include "protocol/negotiation/login_test_util.h"
#include "testing/fuzz/check.h"
#include "testing/fuzz/pdu_stream.h"

// A stream of Login Responses from a target that may be anybody. The first byte
// chooses what the initiator wants.

namespace skiff::protocol {
namespace {

void Run(uint8_t settings, absl::Span<const uint8_t> input) {
  InitiatorLoginOptions options = DefaultOptions();
  if ((settings & 1) != 0) {
    UseAuth({"Fake", "None"}, "secret", (settings & 2) != 0, &options);
  }
  if ((settings & 4) != 0) {
    options.identity.session_type = SessionType::kDiscovery;
  }
  InitiatorLogin login(options);
  InitiatorLogin::Request request = login.Start();
  absl::Span<const uint8_t> bhs;
  absl::Span<const uint8_t> data;
  while (login.state() == InitiatorLogin::State::kInProgress &&
         testing::TakePdu(&input, &bhs, &data)) {
    LoginResponsePdu response;
    if (!Decode(bhs.data(), &response).ok()) return;
    const auto state = login.OnResponse(response, data, &request);
    SKIFF_FUZZ_CHECK((state == InitiatorLogin::State::kFailed) ==
                     !login.failure().ok());
    SKIFF_FUZZ_CHECK((state == InitiatorLogin::State::kRedirected) ==
                     !login.redirect_address().empty());
    SKIFF_FUZZ_CHECK(request.data.size() <= 8192);
    SKIFF_FUZZ_CHECK(!request.pdu.transit || !request.pdu.continue_);
    SKIFF_FUZZ_CHECK(login.failure().message().size() < 1000);
  }
}

}  // namespace
}  // namespace skiff::protocol

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  skiff::protocol::Run(data[0], absl::MakeConstSpan(data + 1, size - 1));
  return 0;
}
