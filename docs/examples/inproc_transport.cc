#include "inproc_transport.h"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "inproc_stream.h"

namespace example {
namespace {

using skiff::transport::AcceptCallback;
using skiff::transport::Address;
using skiff::transport::ConnectAttempt;
using skiff::transport::ConnectCallback;
using skiff::transport::ConnectionRequest;
using skiff::transport::ConnectOptions;
using skiff::transport::Endpoint;
using skiff::transport::Listener;
using skiff::transport::ListenOptions;
using skiff::transport::Reactor;

using Done = absl::AnyInvocable<void(absl::StatusOr<Endpoint>)>;

// A connect that waits for its answer. On its reactor; the listener's side
// reaches it by InprocWire::Post(), which does nothing once it is gone.
class InprocAttempt final : public ConnectAttempt {
 public:
  InprocAttempt(Reactor* reactor, std::shared_ptr<InprocWire> wire,
                const Address& address, const ConnectOptions& options,
                ConnectCallback done)
      : reactor_(reactor),
        wire_(std::move(wire)),
        address_(address.ToString()),
        done_(std::move(done)),
        self_(std::make_shared<InprocAttempt*>(this)),
        timer_(reactor, [this, timeout = options.timeout] {
          Finish(absl::DeadlineExceededError(absl::StrCat(
              "no answer within ", absl::FormatDuration(timeout))));
        }) {
    timer_.ScheduleAfter(options.timeout);
  }
  ~InprocAttempt() override {
    if (done_ != nullptr) wire_->Close(0, /*abort=*/true);
  }
  std::weak_ptr<InprocAttempt*> self() const { return self_; }

  // The last thing that the attempt does: `done` may destroy it.
  void Finish(const absl::Status& status) {
    if (done_ == nullptr) return;
    timer_.Cancel();
    ConnectCallback done = std::move(done_);
    done_ = nullptr;
    if (status.ok()) {
      done(Endpoint(std::make_unique<InprocStream>(reactor_, wire_, 0)));
      return;
    }
    wire_->Close(0, /*abort=*/true);
    done(absl::Status(status.code(), absl::StrCat("connect ", address_, ": ",
                                                  status.message())));
  }

 private:
  Reactor* const reactor_;
  const std::shared_ptr<InprocWire> wire_;
  const std::string address_;
  ConnectCallback done_;
  const std::shared_ptr<InprocAttempt*> self_;
  skiff::transport::Timer timer_;
};

// The other side's way to an attempt.
struct Handshake {
  void Answer(const absl::Status& status) const {
    wire->Post(0, [attempt = attempt, status] {
      InprocAttempt* waiting = nullptr;
      if (const auto alive = attempt.lock()) waiting = *alive;
      if (waiting != nullptr) waiting->Finish(status);
    });
  }

  std::shared_ptr<InprocWire> wire;
  std::weak_ptr<InprocAttempt*> attempt;
};

class InprocRequest final : public ConnectionRequest {
 public:
  InprocRequest(Handshake handshake, std::shared_ptr<std::atomic<int>> pending)
      : handshake_(std::move(handshake)), pending_(std::move(pending)) {}
  ~InprocRequest() override { Reject({}); }

  std::string local_address() const override {
    return handshake_.wire->ends[1].address;
  }
  std::string peer_address() const override {
    return handshake_.wire->ends[0].address;
  }
  absl::Span<const uint8_t> private_data() const override { return {}; }

  // On the thread of `home`, which may be another one.
  void Accept(Reactor* home, const skiff::transport::AcceptOptions& /*options*/,
              Done done) override {
    if (!Settle()) return;
    home->Post(
        [home, handshake = handshake_, done = std::move(done)]() mutable {
          auto stream = std::make_unique<InprocStream>(home, handshake.wire, 1);
          handshake.Answer(absl::OkStatus());
          done(Endpoint(std::move(stream)));
        });
  }
  void Reject(absl::Span<const uint8_t> /*private_data*/) override {
    if (!Settle()) return;
    handshake_.Answer(absl::UnavailableError("the peer rejects it"));
  }

 private:
  // False if it was answered before.
  bool Settle() {
    if (pending_ == nullptr) return false;
    --*pending_;
    pending_ = nullptr;
    return true;
  }

  const Handshake handshake_;
  std::shared_ptr<std::atomic<int>> pending_;
};

// Who listens, by `NAME:PORT`.
class Board {
 public:
  struct Entry {
    Reactor* reactor;
    int backlog;
    // Null once the listener is gone; used on its reactor only.
    std::weak_ptr<AcceptCallback> on_request;
    std::shared_ptr<std::atomic<int>> pending;
  };

