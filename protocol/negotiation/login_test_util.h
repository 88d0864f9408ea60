#ifndef SKIFF_PROTOCOL_NEGOTIATION_LOGIN_TEST_UTIL_H_
#define SKIFF_PROTOCOL_NEGOTIATION_LOGIN_TEST_UTIL_H_

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "protocol/negotiation/auth.h"
#include "protocol/negotiation/initiator_login.h"
#include "protocol/negotiation/target_login.h"

namespace skiff::protocol {

inline constexpr char kInitiator[] = "iqn.2001-04.com.example:host";
inline constexpr char kTarget[] = "iqn.2001-04.com.example:disk";
inline constexpr uint16_t kTsih = 0x1234;

// Key sets as one string, "|" for the null.
inline std::string Text(absl::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c == '|') c = '\0';
  }
  return out;
}
inline std::string Shown(absl::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c == '\0') c = '|';
  }
  return out;
}
inline absl::Span<const uint8_t> Bytes(absl::string_view text) {
  return absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(text.data()),
                             text.size());
}

// A two-step exchange: the initiator names a question, the target asks for the
// answer, the initiator answers; with `mutual` the target then proves itself.
class FakeAuth : public AuthExchange {
 public:
  enum class Side { kInitiator, kTarget };
  FakeAuth(Side side, std::string secret, bool mutual)
      : side_(side), secret_(std::move(secret)), mutual_(mutual) {}

  Progress Step(absl::Span<const KeyValue> in, std::vector<KeyValue>* out,
                LoginStatus* status, std::string* reason) override {
    ++step_;
    if (side_ == Side::kInitiator) return InitiatorStep(in, out, reason);
    return TargetStep(in, out, status, reason);
  }
  std::string peer_name() const override { return "fake"; }

 private:
  static std::string Find(absl::Span<const KeyValue> keys,
                          absl::string_view name) {
    for (const KeyValue& key : keys) {
      if (key.first == name) return key.second;
    }
    return "";
  }

  Progress InitiatorStep(absl::Span<const KeyValue> in,
                         std::vector<KeyValue>* out, std::string* reason) {
    if (step_ == 1) {
      out->emplace_back("Fake_A", "5");
      return Progress::kContinue;
    }
    if (step_ == 2) {
      out->emplace_back("Fake_R", absl::StrCat(Find(in, "Fake_C"), secret_));
      if (mutual_) out->emplace_back("Fake_C", "i");
      return mutual_ ? Progress::kContinue : Progress::kDone;
    }
    if (Find(in, "Fake_R") == absl::StrCat("i", secret_)) {
      return Progress::kDone;
    }
    *reason = "the target's answer is wrong";
    return Progress::kFailed;
  }

  Progress TargetStep(absl::Span<const KeyValue> in, std::vector<KeyValue>* out,
                      LoginStatus* status, std::string* reason) {
    if (step_ == 1) {
      out->emplace_back("Fake_C", "t");
      return Progress::kContinue;
    }
    if (Find(in, "Fake_R") != absl::StrCat("t", secret_)) {
      *status = LoginStatus::kAuthenticationFailure;
      *reason = "the initiator's answer is wrong";
      return Progress::kFailed;
    }
    const std::string challenge = Find(in, "Fake_C");
    if (!challenge.empty()) {
      out->emplace_back("Fake_R", absl::StrCat(challenge, secret_));
    }
    return Progress::kDone;
  }

  const Side side_;
  const std::string secret_;
  const bool mutual_;
  int step_ = 0;
};

class FakePolicy : public TargetLoginPolicy {
 public:
  LoginStatus Admit(const LoginRequestPdu& first, LoginIdentity* identity,
                    Offer* offer, std::string* target_address) override {
    ++admissions;
    first_request = first;
    identity->target_alias = alias;
    identity->target_portal_group_tag = portal_group_tag;
    *offer = this->offer;
    *target_address = address;
    return admit;
  }
  std::vector<std::string> AuthMethods(const LoginIdentity&) override {
    return auth_methods;
  }
  std::unique_ptr<AuthExchange> StartAuth(const LoginIdentity&,
                                          absl::string_view) override {
    if (!can_start_auth) return nullptr;
    return std::make_unique<FakeAuth>(FakeAuth::Side::kTarget, secret, false);
  }
  LoginStatus Establish(const LoginRequestPdu&, const LoginIdentity& identity,
                        const Parameters& parameters, uint16_t* tsih) override {
    ++establishments;
    established_identity = identity;
    established = parameters;
    *tsih = this->tsih;
    return establish;
  }

  Offer offer;
  LoginStatus admit = LoginStatus::kSuccess;
  LoginStatus establish = LoginStatus::kSuccess;
  std::string address;
  std::string alias;
  std::optional<uint16_t> portal_group_tag = 7;
  std::vector<std::string> auth_methods = {"None"};
  bool can_start_auth = true;
  std::string secret = "secret";
  uint16_t tsih = kTsih;

  int admissions = 0;
  int establishments = 0;
  LoginRequestPdu first_request;
  LoginIdentity established_identity;
  Parameters established;
};

inline InitiatorLoginOptions DefaultOptions() {
  InitiatorLoginOptions options;
  options.identity.initiator_name = kInitiator;
  options.identity.target_name = kTarget;
  options.isid = {0x80, 1, 2, 3, 4, 5};
  options.cid = 9;
  return options;
}

// Offers `methods`; "Fake" is carried out with `secret`.
inline void UseAuth(std::vector<std::string> methods, std::string secret,
                    bool mutual, InitiatorLoginOptions* options) {
  options->auth_methods = std::move(methods);
  options->start_auth = [secret = std::move(secret),
                         mutual](const std::string&) {
    return std::make_unique<FakeAuth>(FakeAuth::Side::kInitiator, secret,
                                      mutual);
  };
}

// Both machines back to back, through the codec.
class Login {
 public:
  Login(FakePolicy* policy, InitiatorLoginOptions options,
        const TargetLogin::Limits& limits = TargetLogin::Limits())
      : initiator(std::move(options)), target(policy, limits) {}

  // Runs to the end, or to `max_exchanges`.
  void Run(int max_exchanges = 100) {
    InitiatorLogin::Request request = initiator.Start();
    while (exchanges < max_exchanges) {
      ++exchanges;
      request.pdu.initiator_task_tag = 77;
      longest = std::max({longest, request.data.size()});
      Bhs bhs;
      Encode(request.pdu, bhs.data());
      LoginRequestPdu received;
      if (!Decode(bhs.data(), &received).ok()) return;
      TargetLogin::Reply reply =
          *target.OnRequest(received, Bytes(request.data));
      longest = std::max({longest, reply.data.size()});
      Encode(reply.pdu, bhs.data());
      LoginResponsePdu response;
      if (!Decode(bhs.data(), &response).ok()) return;
      const auto state =
          initiator.OnResponse(response, Bytes(reply.data), &request);
      if (state != InitiatorLogin::State::kInProgress) return;
    }
  }

  bool Succeeded() const {
    return initiator.state() == InitiatorLogin::State::kFullFeature &&
           target.state() == TargetLogin::State::kFullFeature;
  }

  InitiatorLogin initiator;
  TargetLogin target;
  int exchanges = 0;
  size_t longest = 0;  // Data segment.
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_NEGOTIATION_LOGIN_TEST_UTIL_H_
