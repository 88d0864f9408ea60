#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "protocol/auth/chap.h"
#include "protocol/codec/pdu.h"
#include "protocol/negotiation/login_test_util.h"
#include "protocol/negotiation/target_login.h"
#include "testing/fuzz/check.h"
#include "testing/fuzz/pdu_stream.h"

// A stream of Login Requests from anybody, before authentication. The first
// byte chooses what the target wants: nothing, a made-up method, or CHAP, whose
// accounts are known at once or later.

namespace skiff::protocol {
namespace {

class Policy final : public FakePolicy {
 public:
  std::unique_ptr<AuthExchange> StartAuth(const LoginIdentity& identity,
                                          absl::string_view method) override {
    if (method != kChapMethod) return FakePolicy::StartAuth(identity, method);
    ChapTargetOptions options;
    options.find = [this](const std::string& name,
                          ChapTargetOptions::Answer answer) {
      SKIFF_FUZZ_CHECK(!name.empty() && name.size() <= 255);
      if (later) {
        pending = std::move(answer);
      } else {
        answer(Account());
      }
    };
    return StartChapTarget(std::move(options));
  }
  static ChapAccount Account() {
    ChapAccount account;
    account.secret = ChapSecret("a secret of 20 bytes");
    account.target =
        ChapCredential{"target", ChapSecret("another one of them")};
    return account;
  }

  bool later = false;
  ChapTargetOptions::Answer pending;
};

void CheckReply(const TargetLogin& login, const LoginRequestPdu& request,
                const TargetLogin::Reply& reply) {
  const bool failed = login.state() == TargetLogin::State::kFailed;
  SKIFF_FUZZ_CHECK(reply.data.size() <= 8192);
  SKIFF_FUZZ_CHECK(failed == (reply.pdu.status_class != 0));
  SKIFF_FUZZ_CHECK(failed == !login.failure().empty());
  SKIFF_FUZZ_CHECK(!reply.pdu.transit || request.transit);
  SKIFF_FUZZ_CHECK(!reply.pdu.transit || !reply.pdu.continue_);
  SKIFF_FUZZ_CHECK(reply.pdu.initiator_task_tag == request.initiator_task_tag);
  Bhs bhs;
  Encode(reply.pdu, bhs.data());
  LoginResponsePdu decoded;
  SKIFF_FUZZ_CHECK(Decode(bhs.data(), &decoded).ok());
}

void Run(uint8_t settings, absl::Span<const uint8_t> input) {
  Policy policy;
  if ((settings & 1) != 0) policy.auth_methods = {"Fake"};
  if ((settings & 2) != 0) policy.offer.immediate_data = false;
  if ((settings & 4) != 0) policy.alias = "Disk";
  if ((settings & 8) != 0) policy.auth_methods = {"CHAP"};
  policy.later = (settings & 16) != 0;
  TargetLogin login(&policy, TargetLogin::Limits());
  absl::Span<const uint8_t> bhs;
  absl::Span<const uint8_t> data;
  while (login.state() == TargetLogin::State::kInProgress &&
         testing::TakePdu(&input, &bhs, &data)) {
    LoginRequestPdu request;
    if (!Decode(bhs.data(), &request).ok()) return;
    absl::optional<TargetLogin::Reply> reply = login.OnRequest(request, data);
    if (!reply.has_value()) {
      SKIFF_FUZZ_CHECK(login.waiting() && policy.pending != nullptr);
      policy.pending(absl::NotFoundError("nobody"));
      reply = login.Resume();
    }
    SKIFF_FUZZ_CHECK(reply.has_value());
    CheckReply(login, request, *reply);
  }
  const bool done = login.state() == TargetLogin::State::kFullFeature;
  SKIFF_FUZZ_CHECK(done == (policy.establishments == 1));
}

}  // namespace
}  // namespace skiff::protocol

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  skiff::protocol::Run(data[0], absl::MakeConstSpan(data + 1, size - 1));
  return 0;
}
