#ifndef SKIFF_BENCH_TRANSPORT_CONNECTION_H_
#define SKIFF_BENCH_TRANSPORT_CONNECTION_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "bench/transport/workload.h"
#include "transport/reactor/epoll_reactor.h"
#include "transport/transport.h"

namespace skiff::bench {

// The transport that the URL names, of those in this program. Exits if there is
// none, or the URL is wrong.
transport::Transport* TransportOf(const std::string& url);
transport::Address ParseUrl(const std::string& url);

// URLs to listen on (port 0) by the transports that are linked, of those that
// work on this machine: connections were tried.
std::vector<std::string> UsableTransports();

// Turns the reactors until `done`. False after ten seconds.
bool TurnUntil(absl::Span<transport::EpollReactor* const> reactors,
               absl::FunctionRef<bool()> done);

// Accepts one connection after the other, each as the end that its peer's
// workload needs.
class Acceptor {
 public:
  // Connections belong to `home`, which may be `reactor`.
  static absl::StatusOr<std::unique_ptr<Acceptor>> Listen(
      transport::EpollReactor* reactor, transport::EpollReactor* home,
      const std::string& url);
  std::string url() const { return listener_->address().ToString(); }
  // The end that was accepted last, or null: then none came since.
  std::unique_ptr<End> Take() { return std::move(end_); }
  bool ready() const { return end_ != nullptr; }

 private:
  explicit Acceptor(transport::EpollReactor* home) : home_(home) {}
  void OnRequest(std::unique_ptr<transport::ConnectionRequest> request);

  transport::EpollReactor* const home_;
  std::unique_ptr<End> accepting_;
  std::unique_ptr<End> end_;
  std::unique_ptr<transport::Listener> listener_;
};

// A connect in progress.
class Connector {
 public:
  Connector(transport::EpollReactor* reactor, const std::string& url,
            const Workload& workload);
  bool done() const { return done_; }
  // Once `done`.
  absl::StatusOr<std::unique_ptr<End>> Take();

 private:
  const Workload workload_;
  bool done_ = false;
  absl::Status status_;
  std::unique_ptr<End> end_;
  std::unique_ptr<transport::ConnectAttempt> attempt_;
};

// Both ends of a connection of this process.
struct Pair {
  std::unique_ptr<End> server;
  std::unique_ptr<End> client;
};
// `url` as Acceptor has it.
absl::StatusOr<Pair> ConnectPair(transport::EpollReactor* client,
                                 transport::EpollReactor* server,
                                 const std::string& url,
                                 const Workload& workload);

}  // namespace skiff::bench

#endif  // SKIFF_BENCH_TRANSPORT_CONNECTION_H_
