#ifndef SKIFF_TRANSPORT_AUTO_FAKE_TRANSPORT_H_
#define SKIFF_TRANSPORT_AUTO_FAKE_TRANSPORT_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "transport/transport.h"

namespace skiff::testing {

// An endpoint that only says whose it is.
class FakeStream final : public transport::ByteStream {
 public:
  FakeStream(std::string peer, int* alive)
      : peer_(std::move(peer)), alive_(alive) {
    ++*alive_;
  }
  ~FakeStream() override { --*alive_; }
  void SetObserver(transport::StreamObserver* /*observer*/) override {}
  transport::IoResult Readv(absl::Span<const iovec> /*to*/) override {
    return {transport::StreamStatus::kWouldBlock, 0};
  }
  transport::IoResult Writev(absl::Span<const iovec> /*from*/) override {
    return {transport::StreamStatus::kWouldBlock, 0};
  }
  void ShutdownWrite() override {}
  void Abort() override {}
  absl::Status error() const override { return absl::OkStatus(); }
  absl::string_view scheme() const override { return "fake"; }
  std::string local_address() const override { return "fake"; }
  std::string peer_address() const override { return peer_; }

 private:
  const std::string peer_;
  int* const alive_;
};

// What a fake transport does, and what was done with it.
struct FakeScript {
  std::vector<transport::DeviceReport> devices;
  absl::Status refusal;  // Of the Connect or Listen call itself.
  absl::Duration takes = absl::Milliseconds(1);  // Infinite: no answer ever.
  absl::Status outcome;

  std::vector<transport::Address> connects;
  std::vector<absl::Time> began;
  std::vector<absl::Duration> timeouts;
  std::vector<transport::Address> listens;
  std::vector<std::function<void(absl::Status)>> on_failure;
  transport::AcceptCallback on_request;
  int attempts_alive = 0;
  int endpoints_alive = 0;
  int listeners_alive = 0;
};

// Does what its script says.
class FakeTransport final : public transport::Transport {
 public:
  FakeTransport(std::string scheme, FakeScript* script)
      : scheme_(std::move(scheme)), script_(script) {}

  absl::string_view scheme() const override { return scheme_; }
  transport::Capabilities capabilities() const override {
    return script_->devices.empty() ? transport::Capabilities()
                                    : script_->devices[0].capabilities;
  }
  std::vector<transport::DeviceReport> Devices() const override {
    return script_->devices;
  }
  absl::StatusOr<std::unique_ptr<transport::Listener>> Listen(
      transport::Reactor* /*reactor*/, const transport::Address& address,
      const transport::ListenOptions& options,
      transport::AcceptCallback on_request) override {
    script_->listens.push_back(address);
    if (!script_->refusal.ok()) return script_->refusal;
    script_->on_failure.push_back(options.on_failure);
    script_->on_request = std::move(on_request);
    return std::make_unique<FakeListener>(address, script_);
  }
  absl::StatusOr<std::unique_ptr<transport::ConnectAttempt>> Connect(
      transport::Reactor* reactor, const transport::Address& address,
      const transport::ConnectOptions& options,
      transport::ConnectCallback done) override {
    script_->connects.push_back(address);
    script_->began.push_back(reactor->Now());
    script_->timeouts.push_back(options.timeout);
    if (!script_->refusal.ok()) return script_->refusal;
    return std::make_unique<FakeAttempt>(reactor, address, script_,
                                         std::move(done));
  }

 private:
  class FakeAttempt final : public transport::ConnectAttempt {
   public:
    FakeAttempt(transport::Reactor* reactor, const transport::Address& address,
                FakeScript* script, transport::ConnectCallback done)
        : timer_(reactor, [this] { Finish(); }),
          address_(address),
          script_(script),
          done_(std::move(done)) {
      ++script_->attempts_alive;
      if (script_->takes < absl::InfiniteDuration()) {
        timer_.ScheduleAfter(script_->takes);
      }
    }
    ~FakeAttempt() override { --script_->attempts_alive; }

   private:
    void Finish() {
      transport::ConnectCallback done = std::move(done_);
      if (script_->outcome.ok()) {
        done(transport::Endpoint(std::make_unique<FakeStream>(
            address_.ToString(), &script_->endpoints_alive)));
      } else {
        done(script_->outcome);
      }
    }

    transport::Timer timer_;
    const transport::Address address_;
    FakeScript* const script_;
    transport::ConnectCallback done_;
  };

  class FakeListener final : public transport::Listener {
   public:
    FakeListener(transport::Address address, FakeScript* script)
        : address_(std::move(address)), script_(script) {
      if (address_.port == 0) address_.port = 4321;
      ++script_->listeners_alive;
    }
    ~FakeListener() override { --script_->listeners_alive; }
    transport::Address address() const override { return address_; }

   private:
    transport::Address address_;
    FakeScript* const script_;
  };

  const std::string scheme_;
  FakeScript* const script_;
};

}  // namespace skiff::testing

#endif  // SKIFF_TRANSPORT_AUTO_FAKE_TRANSPORT_H_
