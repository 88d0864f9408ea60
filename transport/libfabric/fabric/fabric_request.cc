#include "transport/libfabric/fabric/fabric_request.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/annotate.h"

namespace skiff::transport {
namespace {

using Done = absl::AnyInvocable<void(absl::StatusOr<Endpoint>)>;

// Accepting on the reactor that the connection will live on, and which owns it.
class Accepting final : public ReactorObject {
 public:
  static void Start(Reactor* home, std::unique_ptr<PendingConnection> pending,
                    const AcceptOptions& options, Done done) {
    auto* accepting =
        new Accepting(home, std::move(pending), options, std::move(done));
    home->Own(std::unique_ptr<ReactorObject>(accepting));
    accepting->Start();
  }

 private:
  Accepting(Reactor* home, std::unique_ptr<PendingConnection> pending,
            const AcceptOptions& options, Done done)
      : home_(home),
        pending_(std::move(pending)),
        options_(options),
        done_(std::move(done)),
        timer_(home, [this] {
          Fail(absl::DeadlineExceededError(
              absl::StrCat("the connection was not established within ",
                           absl::FormatDuration(options_.timeout))));
        }) {}

  void Start() {
    timer_.ScheduleAfter(options_.timeout);
    auto endpoint = pending_->Accept(home_, options_, [this](auto outcome) {
      OnOutcome(std::move(outcome));
    });
    if (endpoint.ok()) {
      endpoint_ = *std::move(endpoint);
    } else {
      Fail(endpoint.status());
    }
  }
  void OnOutcome(const absl::StatusOr<std::vector<uint8_t>>& outcome) {
    if (!outcome.ok()) {
      Fail(outcome.status());
      return;
    }
    endpoint_->SetPeer(pending_->AcceptedAt(), pending_->peer_address,
                       std::move(pending_->private_data));
    endpoint_->queue_pair()->Connected();
    Finish(Endpoint(std::unique_ptr<RdmaEndpoint>(std::move(endpoint_))));
  }
  void Fail(const absl::Status& why) {
    endpoint_.reset();
    Finish(Annotate(why, absl::StrCat("accepting ", pending_->peer_address)));
  }
  void Finish(absl::StatusOr<Endpoint> result) {
    const auto self = home_->Disown(this);
    timer_.Cancel();
    done_(std::move(result));
  }

  Reactor* const home_;
  const std::unique_ptr<PendingConnection> pending_;
  const AcceptOptions options_;
  Done done_;
  std::unique_ptr<FabricEndpoint> endpoint_;
  Timer timer_;
};

class FabricRequest final : public ConnectionRequest, private OpenRequest {
 public:
  FabricRequest(std::unique_ptr<PendingConnection> pending,
                std::shared_ptr<OpenRequests> open)
      : pending_(std::move(pending)),
        local_address_(pending_->local_address),
        peer_address_(pending_->peer_address),
        private_data_(pending_->private_data),
        open_(std::move(open)) {
    open_->push_back(this);
  }
  ~FabricRequest() override { Reject({}); }

  std::string local_address() const override { return local_address_; }
  std::string peer_address() const override { return peer_address_; }
  absl::Span<const uint8_t> private_data() const override {
    return private_data_;
  }

  void Accept(Reactor* home, const AcceptOptions& options, Done done) override {
    if (!Answered()) {
      home->Post([done = std::move(done), peer = peer_address_]() mutable {
        done(absl::UnavailableError(absl::StrCat(
            "accepting ", peer,
            ": the connection was rejected when its listener closed")));
      });
      return;
    }
    pending_->LeaveReactor();
    home->Post([home, options, pending = std::move(pending_),
                done = std::move(done)]() mutable {
      Accepting::Start(home, std::move(pending), options, std::move(done));
    });
  }

  void Reject(absl::Span<const uint8_t> private_data) override {
    if (!Answered()) return;
    pending_->Reject(private_data);
    pending_.reset();
  }

 private:
  void OnListenerGone() override {
    answered_ = true;
    pending_->Reject({});
    pending_.reset();
  }
  // True the first time.
  bool Answered() {
    if (std::exchange(answered_, true)) return false;
    OpenRequest* self = this;
    open_->erase(std::find(open_->begin(), open_->end(), self));
    return true;
  }

  std::unique_ptr<PendingConnection> pending_;
  const std::string local_address_;
  const std::string peer_address_;
  const std::vector<uint8_t> private_data_;
  const std::shared_ptr<OpenRequests> open_;
  bool answered_ = false;
};

}  // namespace

std::unique_ptr<ConnectionRequest> MakeFabricRequest(
    std::unique_ptr<PendingConnection> pending,
    std::shared_ptr<OpenRequests> open) {
  return std::make_unique<FabricRequest>(std::move(pending), std::move(open));
}

}  // namespace skiff::transport
