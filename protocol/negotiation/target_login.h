#ifndef SKIFF_PROTOCOL_NEGOTIATION_TARGET_LOGIN_H_
#define SKIFF_PROTOCOL_NEGOTIATION_TARGET_LOGIN_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "protocol/codec/pdu.h"
#include "protocol/negotiation/auth.h"
#include "protocol/negotiation/parameters.h"

namespace skiff::protocol {

// What the login asks of the node it logs in to. Called synchronously.
class TargetLoginPolicy {
 public:
  virtual ~TargetLoginPolicy() = default;

  // The first key set named the session. Success lets the login go on, with
  // `offer` (in: defaults) and `identity->target_alias`/portal group tag filled
  // in; any other status ends it (not found, authorization failure, too many
  // ...). Redirections put the address into `target_address`.
  virtual LoginStatus Admit(const LoginRequestPdu& first,
                            LoginIdentity* identity, Offer* offer,
                            std::string* target_address) = 0;
  // AuthMethod values acceptable for this identity, in order of preference.
  // Contains "None" when no authentication is required.
  virtual std::vector<std::string> AuthMethods(
      const LoginIdentity& identity) = 0;
  virtual std::unique_ptr<AuthExchange> StartAuth(const LoginIdentity& identity,
                                                  absl::string_view method) = 0;
  // Everything is agreed. Session rules decide here (ISID/TSIH, reinstatement,
  // limits: RFC 7143 sections 6.3 and 11.12.5-6). On success `*tsih` is the
  // session's handle, nonzero.
  virtual LoginStatus Establish(const LoginRequestPdu& last,
                                const LoginIdentity& identity,
                                const Parameters& parameters,
                                uint16_t* tsih) = 0;
  // A login that waited can go on: call TargetLogin::Resume(), from within this
  // call or soon. Never called from within a call into the login.
  virtual void LoginReady() {}
};

// The target's side of the login phase: Login Requests in, Login Responses out.
// Sans-IO. One object per connection attempt; RFC 7143 sections 6.2, 6.3, 8.1.
class TargetLogin {
 public:
  struct Limits {
    uint32_t max_key_set_bytes = 65536;  // Of one C-bit continued key set.
    uint32_t max_requests = 64;          // Login Requests in one login phase.
    uint32_t max_unknown_keys = 64;      // Answered with NotUnderstood.
  };
  enum class State { kInProgress, kFullFeature, kFailed };
  struct Reply {
    LoginResponsePdu
        pdu;  // stat_sn, exp_cmd_sn and max_cmd_sn are the caller's.
    std::string data;
  };

  TargetLogin(TargetLoginPolicy* policy, const Limits& limits);
  ~TargetLogin();
  // One that has led to full feature phase, perhaps in another process. It
  // takes no requests.
  static std::unique_ptr<TargetLogin> Completed(const LoginIdentity& identity,
                                                const Parameters& parameters,
                                                uint16_t tsih);

  // Handles one decoded request with its data segment (already checked against
  // the 8192-byte limit of login). After kFailed the caller sends the reply and
  // closes. No reply: the login waits for somebody here, and the policy's
  // LoginReady() tells when Resume() has one. Requests after the end, or while
  // it waits, are invariant violations.
  absl::optional<Reply> OnRequest(const LoginRequestPdu& request,
                                  absl::Span<const uint8_t> data);
  absl::optional<Reply> Resume();
  bool waiting() const;

  State state() const;
  const LoginIdentity& identity() const;
  const Parameters& parameters() const;  // Final in kFullFeature.
  uint16_t tsih() const;
  // Why the login failed, in words for the log; empty otherwise.
  const std::string& failure() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_NEGOTIATION_TARGET_LOGIN_H_
