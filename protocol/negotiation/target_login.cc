#include "protocol/negotiation/target_login.h"

#include <algorithm>
#include <cassert>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "protocol/codec/text.h"
#include "protocol/codec/text_value.h"
#include "protocol/negotiation/login_keys.h"
#include "protocol/negotiation/names.h"
#include "protocol/negotiation/negotiator.h"

namespace skiff::protocol {
namespace {

constexpr uint8_t kRedirection = 1;

uint8_t ClassOf(LoginStatus status) {
  return static_cast<uint8_t>(static_cast<uint16_t>(status) >> 8);
}

// How handling a request went. Anything but success ends the login.
struct Verdict {
  LoginStatus status = LoginStatus::kSuccess;
  std::string reason;

  bool ok() const { return status == LoginStatus::kSuccess; }
};

Verdict Failed(LoginStatus status, std::string reason) {
  return {status, std::move(reason)};
}

// Protocol errors of the initiator (RFC 7143 section 6.3).
Verdict InitiatorFailed(std::string reason) {
  return Failed(LoginStatus::kInitiatorError, std::move(reason));
}

Verdict ToVerdict(const absl::Status& status) {
  return status.ok() ? Verdict()
                     : InitiatorFailed(std::string(status.message()));
}

TargetLogin::Reply ReplyTo(const LoginRequestPdu& request) {
  TargetLogin::Reply reply;
  reply.pdu.version_max = kIscsiVersion;
  reply.pdu.version_active = kIscsiVersion;
  reply.pdu.isid = request.isid;
  reply.pdu.tsih = request.tsih;
  reply.pdu.initiator_task_tag = request.initiator_task_tag;
  return reply;
}

}  // namespace

class TargetLogin::Impl {
 public:
  Impl(TargetLoginPolicy* policy, const Limits& limits)
      : policy_(policy),
        limits_(limits),
        collector_(limits.max_key_set_bytes) {}

  absl::optional<Reply> OnRequest(const LoginRequestPdu& request,
                                  absl::Span<const uint8_t> data);
  absl::optional<Reply> Resume();

  void Complete(const LoginIdentity& identity, const Parameters& parameters,
                uint16_t tsih) {
    identity_ = identity;
    defaults_ = parameters;
    tsih_ = tsih;
    state_ = State::kFullFeature;
  }

  State state() const { return state_; }
  bool waiting() const { return waiting_; }
  const LoginIdentity& identity() const { return identity_; }
  const Parameters& parameters() const {
    return negotiator_ != nullptr ? negotiator_->parameters() : defaults_;
  }
  uint16_t tsih() const { return tsih_; }
  const std::string& failure() const { return failure_; }

 private:
  Verdict Handle(const LoginRequestPdu& request, absl::Span<const uint8_t> data,
                 Reply* reply);
  Verdict CheckFirst(const LoginRequestPdu& request);
  Verdict CheckConstant(const LoginRequestPdu& request) const;
  Verdict CheckStages(const LoginRequestPdu& request) const;

  Verdict OnKeySet(absl::string_view text, std::vector<KeyValue>* out);
  Verdict OnIdentityKey(const TextPair& pair);
  Verdict OnSessionType(absl::string_view value);
  Verdict OnInitiatorName(absl::string_view value);
  Verdict OnTargetName(absl::string_view value);
  Verdict Admit(std::vector<KeyValue>* out);
  Verdict OnSecurityKeys(const SortedKeys& keys, std::vector<KeyValue>* out);
  Verdict OnAuthMethod(absl::string_view value, std::vector<KeyValue>* out);
  Verdict StepExchange(absl::Span<const TextPair> keys,
                       std::vector<KeyValue>* out);
  absl::optional<Reply> Conclude(const LoginRequestPdu& request,
                                 const Verdict& verdict, Reply reply);
  Verdict OnOperationalKeys(const SortedKeys& keys, std::vector<KeyValue>* out);
  bool MayGoWithoutAuthentication() const;