  // False if somebody listens there. Chooses a port, if it is 0.
  bool Add(Address* address, const Entry& entry) {
    const std::lock_guard<std::mutex> lock(mutex_);
    while (address->port == 0) {
      const uint16_t port = NextPort();
      if (entries_.count(absl::StrCat(address->host, ":", port)) == 0) {
        address->port = port;
      }
    }
    return entries_.emplace(address->HostPort(), entry).second;
  }
  void Remove(const Address& address) {
    const std::lock_guard<std::mutex> lock(mutex_);
    entries_.erase(address.HostPort());
  }
  // Hands a request over to who listens there. False if nobody does.
  bool Ask(const Address& address, const Handshake& handshake) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = entries_.find(address.HostPort());
    if (found == entries_.end()) return false;
    const Entry& entry = found->second;
    // Without room, the attempt waits for its timeout, as it does over TCP.
    if (*entry.pending >= entry.backlog) return true;
    ++*entry.pending;
    entry.reactor->Post([on_request = entry.on_request,
                         request = std::make_unique<InprocRequest>(
                             handshake, entry.pending)]() mutable {
      const auto listening = on_request.lock();
      if (listening != nullptr) (*listening)(std::move(request));
    });
    return true;
  }
  // Of the end that connects.
  std::string NewName(const std::string& host) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return absl::StrCat(host, ":", NextPort());
  }

 private:
  uint16_t NextPort() {
    constexpr uint16_t kFirst = 49152;  // RFC 6335 section 6: dynamic ports.
    if (next_port_ < kFirst) next_port_ = kFirst;
    return next_port_++;
  }

  std::mutex mutex_;
  std::map<std::string, Entry> entries_;
  uint16_t next_port_ = 0;
};

class InprocListener final : public Listener {
 public:
  InprocListener(std::shared_ptr<Board> board, Address address,
                 std::shared_ptr<AcceptCallback> on_request)
      : board_(std::move(board)),
        address_(std::move(address)),
        on_request_(std::move(on_request)) {}
  ~InprocListener() override { board_->Remove(address_); }
  Address address() const override { return address_; }

 private:
  const std::shared_ptr<Board> board_;
  const Address address_;
  const std::shared_ptr<AcceptCallback> on_request_;
};

class InprocTransport final : public skiff::transport::Transport {
 public:
  absl::string_view scheme() const override { return "inproc"; }
  // Byte streams have nothing to say here.
  skiff::transport::Capabilities capabilities() const override { return {}; }
  std::vector<skiff::transport::DeviceReport> Devices() const override {
    skiff::transport::DeviceReport report;
    report.name = "inproc";
    report.detail = "the memory of this process";
    report.usable = true;
    return {report};
  }
  absl::Status CheckAddress(const Address& address) const override {
    if (address.options.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        address.ToString(), ": option \"", address.options.begin()->first,
        "\" is unknown; inproc has none"));
  }

  absl::StatusOr<std::unique_ptr<Listener>> Listen(
      Reactor* reactor, const Address& address, const ListenOptions& options,
      AcceptCallback on_request) override {
    absl::Status status = CheckAddress(address);
    if (status.ok()) status = CheckListen(address, options);
    if (!status.ok()) return status;
    auto callback = std::make_shared<AcceptCallback>(std::move(on_request));
    Address bound = address;
    if (!board_->Add(&bound, {reactor, options.backlog, callback,
                              std::make_shared<std::atomic<int>>(0)})) {
      return absl::AlreadyExistsError(
          absl::StrCat("cannot listen on ", address.ToString(),
                       ": somebody listens there already"));
    }
    return std::make_unique<InprocListener>(board_, bound, callback);
  }

  absl::StatusOr<std::unique_ptr<ConnectAttempt>> Connect(
      Reactor* reactor, const Address& address, const ConnectOptions& options,
      ConnectCallback done) override {
    absl::Status status = CheckAddress(address);
    if (status.ok()) status = CheckConnect(address, options);
    if (!status.ok()) return status;
    auto wire = std::make_shared<InprocWire>();
    wire->ends[0].reactor = reactor;
    wire->ends[0].address = board_->NewName(address.host);
    wire->ends[1].address = address.HostPort();
    auto attempt = std::make_unique<InprocAttempt>(reactor, wire, address,
                                                   options, std::move(done));
    const Handshake handshake = {wire, attempt->self()};
    if (!board_->Ask(address, handshake)) {
      handshake.Answer(absl::UnavailableError("nobody listens there"));
    }
    return attempt;
  }

 private:
  const std::shared_ptr<Board> board_ = std::make_shared<Board>();
};

}  // namespace

std::unique_ptr<skiff::transport::Transport> MakeInprocTransport() {
  return std::make_unique<InprocTransport>();
}

}  // namespace example
