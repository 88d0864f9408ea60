#include "protocol/auth/held_refusal.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"

namespace skiff::protocol {
namespace {

class HeldRefusal final : public AuthExchange {
 public:
  HeldRefusal(std::unique_ptr<AuthExchange> exchange, RefusalHolder hold)
      : exchange_(std::move(exchange)), hold_(std::move(hold)) {}

  void SetReady(const std::function<void()>& ready) override {
    ready_ = ready;
    exchange_->SetReady(ready);
  }

  Progress Step(absl::Span<const KeyValue> in, std::vector<KeyValue>* out,
                LoginStatus* status, std::string* reason) override {
    if (held_.has_value()) {
      *status = LoginStatus::kAuthenticationFailure;
      *reason = *held_;
      return Progress::kFailed;
    }
    const Progress progress = exchange_->Step(in, out, status, reason);
    if (progress != Progress::kFailed ||
        *status != LoginStatus::kAuthenticationFailure ||
        !hold_(*reason, [this] { ready_(); })) {
      return progress;
    }
    held_ = *reason;
    return Progress::kWaiting;
  }

  std::string peer_name() const override { return exchange_->peer_name(); }

 private:
  const std::unique_ptr<AuthExchange> exchange_;
  const RefusalHolder hold_;
  std::function<void()> ready_;
  std::optional<std::string> held_;  // The reason.
};

}  // namespace

std::unique_ptr<AuthExchange> HoldRefusals(
    std::unique_ptr<AuthExchange> exchange, RefusalHolder hold) {
  return std::make_unique<HeldRefusal>(std::move(exchange), std::move(hold));
}

}  // namespace skiff::protocol
