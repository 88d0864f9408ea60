#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "protocol/auth/chap.h"
#include "protocol/auth/chap_keys.h"
#include "protocol/codec/text.h"
#include "protocol/codec/text_value.h"

namespace skiff::protocol {
namespace {

class ChapInitiator final : public AuthExchange {
 public:
  explicit ChapInitiator(ChapInitiatorOptions options)
      : options_(std::move(options)) {}

  Progress Step(absl::Span<const KeyValue> in, std::vector<KeyValue>* out,
                LoginStatus* /*status*/, std::string* reason) override {
    const absl::Status status = Take(in, out);
    if (status.ok()) {
      return phase_ == Phase::kDone ? Progress::kDone : Progress::kContinue;
    }
    *reason = std::string(status.message());
    return Progress::kFailed;
  }

  // The last request has the T bit, as in appendix B of RFC 7143: LIO refuses
  // one without keys that would end the stage afterwards.
  bool may_end() const override { return phase_ == Phase::kVerify; }
  // The target's, where it had to.
  std::string peer_name() const override { return peer_name_; }

 private:
  enum class Phase : uint8_t { kPropose, kRespond, kVerify, kDone };

  absl::Status Take(absl::Span<const KeyValue> in, std::vector<KeyValue>* out);
  absl::Status Respond(const ChapKeys& keys, std::vector<KeyValue>* out);
  absl::Status Verify(const ChapKeys& keys);

  const ChapInitiatorOptions options_;
  Phase phase_ = Phase::kPropose;
  ChapAlgorithm algorithm_ = ChapAlgorithm::kMd5;
  ChapChallenge challenge_;  // For the target.
  std::string peer_name_;
};

absl::Status ChapInitiator::Take(absl::Span<const KeyValue> in,
                                 std::vector<KeyValue>* out) {
  static constexpr unsigned kAllowed[] = {
      0, ChapKeys::kA | ChapKeys::kI | ChapKeys::kC,
      ChapKeys::kN | ChapKeys::kR, 0};
  const unsigned wanted = kAllowed[static_cast<size_t>(phase_)];
  ChapKeys keys;
  absl::Status taken = keys.Take(in, wanted, out);
  if (!taken.ok()) return taken;
  switch (phase_) {
    case Phase::kPropose:
      out->emplace_back("CHAP_A",
                        absl::StrJoin(options_.algorithms, ",",
                                      [](std::string* text, ChapAlgorithm one) {
                                        absl::StrAppend(text,
                                                        static_cast<int>(one));
                                      }));
      phase_ = Phase::kRespond;
      return absl::OkStatus();
    case Phase::kRespond:
      if (!keys.Has(wanted)) {
        return absl::InvalidArgumentError(
            "the target does not send CHAP_A, CHAP_I and CHAP_C together");
      }
      return Respond(keys, out);
    case Phase::kVerify:
      if (!keys.Has(wanted)) {
        return absl::UnauthenticatedError(
            "the target does not authenticate itself, which was asked for: "
            "configure mutual CHAP there, or do not ask for it here");
      }
      phase_ = Phase::kDone;
      return Verify(keys);
    case Phase::kDone:
      break;
  }
  return absl::OkStatus();
}

absl::Status ChapInitiator::Respond(const ChapKeys& keys,
                                    std::vector<KeyValue>* out) {
  const auto chosen = std::find_if(
      options_.algorithms.begin(), options_.algorithms.end(),
      [&keys](ChapAlgorithm one) {
        return keys.algorithms.size() == 1 &&
               static_cast<uint64_t>(one) == keys.algorithms.front();
      });
  if (chosen == options_.algorithms.end()) {
    return absl::InvalidArgumentError(
        "the target chooses an algorithm (CHAP_A) that was not offered");
  }
  algorithm_ = *chosen;
  const absl::StatusOr<std::vector<uint8_t>> response =
      ChapResponse(algorithm_, keys.identifier, options_.self.secret.bytes(),
                   keys.challenge);
  if (!response.ok()) return response.status();
  out->emplace_back("CHAP_N", options_.self.name);
  out->emplace_back("CHAP_R", EncodeHex(*response));
  if (!options_.target.has_value()) {
    phase_ = Phase::kDone;
    return absl::OkStatus();
  }
  absl::StatusOr<ChapChallenge> challenge = ChapChallenge::New(algorithm_);
  if (!challenge.ok()) return challenge.status();
  challenge_ = *std::move(challenge);
  // Section 9.2.1: "Originators MUST NOT reuse the CHAP challenge sent by the
  // responder". Of random ones this never happens.
  if (challenge_.bytes == keys.challenge) {
    return absl::InternalError("two challenges are the same");
  }
  challenge_.AppendTo(out);
  phase_ = Phase::kVerify;
  return absl::OkStatus();
}

absl::Status ChapInitiator::Verify(const ChapKeys& keys) {
  const ChapCredential& target = *options_.target;
  const absl::StatusOr<std::vector<uint8_t>> right =
      ChapResponse(algorithm_, challenge_.identifier, target.secret.bytes(),
                   challenge_.bytes);
  const absl::StatusOr<std::vector<uint8_t>> ours =
      ChapResponse(algorithm_, challenge_.identifier,
                   options_.self.secret.bytes(), challenge_.bytes);
  if (!right.ok()) return right.status();
  if (!ours.ok()) return ours.status();
  // Section 9.2.1: whoever answers as we would has only our own secret.
  if (EqualInConstantTime(keys.response, *ours)) {
    return absl::UnauthenticatedError(
        "the target answers with the initiator's own secret: each direction "
        "needs one of its own");
  }
  if (!EqualInConstantTime(keys.response, *right)) {
    return absl::UnauthenticatedError(
        "the target does not know the secret that it has to authenticate "
        "itself with");
  }
  if (!target.name.empty() && target.name != keys.name) {
    return absl::UnauthenticatedError(
        absl::StrCat("the target calls itself ", Quoted(keys.name), " and not ",
                     Quoted(target.name)));
  }
  peer_name_ = keys.name;
  return absl::OkStatus();
}

absl::Status CheckTarget(const ChapInitiatorOptions& options) {
  const ChapCredential& target = *options.target;
  if (!target.name.empty()) {
    absl::Status name = CheckChapName(target.name);
    if (!name.ok()) return name;
  }
  const absl::Status secret = CheckChapSecret(target.secret);
  return secret.ok() ? CheckChapPair(options.self.secret, target.secret)
                     : secret;
}

}  // namespace

absl::Status Validate(const ChapInitiatorOptions& options) {
  absl::Status self = CheckChapCredential(options.self);
  if (!self.ok()) return self;
  if (options.algorithms.empty()) {
    return absl::InvalidArgumentError("no algorithm of CHAP is allowed");
  }
  return options.target.has_value() ? CheckTarget(options) : absl::OkStatus();
}

std::unique_ptr<AuthExchange> StartChapInitiator(ChapInitiatorOptions options) {
  return std::make_unique<ChapInitiator>(std::move(options));
}

}  // namespace skiff::protocol
