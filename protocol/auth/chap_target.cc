#include <algorithm>
#include <cassert>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "protocol/auth/chap.h"
#include "protocol/auth/chap_keys.h"
#include "protocol/codec/text.h"
#include "protocol/codec/text_value.h"

namespace skiff::protocol {
namespace {

class ChapTarget final : public AuthExchange {
 public:
  explicit ChapTarget(ChapTargetOptions options)
      : options_(std::move(options)) {}

  void SetReady(const std::function<void()>& ready) override {
    lookup_->ready = ready;
  }
  Progress Step(absl::Span<const KeyValue> in, std::vector<KeyValue>* out,
                LoginStatus* status, std::string* reason) override;
  std::string peer_name() const override { return initiator_.name; }

 private:
  enum class Phase : uint8_t { kChoose, kRespond, kLookUp, kDone };
  // What the answer finds, however late it comes.
  struct Lookup {
    bool asking = false;  // Within find().
    absl::optional<absl::StatusOr<ChapAccount>> answer;
    std::function<void()> ready;
  };
  // What ends the login, or nothing.
  struct Outcome {
    LoginStatus status = LoginStatus::kSuccess;
    std::string reason;
  };
  static Outcome Fail(absl::string_view reason,
                      LoginStatus status = LoginStatus::kInitiatorError) {
    return {status, std::string(reason)};
  }
  static Outcome Refuse(absl::string_view reason) {
    return Fail(reason, LoginStatus::kAuthenticationFailure);
  }

  Outcome Take(absl::Span<const KeyValue> in, std::vector<KeyValue>* out);
  Outcome Choose(const ChapKeys& keys, std::vector<KeyValue>* out);
  Outcome TakeResponse(ChapKeys keys);
  void Find();
  Outcome Judge(std::vector<KeyValue>* out);
  Outcome Verify(const ChapAccount* account) const;
  Outcome AuthenticateSelf(const ChapAccount& account,
                           std::vector<KeyValue>* out) const;

