#include "protocol/negotiation/initiator_login.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/optional.h"
#include "protocol/codec/text.h"
#include "protocol/codec/text_value.h"
#include "protocol/negotiation/login_keys.h"
#include "protocol/negotiation/negotiator.h"

namespace skiff::protocol {
namespace {

constexpr uint8_t kRedirection = 1;
constexpr uint8_t kTargetError = 3;

// What a target does against the rules.
absl::Status Violation(absl::string_view what) {
  return absl::FailedPreconditionError(
      absl::StrCat("the target breaks the login protocol: ", what));
}

absl::StatusCode CodeOf(uint8_t status_class, LoginStatus status) {
  if (status_class == kTargetError) return absl::StatusCode::kUnavailable;
  switch (status) {
    case LoginStatus::kAuthenticationFailure:
      return absl::StatusCode::kUnauthenticated;
    case LoginStatus::kAuthorizationFailure:
      return absl::StatusCode::kPermissionDenied;
    case LoginStatus::kNotFound:
    case LoginStatus::kTargetRemoved:
    case LoginStatus::kSessionDoesNotExist:
      return absl::StatusCode::kNotFound;
    case LoginStatus::kTooManyConnections:
      return absl::StatusCode::kResourceExhausted;
    default:
      return absl::StatusCode::kFailedPrecondition;
  }
}

// What to look at when a target says no.
absl::string_view Advice(LoginStatus status) {
  switch (status) {
    case LoginStatus::kAuthenticationFailure:
      return "; check the user name, the secret and whether the target wants "
             "CHAP";
    case LoginStatus::kAuthorizationFailure:
      return "; check that the target admits this initiator name";
    case LoginStatus::kNotFound:
      return "; check the target name, or discover the targets at this address";
    default:
      return "";
  }
}

bool Offers(const std::vector<std::string>& methods, absl::string_view method) {
  return std::find(methods.begin(), methods.end(), method) != methods.end();
}

}  // namespace

class InitiatorLogin::Impl {
 public:
  explicit Impl(InitiatorLoginOptions options);

  Request Start();
  State OnResponse(const LoginResponsePdu& response,
                   absl::Span<const uint8_t> data, Request* next);

  State state() const { return state_; }
  const Parameters& parameters() const { return negotiator_.parameters(); }
  const LoginIdentity& identity() const { return options_.identity; }
  uint16_t tsih() const { return tsih_; }
  const std::string& redirect_address() const { return redirect_address_; }
  const absl::Status& failure() const { return failure_; }

 private:
  static Negotiator::Options NegotiatorOptions(
      const InitiatorLoginOptions& options);

  void AddIdentity();
  void AddProposals();
  bool MayTransit() const;
  bool IsSecure() const;
  Request NextRequest();

  absl::Status Handle(const LoginResponsePdu& response,
                      absl::Span<const uint8_t> data);
  absl::Status CheckHeader(const LoginResponsePdu& response) const;
  absl::Status OnRejection(const LoginResponsePdu& response,
                           absl::Span<const uint8_t> data);
  absl::Status OnKeySet(absl::string_view text, std::vector<KeyValue>* out);
  absl::Status OnIdentityKey(const TextPair& pair);
  absl::Status OnSecurityKeys(const SortedKeys& keys,
                              std::vector<KeyValue>* out);
  absl::Status OnAuthMethod(absl::string_view value);
  absl::Status StepExchange(absl::Span<const TextPair> pairs,
                            std::vector<KeyValue>* out);
  absl::Status Enter(const LoginResponsePdu& response,
                     const std::vector<KeyValue>& unsent);
  absl::Status Finish(const LoginResponsePdu& response);

  InitiatorLoginOptions options_;
  Negotiator negotiator_;
  TextCollector collector_;
  TextWriter writer_;

  State state_ = State::kInProgress;
  absl::Status failure_;
  std::string redirect_address_;
  LoginStage stage_ = LoginStage::kSecurity;
  LoginRequestPdu last_;
  uint32_t exchanges_ = 0;

