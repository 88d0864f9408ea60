#ifndef SKIFF_PROTOCOL_NEGOTIATION_INITIATOR_LOGIN_H_
#define SKIFF_PROTOCOL_NEGOTIATION_INITIATOR_LOGIN_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "protocol/codec/pdu.h"
#include "protocol/negotiation/auth.h"
#include "protocol/negotiation/parameters.h"

namespace skiff::protocol {

struct InitiatorLoginOptions {
  LoginIdentity identity;
  Offer offer;
  Isid isid = {};
  uint16_t tsih = 0;
  uint16_t cid = 0;
  uint32_t max_key_set_bytes = 65536;
  uint32_t max_exchanges = 64;     // Request/response pairs in one login.
  uint32_t max_unknown_keys = 64;  // Answered with NotUnderstood.
  // AuthMethod values to offer, in order of preference; {"None"} skips the
  // security stage. `start_auth` makes the exchange of the method that the
  // target chose.
  std::vector<std::string> auth_methods = {"None"};
  std::function<std::unique_ptr<AuthExchange>(const std::string& method)>
      start_auth;
};

// The initiator's side of the login phase: Login Responses in, Login Requests
// out. Sans-IO.
class InitiatorLogin {
 public:
  enum class State { kInProgress, kFullFeature, kRedirected, kFailed };
  struct Request {
    LoginRequestPdu
        pdu;  // cmd_sn, exp_stat_sn and initiator_task_tag are the caller's.
    std::string data;
  };

  explicit InitiatorLogin(InitiatorLoginOptions options);
  ~InitiatorLogin();

  // The first request.
  Request Start();
  // Handles a response. While kInProgress, `*next` is what to send.
  State OnResponse(const LoginResponsePdu& response,
                   absl::Span<const uint8_t> data, Request* next);

  State state() const;
  const Parameters& parameters() const;  // Final in kFullFeature.
  const LoginIdentity& identity()
      const;  // With the target's alias, portal group.
  uint16_t tsih() const;
  const std::string& redirect_address() const;  // kRedirected: `host:port`.
  // kFailed: in words a person can act on. Unavailable for errors that a retry
  // may cure (status class 3), PermissionDenied, NotFound, ... for the others.
  const absl::Status& failure() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_NEGOTIATION_INITIATOR_LOGIN_H_
