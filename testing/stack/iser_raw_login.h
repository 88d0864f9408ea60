#ifndef SKIFF_TESTING_STACK_ISER_RAW_LOGIN_H_
#define SKIFF_TESTING_STACK_ISER_RAW_LOGIN_H_

#include <cstdint>
#include <optional>
#include <string>

#include "protocol/negotiation/login_test_util.h"
#include "protocol/negotiation/target_login.h"
#include "testing/stack/iser_raw_peer.h"

namespace skiff::protocol {

// The login of a raw target, which is honest.
class RawTargetLogin {
 public:
  RawTargetLogin() {
    policy.offer.iser.enabled = true;
    policy.offer.initial_r2t = true;
    policy.offer.header_digest = policy.offer.data_digest = {Digest::kNone};
    Restart();
  }

  // For the next connection.
  void Restart() { login_.emplace(&policy, TargetLogin::Limits()); }

  // The answer to a message that came. Empty if that is no Login Request.
  std::string Answer(const std::string& message, uint32_t stat_sn) {
    IserMessage parsed;
    LoginRequestPdu request;
    if (!DecodeIserMessage(Bytes(message), &parsed).ok() ||
        parsed.opcode != IserOpcode::kControl ||
        !Decode(parsed.bhs, &request).ok()) {
      return "";
    }
    TargetLogin::Reply reply = *login_->OnRequest(request, parsed.data);
    reply.pdu.initiator_task_tag = request.initiator_task_tag;
    reply.pdu.stat_sn = stat_sn;
    reply.pdu.exp_cmd_sn = request.cmd_sn;
    reply.pdu.max_cmd_sn = request.cmd_sn + 10;
    return ToIser(reply.pdu, reply.data);
  }
  bool done() const {
    return login_->state() == TargetLogin::State::kFullFeature;
  }
  // Why it has failed, if it has.
  std::string failure() const {
    return login_->state() == TargetLogin::State::kFailed ? login_->failure()
                                                          : "";
  }

  FakePolicy policy;

 private:
  std::optional<TargetLogin> login_;
};

}  // namespace skiff::protocol

#endif  // SKIFF_TESTING_STACK_ISER_RAW_LOGIN_H_