  DeclaredOnce declared_;
  std::string auth_method_;  // What the target chose.
  std::unique_ptr<AuthExchange> exchange_;
  bool authenticated_ = false;
  uint16_t tsih_ = 0;
};

InitiatorLogin::Impl::Impl(InitiatorLoginOptions options)
    : options_(std::move(options)),
      negotiator_(NegotiatorOptions(options_), options_.offer),
      collector_(options_.max_key_set_bytes),
      tsih_(options_.tsih) {
  assert(!options_.auth_methods.empty());
}

Negotiator::Options InitiatorLogin::Impl::NegotiatorOptions(
    const InitiatorLoginOptions& options) {
  Negotiator::Options result;
  result.role = Role::kInitiator;
  result.session_type = options.identity.session_type;
  result.leading = options.tsih == 0;
  result.max_unknown_keys = options.max_unknown_keys;
  return result;
}

InitiatorLogin::Request InitiatorLogin::Impl::Start() {
  AddIdentity();
  if (options_.auth_methods == std::vector<std::string>{"None"}) {
    stage_ = LoginStage::kOperational;
    AddProposals();
  } else {
    writer_.Add("AuthMethod", absl::StrJoin(options_.auth_methods, ","));
  }
  return NextRequest();
}

void InitiatorLogin::Impl::AddIdentity() {
  const LoginIdentity& identity = options_.identity;
  writer_.Add("InitiatorName", identity.initiator_name);
  if (!identity.initiator_alias.empty()) {
    writer_.Add("InitiatorAlias", identity.initiator_alias);
  }
  if (!identity.target_name.empty()) {
    writer_.Add("TargetName", identity.target_name);
  }
  // A key of the leading connection (RFC 7143 section 13.21).
  if (options_.tsih == 0) {
    writer_.Add("SessionType", identity.session_type == SessionType::kDiscovery
                                   ? "Discovery"
                                   : "Normal");
  }
}

void InitiatorLogin::Impl::AddProposals() {
  std::vector<KeyValue> keys;
  negotiator_.ProposeAll(&keys);
  for (const KeyValue& key : keys) writer_.Add(key.first, key.second);
}

// Everything to negotiate in the operational stage is proposed at once, so it
// can always end.
bool InitiatorLogin::Impl::MayTransit() const {
  if (stage_ == LoginStage::kOperational || IsSecure()) return true;
  return exchange_ != nullptr && exchange_->may_end();
}

// The security stage ends with an authentication, or without one where that is
// offered.
bool InitiatorLogin::Impl::IsSecure() const {
  return authenticated_ ||
         (auth_method_.empty() && Offers(options_.auth_methods, kValueNone));
}

InitiatorLogin::Request InitiatorLogin::Impl::NextRequest() {
  Request request;
  request.pdu.version_max = kIscsiVersion;
  request.pdu.version_min = kIscsiVersion;
  request.pdu.isid = options_.isid;
  request.pdu.tsih = options_.tsih;
  request.pdu.cid = options_.cid;
  request.pdu.csg = stage_;
  bool more = false;
  request.data = writer_.Next(kLoginDataSegmentLength, &more);
  request.pdu.continue_ = more;
  if (!more && MayTransit()) {
    request.pdu.transit = true;
    request.pdu.nsg = stage_ == LoginStage::kSecurity
                          ? LoginStage::kOperational
                          : LoginStage::kFullFeature;
  }
  last_ = request.pdu;
  return request;
}

InitiatorLogin::State InitiatorLogin::Impl::OnResponse(
    const LoginResponsePdu& response, absl::Span<const uint8_t> data,
    Request* next) {
  assert(state_ == State::kInProgress);
  failure_ = Handle(response, data);
  if (!failure_.ok()) {
    state_ = State::kFailed;
  } else if (state_ == State::kInProgress) {
    *next = NextRequest();
  }
  return state_;
}

absl::Status InitiatorLogin::Impl::Handle(const LoginResponsePdu& response,
                                          absl::Span<const uint8_t> data) {
  if (response.status_class != 0) return OnRejection(response, data);
  if (++exchanges_ > options_.max_exchanges) {
    return Violation(absl::StrCat("the login is not finished after ",
                                  options_.max_exchanges,
                                  " exchanges, which is the limit"));
  }
  absl::Status status = CheckHeader(response);
  if (!status.ok()) return status;
  // Pieces of a long request are acknowledged one by one (section 6.2).
  if (last_.continue_) {
    if (data.empty() && !response.continue_) return absl::OkStatus();
    return Violation("it answers before the request is complete");
  }
  status = collector_.Add(data, response.continue_);
  if (!status.ok()) return Violation(status.message());
  if (response.continue_) return absl::OkStatus();

  std::vector<KeyValue> out;
  status = OnKeySet(collector_.text(), &out);
  if (!status.ok()) return status;
  if (response.transit) return Enter(response, out);
  for (const KeyValue& key : out) writer_.Add(key.first, key.second);
  return absl::OkStatus();
}

absl::Status InitiatorLogin::Impl::CheckHeader(
    const LoginResponsePdu& response) const {
  if (response.version_active != kIscsiVersion) {
    return Violation(
        absl::StrCat("it chose iSCSI version ", response.version_active));
  }
  if (response.csg != stage_) {
    return Violation(absl::StrCat("a response of stage ",
                                  static_cast<int>(response.csg), " in stage ",
                                  static_cast<int>(stage_)));
  }
  if (!response.transit) return absl::OkStatus();
  if (response.continue_) {
    return Violation("a response with both the T and the C bit");
  }
  if (!last_.transit) {
    return Violation("it ends a stage that the initiator has not finished");
  }
  // Section 6.3: it may choose an earlier stage than proposed, not a later one.
  if (!IsTransition(stage_, response.nsg) || response.nsg > last_.nsg) {
    return Violation(absl::StrCat("a transition from stage ",
                                  static_cast<int>(stage_), " to stage ",
                                  static_cast<int>(response.nsg)));
  }
  return absl::OkStatus();
}

absl::Status InitiatorLogin::Impl::OnRejection(const LoginResponsePdu& response,
                                               absl::Span<const uint8_t> data) {
  const std::string name =
      LoginStatusName(response.status_class, response.status_detail);
  const auto status = static_cast<LoginStatus>(response.status_class << 8 |
                                               response.status_detail);
  if (response.status_class != kRedirection) {
    return absl::Status(
        CodeOf(response.status_class, status),
        absl::StrCat("the target refuses the login: ", name, Advice(status)));
  }
  std::vector<TextPair> pairs;
  const absl::Status parsed =
      ParseText(absl::string_view(reinterpret_cast<const char*>(data.data()),
                                  data.size()),
                &pairs);
  if (!parsed.ok()) return Violation(parsed.message());
  for (const TextPair& pair : pairs) {
    if (pair.key != "TargetAddress") continue;
    // The portal group tag has no place here, but may be there (section 13.8).
    const absl::string_view address =
        pair.value.substr(0, pair.value.find(','));
    if (address.empty() || address.size() > kMaxValueLength ||
        !IsTextValue(address)) {
      return Violation(absl::StrCat("it redirects to ", Quoted(pair.value)));
    }
    redirect_address_ = std::string(address);
    state_ = State::kRedirected;
    return absl::OkStatus();
  }
  return Violation(absl::StrCat(name, " without a TargetAddress"));
}

absl::Status InitiatorLogin::Impl::OnKeySet(absl::string_view text,
                                            std::vector<KeyValue>* out) {
  std::vector<TextPair> pairs;
  const absl::Status parsed = ParseText(text, &pairs);
  if (!parsed.ok()) return Violation(parsed.message());
  SortedKeys keys;
  const absl::Status sorted = SortKeys(Role::kTarget, stage_, pairs, &keys);
  if (!sorted.ok()) return Violation(sorted.message());
  for (const TextPair& pair : keys.identity) {
    absl::Status status = OnIdentityKey(pair);
    if (!status.ok()) return Violation(status.message());
  }
  if (stage_ == LoginStage::kSecurity) return OnSecurityKeys(keys, out);
  std::vector<TextPair> operational = keys.others;
  operational.insert(operational.end(), keys.unknown.begin(),
                     keys.unknown.end());
  const absl::Status status =
      negotiator_.OnKeys(kInOperational, operational, out);
  return status.ok() ? status : Violation(status.message());
}

absl::Status InitiatorLogin::Impl::OnIdentityKey(const TextPair& pair) {
  const absl::StatusOr<bool> is_new = declared_.Add(stage_, pair);
  if (!is_new.ok()) return is_new.status();
  if (!*is_new) return absl::OkStatus();
  if (pair.key == "TargetAlias") {
    options_.identity.target_alias = std::string(pair.value);
    return CheckAlias(pair);
  }
  if (pair.key == "TargetPortalGroupTag") {
    const absl::optional<uint64_t> tag = ParseNumber(pair.value);
    if (!tag || *tag > 0xffff) {
      return absl::InvalidArgumentError(
          absl::StrCat("TargetPortalGroupTag=", Quoted(pair.value)));
    }
    options_.identity.target_portal_group_tag = static_cast<uint16_t>(*tag);
  }
  // A TargetAddress outside of a redirection asks for nothing.
  return absl::OkStatus();
}

absl::Status InitiatorLogin::Impl::OnSecurityKeys(const SortedKeys& keys,
                                                  std::vector<KeyValue>* out) {
  const bool chosen_now = keys.auth_method != nullptr;
  if (chosen_now) {
    absl::Status status = OnAuthMethod(keys.auth_method->value);
    if (!status.ok()) return status;
  }
  if (exchange_ == nullptr || authenticated_) {
    const absl::Status status =
        negotiator_.OnKeys(kInSecurity, keys.unknown, out);
    return status.ok() ? status : Violation(status.message());
  }
  // The initiator makes the first step as soon as the method is selected
  // (section 12.1).
  if (!chosen_now && keys.unknown.empty()) return absl::OkStatus();
  return StepExchange(keys.unknown, out);
}

absl::Status InitiatorLogin::Impl::OnAuthMethod(absl::string_view value) {
  if (!auth_method_.empty()) {
    return Violation("AuthMethod is sent a second time");
  }
  if (value == kValueReject) {
    return absl::UnauthenticatedError(
        absl::StrCat("the target accepts none of the authentication methods ",
                     absl::StrJoin(options_.auth_methods, ",")));
  }
  if (!Offers(options_.auth_methods, value)) {
    return Violation(absl::StrCat("AuthMethod=", Quoted(value),
                                  " was not offered, only ",
                                  absl::StrJoin(options_.auth_methods, ",")));
  }
  auth_method_ = std::string(value);
  if (auth_method_ == kValueNone) {
    authenticated_ = true;
    return absl::OkStatus();
  }
  if (options_.start_auth) exchange_ = options_.start_auth(auth_method_);
  if (exchange_ == nullptr) {
    return absl::InternalError(absl::StrCat(
        "AuthMethod=", auth_method_, " was offered, but can't be started"));
  }
  return absl::OkStatus();
}

absl::Status InitiatorLogin::Impl::StepExchange(
    absl::Span<const TextPair> pairs, std::vector<KeyValue>* out) {
  LoginStatus status = LoginStatus::kAuthenticationFailure;
  std::string reason;
  switch (exchange_->Step(CopyKeys(pairs), out, &status, &reason)) {
    case AuthExchange::Progress::kContinue:
      return absl::OkStatus();
    case AuthExchange::Progress::kDone:
      authenticated_ = true;
      options_.identity.authenticated_peer = exchange_->peer_name();
      return absl::OkStatus();
    case AuthExchange::Progress::kWaiting:
      return absl::InternalError("an initiator's exchange waits for nobody");
    case AuthExchange::Progress::kFailed:
      break;
  }
  return absl::UnauthenticatedError(absl::StrCat(
      "the authentication by ", auth_method_, " failed: ", reason));
}

// The target ended the stage. `unsent` are answers that it doesn't wait for.
absl::Status InitiatorLogin::Impl::Enter(const LoginResponsePdu& response,
                                         const std::vector<KeyValue>& unsent) {
  for (const KeyValue& key : unsent) {
    // That it declared something unknown is its own affair.
    if (key.second == kValueNotUnderstood) continue;
    return Violation(absl::StrCat(
        "it sends ", key.first, ", which wants an answer, and ends the stage"));
  }
  // Fails closed: without the authentication asked for there is no next stage.
  if (stage_ == LoginStage::kSecurity && !IsSecure()) {
    if (exchange_ != nullptr && exchange_->may_end()) {
      std::vector<KeyValue> none;
      absl::Status why = StepExchange({}, &none);
      if (!why.ok()) return why;
    }
    return absl::UnauthenticatedError(
        "the target ends the security stage without the authentication that "
        "was asked for");
  }
  stage_ = response.nsg;
  if (stage_ == LoginStage::kFullFeature) return Finish(response);
  AddProposals();
  return absl::OkStatus();
}

absl::Status InitiatorLogin::Impl::Finish(const LoginResponsePdu& response) {
  const absl::Status status = negotiator_.Finish();
  if (!status.ok()) return Violation(status.message());
  if (options_.tsih != 0 && response.tsih != options_.tsih) {
    return Violation(absl::StrCat("the TSIH is ", response.tsih,
                                  " where the session's is ", options_.tsih));
  }
  // Section 11.13.3. Discovery sessions are let off: nothing refers to theirs.
  if (response.tsih == 0 &&
      options_.identity.session_type == SessionType::kNormal) {
    return Violation("the session has no TSIH");
  }
  tsih_ = response.tsih;
  state_ = State::kFullFeature;
  return absl::OkStatus();
}

InitiatorLogin::InitiatorLogin(InitiatorLoginOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}

InitiatorLogin::~InitiatorLogin() = default;

InitiatorLogin::Request InitiatorLogin::Start() { return impl_->Start(); }

InitiatorLogin::State InitiatorLogin::OnResponse(
    const LoginResponsePdu& response, absl::Span<const uint8_t> data,
    Request* next) {
  return impl_->OnResponse(response, data, next);
}

InitiatorLogin::State InitiatorLogin::state() const { return impl_->state(); }

const Parameters& InitiatorLogin::parameters() const {
  return impl_->parameters();
}

const LoginIdentity& InitiatorLogin::identity() const {
  return impl_->identity();
}

uint16_t InitiatorLogin::tsih() const { return impl_->tsih(); }

const std::string& InitiatorLogin::redirect_address() const {
  return impl_->redirect_address();
}

const absl::Status& InitiatorLogin::failure() const { return impl_->failure(); }

}  // namespace skiff::protocol