  const ChapTargetOptions options_;
  Phase phase_ = Phase::kChoose;
  ChapAlgorithm algorithm_ = ChapAlgorithm::kMd5;
  ChapChallenge challenge_;
  ChapKeys initiator_;  // Its response, and perhaps a challenge.
  const std::shared_ptr<Lookup> lookup_ = std::make_shared<Lookup>();
};

AuthExchange::Progress ChapTarget::Step(absl::Span<const KeyValue> in,
                                        std::vector<KeyValue>* out,
                                        LoginStatus* status,
                                        std::string* reason) {
  Outcome outcome = Take(in, out);
  if (outcome.status == LoginStatus::kSuccess && phase_ == Phase::kLookUp) {
    if (!lookup_->answer.has_value()) return Progress::kWaiting;
    outcome = Judge(out);
  }
  if (outcome.status != LoginStatus::kSuccess) {
    *status = outcome.status;
    *reason = std::move(outcome.reason);
    return Progress::kFailed;
  }
  return phase_ == Phase::kDone ? Progress::kDone : Progress::kContinue;
}

ChapTarget::Outcome ChapTarget::Take(absl::Span<const KeyValue> in,
                                     std::vector<KeyValue>* out) {
  static constexpr unsigned kChallenge = ChapKeys::kI | ChapKeys::kC;
  static constexpr unsigned kResponse = ChapKeys::kN | ChapKeys::kR;
  static constexpr unsigned kAllowed[] = {ChapKeys::kA, kResponse | kChallenge,
                                          0, 0};
  ChapKeys keys;
  const absl::Status taken =
      keys.Take(in, kAllowed[static_cast<size_t>(phase_)], out);
  if (!taken.ok()) return Fail(taken.message());
  switch (phase_) {
    case Phase::kChoose:
      if (!keys.Has(ChapKeys::kA)) return Fail("CHAP_A is missing");
      return Choose(keys, out);
    case Phase::kRespond:
      if (!keys.Has(kResponse)) return Fail("CHAP_N or CHAP_R is missing");
      if ((keys.present & kChallenge) != 0 && !keys.Has(kChallenge)) {
        return Fail("of CHAP_I and CHAP_C only one is there");
      }
      return TakeResponse(std::move(keys));
    case Phase::kLookUp:
    case Phase::kDone:
      break;
  }
  return Outcome();
}

ChapTarget::Outcome ChapTarget::Choose(const ChapKeys& keys,
                                       std::vector<KeyValue>* out) {
  const auto chosen = std::find_if(
      options_.algorithms.begin(), options_.algorithms.end(),
      [&keys](ChapAlgorithm one) {
        return std::find(keys.algorithms.begin(), keys.algorithms.end(),
                         static_cast<uint64_t>(one)) != keys.algorithms.end();
      });
  if (chosen == options_.algorithms.end()) {
    const auto name = [](std::string* text, ChapAlgorithm one) {
      absl::StrAppend(text, ChapAlgorithmName(one));
    };
    return Refuse(absl::StrCat("the initiator offers the algorithms ",
                               absl::StrJoin(keys.algorithms, ","),
                               ", and none of those allowed: ",
                               absl::StrJoin(options_.algorithms, ", ", name)));
  }
  algorithm_ = *chosen;
  absl::StatusOr<ChapChallenge> challenge = ChapChallenge::New(algorithm_);
  if (!challenge.ok()) {
    return Fail(challenge.status().message(), LoginStatus::kTargetError);
  }
  challenge_ = *std::move(challenge);
  out->emplace_back("CHAP_A", absl::StrCat(static_cast<int>(algorithm_)));
  challenge_.AppendTo(out);
  phase_ = Phase::kRespond;
  return Outcome();
}

ChapTarget::Outcome ChapTarget::TakeResponse(ChapKeys keys) {
  // Section 9.2.1: "Responders MUST check for this condition and close".
  if (keys.challenge == challenge_.bytes) {
    return Refuse("the initiator sends the target's own challenge back");
  }
  initiator_ = std::move(keys);
  phase_ = Phase::kLookUp;
  Find();
  return Outcome();
}

// An answer within the call is looked at by the step that it belongs to; a
// later one makes a step of its own.
void ChapTarget::Find() {
  lookup_->asking = true;
  options_.find(initiator_.name, [weak = std::weak_ptr<Lookup>(lookup_)](
                                     absl::StatusOr<ChapAccount> answer) {
    const std::shared_ptr<Lookup> lookup = weak.lock();
    if (lookup == nullptr || lookup->answer.has_value()) return;
    lookup->answer = std::move(answer);
    if (!lookup->asking && lookup->ready) lookup->ready();
  });
  lookup_->asking = false;
}

ChapTarget::Outcome ChapTarget::Judge(std::vector<KeyValue>* out) {
  const absl::StatusOr<ChapAccount> answer = *std::move(lookup_->answer);
  phase_ = Phase::kDone;
  if (!answer.ok() && !absl::IsNotFound(answer.status())) {
    return Fail(absl::StrCat("who may log in could not be found out: ",
                             answer.status().message()),
                LoginStatus::kServiceUnavailable);
  }
  Outcome outcome = Verify(answer.ok() ? &*answer : nullptr);
  if (outcome.status != LoginStatus::kSuccess ||
      !initiator_.Has(ChapKeys::kC)) {
    return outcome;
  }
  return AuthenticateSelf(*answer, out);
}

// Who is not known is calculated for like everybody else, so that neither the
// answer nor its time tells which names there are.
ChapTarget::Outcome ChapTarget::Verify(const ChapAccount* account) const {
  ChapSecret nobodys(EncodeHex(challenge_.bytes));
  const ChapSecret& secret = account != nullptr ? account->secret : nobodys;
  const ChapSecret& own = account != nullptr && account->target.has_value()
                              ? account->target->secret
                              : nobodys;
  const absl::StatusOr<std::vector<uint8_t>> right = ChapResponse(
      algorithm_, challenge_.identifier, secret.bytes(), challenge_.bytes);
  const absl::StatusOr<std::vector<uint8_t>> reflected = ChapResponse(
      algorithm_, challenge_.identifier, own.bytes(), challenge_.bytes);
  if (!right.ok() || !reflected.ok()) {
    return Fail(right.status().message(), LoginStatus::kTargetError);
  }
  const bool matches = EqualInConstantTime(initiator_.response, *right);
  const bool same = EqualInConstantTime(initiator_.response, *reflected);
  if (account == nullptr) {
    return Refuse(absl::StrCat("nobody is called ", Quoted(initiator_.name)));
  }
  // Section 9.2.1: a response that this side would have given itself.
  if (same) {
    return Refuse(absl::StrCat(Quoted(initiator_.name),
                               " answers with the target's own secret"));
  }
  if (!matches) {
    return Refuse(
        absl::StrCat(Quoted(initiator_.name), " does not know its secret"));
  }
  const absl::Status strong = CheckChapSecret(secret);
  if (!strong.ok()) return Refuse(strong.message());
  return Outcome();
}

ChapTarget::Outcome ChapTarget::AuthenticateSelf(
    const ChapAccount& account, std::vector<KeyValue>* out) const {
  if (!account.target.has_value()) {
    return Refuse(absl::StrCat(Quoted(initiator_.name),
                               " wants the target to authenticate itself, "
                               "and no secret is configured for that"));
  }
  const absl::Status valid = CheckChapCredential(*account.target);
  if (!valid.ok()) return Refuse(valid.message());
  const absl::StatusOr<std::vector<uint8_t>> response =
      ChapResponse(algorithm_, initiator_.identifier,
                   account.target->secret.bytes(), initiator_.challenge);
  if (!response.ok()) {
    return Fail(response.status().message(), LoginStatus::kTargetError);
  }
  out->emplace_back("CHAP_N", account.target->name);
  out->emplace_back("CHAP_R", EncodeHex(*response));
  return Outcome();
}

}  // namespace

std::unique_ptr<AuthExchange> StartChapTarget(ChapTargetOptions options) {
  assert(options.find && !options.algorithms.empty());
  return std::make_unique<ChapTarget>(std::move(options));
}

}  // namespace skiff::protocol