  Verdict SendNext(const LoginRequestPdu& request, Reply* reply);
  Verdict Transit(const LoginRequestPdu& request, Reply* reply);
  Verdict Establish(const LoginRequestPdu& request);
  Reply Reject(const LoginRequestPdu& request, const Verdict& verdict);

  TargetLoginPolicy* const policy_;
  const Limits limits_;
  Parameters defaults_;  // Of a login that is complete: what came out.

  State state_ = State::kInProgress;
  std::string failure_;
  uint32_t requests_ = 0;
  LoginRequestPdu first_;
  LoginStage stage_ = LoginStage::kSecurity;
  TextCollector collector_;
  TextWriter writer_;

  bool admitted_ = false;
  DeclaredOnce declared_;
  LoginIdentity identity_;
  std::string target_address_;
  std::vector<KeyValue> reject_keys_;      // What a rejection tells.
  std::vector<std::string> auth_methods_;  // Allowed, once admitted.
  std::string auth_method_;                // Chosen.
  std::unique_ptr<AuthExchange> exchange_;
  bool authenticated_ = false;
  bool waiting_ = false;    // For what the exchange has asked somebody,
  LoginRequestPdu asking_;  // before this is answered.
  std::unique_ptr<Negotiator> negotiator_;  // Once admitted.
  uint16_t tsih_ = 0;
};

absl::optional<TargetLogin::Reply> TargetLogin::Impl::OnRequest(
    const LoginRequestPdu& request, absl::Span<const uint8_t> data) {
  assert(state_ == State::kInProgress && !waiting_);
  Reply reply = ReplyTo(request);
  reply.pdu.csg = request.csg;
  const Verdict verdict = Handle(request, data, &reply);
  return Conclude(request, verdict, std::move(reply));
}

absl::optional<TargetLogin::Reply> TargetLogin::Impl::Resume() {
  assert(state_ == State::kInProgress && waiting_);
  waiting_ = false;
  Reply reply = ReplyTo(asking_);
  reply.pdu.csg = asking_.csg;
  std::vector<KeyValue> out;
  Verdict verdict = StepExchange({}, &out);
  for (const KeyValue& key : out) writer_.Add(key.first, key.second);
  if (verdict.ok() && !waiting_) verdict = SendNext(asking_, &reply);
  return Conclude(asking_, verdict, std::move(reply));
}

absl::optional<TargetLogin::Reply> TargetLogin::Impl::Conclude(
    const LoginRequestPdu& request, const Verdict& verdict, Reply reply) {
  if (!verdict.ok()) return Reject(request, verdict);
  if (!waiting_) return reply;
  asking_ = request;
  return absl::nullopt;
}

Verdict TargetLogin::Impl::Handle(const LoginRequestPdu& request,
                                  absl::Span<const uint8_t> data,
                                  Reply* reply) {
  if (++requests_ > limits_.max_requests) {
    return InitiatorFailed(absl::StrCat("the login is not finished after ",
                                        limits_.max_requests,
                                        " requests, which is the limit"));
  }
  Verdict verdict =
      requests_ == 1 ? CheckFirst(request) : CheckConstant(request);
  if (!verdict.ok()) return verdict;
  verdict = CheckStages(request);
  if (!verdict.ok()) return verdict;

  // The initiator answers a continued response with an empty request (section
  // 6.2).
  if (!writer_.empty()) {
    if (!data.empty() || request.continue_) {
      return InitiatorFailed(
          "a request with data where the response is to be continued");
    }
    return SendNext(request, reply);
  }
  const absl::Status added = collector_.Add(data, request.continue_);
  if (!added.ok()) return ToVerdict(added);
  if (request.continue_) return Verdict();

  std::vector<KeyValue> out;
  verdict = OnKeySet(collector_.text(), &out);
  for (const KeyValue& key : out) writer_.Add(key.first, key.second);
  if (!verdict.ok() || waiting_) return verdict;
  return SendNext(request, reply);
}

Verdict TargetLogin::Impl::CheckFirst(const LoginRequestPdu& request) {
  if (request.version_min > kIscsiVersion) {
    return Failed(LoginStatus::kUnsupportedVersion,
                  absl::StrCat("the initiator's lowest iSCSI version is ",
                               request.version_min));
  }
  first_ = request;
  stage_ = request.csg;
  if (stage_ == LoginStage::kFullFeature) {
    return InitiatorFailed("a login that starts in the full feature phase");
  }
  return Verdict();
}

// "All Login Requests within a Login Phase MUST carry the same ..." (sections
// 11.12 and 11.12.4 to 11.12.7).
Verdict TargetLogin::Impl::CheckConstant(const LoginRequestPdu& request) const {
  const char* changed = nullptr;
  if (request.initiator_task_tag != first_.initiator_task_tag) {
    changed = "Initiator Task Tag";
  } else if (request.isid != first_.isid) {
    changed = "ISID";
  } else if (request.tsih != first_.tsih) {
    changed = "TSIH";
  } else if (request.cid != first_.cid) {
    changed = "CID";
  } else if (request.version_max != first_.version_max ||
             request.version_min != first_.version_min) {
    changed = "version";
  }
  if (changed == nullptr) return Verdict();
  return InitiatorFailed(
      absl::StrCat("the ", changed, " changed in the login"));
}

Verdict TargetLogin::Impl::CheckStages(const LoginRequestPdu& request) const {
  if (request.csg != stage_) {
    return InitiatorFailed(
        absl::StrCat("a request of stage ", static_cast<int>(request.csg),
                     " in stage ", static_cast<int>(stage_)));
  }
  if (!request.transit) return Verdict();
  if (request.continue_) {
    return InitiatorFailed("a request with both the T and the C bit");
  }
  if (!IsTransition(stage_, request.nsg)) {
    return InitiatorFailed(absl::StrCat(
        "a transition from stage ", static_cast<int>(stage_), " to stage ",
        static_cast<int>(request.nsg), ", which does not exist"));
  }
  return Verdict();
}

Verdict TargetLogin::Impl::OnKeySet(absl::string_view text,
                                    std::vector<KeyValue>* out) {
  std::vector<TextPair> pairs;
  const absl::Status parsed = ParseText(text, &pairs);
  if (!parsed.ok()) return ToVerdict(parsed);
  SortedKeys keys;
  const absl::Status sorted = SortKeys(Role::kInitiator, stage_, pairs, &keys);
  if (!sorted.ok()) return ToVerdict(sorted);
  for (const TextPair& pair : keys.identity) {
    Verdict verdict = OnIdentityKey(pair);
    if (!verdict.ok()) return verdict;
  }
  if (!admitted_) {
    Verdict verdict = Admit(out);
    if (!verdict.ok()) return verdict;
  }
  return stage_ == LoginStage::kSecurity ? OnSecurityKeys(keys, out)
                                         : OnOperationalKeys(keys, out);
}

Verdict TargetLogin::Impl::OnIdentityKey(const TextPair& pair) {
  const absl::StatusOr<bool> is_new = declared_.Add(stage_, pair);
  if (!is_new.ok()) return ToVerdict(is_new.status());
  if (!*is_new) return Verdict();
  if (pair.key == "InitiatorAlias") {
    const absl::Status alias = CheckAlias(pair);
    identity_.initiator_alias = std::string(pair.value);
    return ToVerdict(alias);
  }
  if (pair.key == "SessionType") return OnSessionType(pair.value);
  // Who is who can't change once the policy has judged it.
  if (admitted_) {
    return InitiatorFailed(
        absl::StrCat(pair.key, " belongs into the first request of the login"));
  }
  return pair.key == "InitiatorName" ? OnInitiatorName(pair.value)
                                     : OnTargetName(pair.value);
}

Verdict TargetLogin::Impl::OnSessionType(absl::string_view value) {
  if (value != "Normal" && value != "Discovery") {
    return Failed(LoginStatus::kSessionTypeNotSupported,
                  absl::StrCat("SessionType=", Quoted(value)));
  }
  const SessionType type =
      value == "Discovery" ? SessionType::kDiscovery : SessionType::kNormal;
  if (admitted_ && type != identity_.session_type) {
    return InitiatorFailed("the SessionType comes too late to change it");
  }
  identity_.session_type = type;
  return Verdict();
}

Verdict TargetLogin::Impl::OnInitiatorName(absl::string_view value) {
  absl::StatusOr<std::string> name = NormalizeName(value);
  if (!name.ok()) {
    return InitiatorFailed(
        absl::StrCat("InitiatorName: ", name.status().message()));
  }
  identity_.initiator_name = *std::move(name);
  return Verdict();
}

Verdict TargetLogin::Impl::OnTargetName(absl::string_view value) {
  absl::StatusOr<std::string> name = NormalizeName(value);
  if (!name.ok()) {
    return Failed(LoginStatus::kNotFound,
                  absl::StrCat("TargetName: ", name.status().message()));
  }
  identity_.target_name = *std::move(name);
  return Verdict();
}

// The first key set is complete: who logs in, and may they?
Verdict TargetLogin::Impl::Admit(std::vector<KeyValue>* out) {
  if (identity_.initiator_name.empty()) {
    return Failed(LoginStatus::kMissingParameter,
                  "the first request has no InitiatorName");
  }
  const bool normal = identity_.session_type == SessionType::kNormal;
  if (normal && identity_.target_name.empty()) {
    return Failed(LoginStatus::kMissingParameter,
                  "the first request of a normal session has no TargetName");
  }
  Offer offer;
  const LoginStatus status =
      policy_->Admit(first_, &identity_, &offer, &target_address_);
  if (status != LoginStatus::kSuccess) {
    return Failed(status,
                  absl::StrCat("the login of ", identity_.initiator_name,
                               " is not admitted"));
  }
  const absl::Status valid = Validate(offer, Role::kTarget);
  if (!valid.ok()) {
    return Failed(
        LoginStatus::kTargetError,
        absl::StrCat("the target's own offer is not valid: ", valid.message()));
  }
  admitted_ = true;
  auth_methods_ = policy_->AuthMethods(identity_);
  Negotiator::Options options;
  options.role = Role::kTarget;
  options.session_type = identity_.session_type;
  options.leading = first_.tsih == 0;
  options.max_unknown_keys = limits_.max_unknown_keys;
  negotiator_ = std::make_unique<Negotiator>(options, offer);

  if (stage_ == LoginStage::kOperational && !MayGoWithoutAuthentication()) {
    return Failed(LoginStatus::kAuthenticationFailure,
                  "the initiator skips the security stage, but has to "
                  "authenticate itself");
  }
  // Sections 6.3.1 and 13.9: in the first response that may have it. Without a
  // TargetName there is no target whose portal group it could be.
  if (!identity_.target_name.empty() &&
      identity_.target_portal_group_tag.has_value()) {
    out->emplace_back("TargetPortalGroupTag",
                      absl::StrCat(*identity_.target_portal_group_tag));
  }
  if (normal && !identity_.target_alias.empty()) {
    out->emplace_back("TargetAlias", identity_.target_alias);
  }
  return Verdict();
}

bool TargetLogin::Impl::MayGoWithoutAuthentication() const {
  return std::find(auth_methods_.begin(), auth_methods_.end(), kValueNone) !=
         auth_methods_.end();
}

Verdict TargetLogin::Impl::OnSecurityKeys(const SortedKeys& keys,
                                          std::vector<KeyValue>* out) {
  if (keys.auth_method != nullptr) {
    Verdict verdict = OnAuthMethod(keys.auth_method->value, out);
    if (!verdict.ok()) return verdict;
  }
  if (exchange_ == nullptr || authenticated_) {
    return ToVerdict(negotiator_->OnKeys(kInSecurity, keys.unknown, out));
  }
  return keys.unknown.empty() ? Verdict() : StepExchange(keys.unknown, out);
}

Verdict TargetLogin::Impl::StepExchange(absl::Span<const TextPair> keys,
                                        std::vector<KeyValue>* out) {
  LoginStatus status = LoginStatus::kAuthenticationFailure;
  std::string reason;
  switch (exchange_->Step(CopyKeys(keys), out, &status, &reason)) {
    case AuthExchange::Progress::kContinue:
      return Verdict();
    case AuthExchange::Progress::kDone:
      authenticated_ = true;
      identity_.authenticated_peer = exchange_->peer_name();
      return Verdict();
    case AuthExchange::Progress::kWaiting:
      waiting_ = true;
      return Verdict();
    case AuthExchange::Progress::kFailed:
      break;
  }
  if (status == LoginStatus::kSuccess) {
    status = LoginStatus::kAuthenticationFailure;
  }
  return Failed(status, absl::StrCat(auth_method_, ": ", reason));
}

// Sections 6.2.1 and 6.3.2: the first method of the initiator's list that it is
// allowed to use.
Verdict TargetLogin::Impl::OnAuthMethod(absl::string_view value,
                                        std::vector<KeyValue>* out) {
  if (!auth_method_.empty()) {
    return InitiatorFailed("AuthMethod is sent a second time");
  }
  std::vector<absl::string_view> proposed;
  if (!ParseList(value, &proposed)) {
    return InitiatorFailed(
        absl::StrCat("AuthMethod=", Quoted(value), " is not a list of values"));
  }
  const auto chosen = std::find_if(
      proposed.begin(), proposed.end(), [this](absl::string_view method) {
        return std::find(auth_methods_.begin(), auth_methods_.end(), method) !=
               auth_methods_.end();
      });
  if (chosen == proposed.end()) {
    reject_keys_.emplace_back("AuthMethod", std::string(kValueReject));
    return Failed(
        LoginStatus::kAuthenticationFailure,
        absl::StrCat("the initiator offers AuthMethod=", Quoted(value),
                     ", allowed is ", absl::StrJoin(auth_methods_, ",")));
  }
  auth_method_ = std::string(*chosen);
  out->emplace_back("AuthMethod", auth_method_);
  if (auth_method_ == kValueNone) {
    authenticated_ = true;
    return Verdict();
  }
  exchange_ = policy_->StartAuth(identity_, auth_method_);
  if (exchange_ == nullptr) {
    return Failed(LoginStatus::kTargetError,
                  absl::StrCat("the target can't start AuthMethod=",
                               auth_method_, ", which it allows"));
  }
  exchange_->SetReady([this] { policy_->LoginReady(); });
  return Verdict();
}

Verdict TargetLogin::Impl::OnOperationalKeys(const SortedKeys& keys,
                                             std::vector<KeyValue>* out) {
  negotiator_->Declare(out);
  std::vector<TextPair> pairs = keys.others;
  pairs.insert(pairs.end(), keys.unknown.begin(), keys.unknown.end());
  const absl::Status status = negotiator_->OnKeys(kInOperational, pairs, out);
  if (status.ok()) negotiator_->Declare(out);
  return ToVerdict(status);
}

Verdict TargetLogin::Impl::SendNext(const LoginRequestPdu& request,
                                    Reply* reply) {
  bool more = false;
  reply->data = writer_.Next(kLoginDataSegmentLength, &more);
  reply->pdu.continue_ = more;
  if (more || !request.transit) return Verdict();
  if (stage_ == LoginStage::kSecurity && !authenticated_) {
    // The exchange goes on; the initiator asks again (section 6.3.3).
    if (exchange_ != nullptr) return Verdict();
    if (!MayGoWithoutAuthentication()) {
      return Failed(LoginStatus::kAuthenticationFailure,
                    "the initiator leaves the security stage without an "
                    "AuthMethod, but has to authenticate itself");
    }
  }
  return Transit(request, reply);
}

Verdict TargetLogin::Impl::Transit(const LoginRequestPdu& request,
                                   Reply* reply) {
  if (request.nsg == LoginStage::kFullFeature) {
    Verdict verdict = Establish(request);
    if (!verdict.ok()) return verdict;
    reply->pdu.tsih = tsih_;
    state_ = State::kFullFeature;
  }
  reply->pdu.transit = true;
  reply->pdu.nsg = request.nsg;
  stage_ = request.nsg;
  return Verdict();
}

Verdict TargetLogin::Impl::Establish(const LoginRequestPdu& request) {
  const absl::Status finished = negotiator_->Finish();
  if (!finished.ok()) return ToVerdict(finished);
  const LoginStatus status =
      policy_->Establish(request, identity_, negotiator_->parameters(), &tsih_);
  if (status != LoginStatus::kSuccess) {
    return Failed(status,
                  absl::StrCat("the session of ", identity_.initiator_name,
                               " is not established"));
  }
  if (tsih_ == 0) {
    return Failed(LoginStatus::kTargetError,
                  "the session was established without a TSIH");
  }
  return Verdict();
}

TargetLogin::Reply TargetLogin::Impl::Reject(const LoginRequestPdu& request,
                                             const Verdict& verdict) {
  LoginStatus status = verdict.status;
  failure_ = verdict.reason;
  if (ClassOf(status) == kRedirection) {
    // Section 11.13.5: it has to say where to.
    if (target_address_.empty()) {
      status = LoginStatus::kTargetError;
      absl::StrAppend(&failure_, "; a redirection needs a TargetAddress");
    } else {
      reject_keys_.emplace_back("TargetAddress", target_address_);
    }
  }
  absl::StrAppend(
      &failure_, " [",
      LoginStatusName(ClassOf(status), static_cast<uint8_t>(status)), "]");
  state_ = State::kFailed;

  Reply reply = ReplyTo(request);
  reply.pdu.status_class = ClassOf(status);
  reply.pdu.status_detail = static_cast<uint8_t>(status);
  TextWriter writer;
  for (const KeyValue& key : reject_keys_) writer.Add(key.first, key.second);
  bool more = false;
  reply.data = writer.Next(kLoginDataSegmentLength, &more);
  return reply;
}

TargetLogin::TargetLogin(TargetLoginPolicy* policy, const Limits& limits)
    : impl_(std::make_unique<Impl>(policy, limits)) {}

TargetLogin::~TargetLogin() = default;

std::unique_ptr<TargetLogin> TargetLogin::Completed(
    const LoginIdentity& identity, const Parameters& parameters,
    uint16_t tsih) {
  auto login = std::make_unique<TargetLogin>(nullptr, Limits());
  login->impl_->Complete(identity, parameters, tsih);
  return login;
}

absl::optional<TargetLogin::Reply> TargetLogin::OnRequest(
    const LoginRequestPdu& request, absl::Span<const uint8_t> data) {
  return impl_->OnRequest(request, data);
}

absl::optional<TargetLogin::Reply> TargetLogin::Resume() {
  return impl_->Resume();
}

bool TargetLogin::waiting() const { return impl_->waiting(); }

TargetLogin::State TargetLogin::state() const { return impl_->state(); }

const LoginIdentity& TargetLogin::identity() const { return impl_->identity(); }

const Parameters& TargetLogin::parameters() const {
  return impl_->parameters();
}

uint16_t TargetLogin::tsih() const { return impl_->tsih(); }

const std::string& TargetLogin::failure() const { return impl_->failure(); }

}  // namespace skiff::protocol
