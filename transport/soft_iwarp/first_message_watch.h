#ifndef SKIFF_TRANSPORT_SOFT_IWARP_FIRST_MESSAGE_WATCH_H_
#define SKIFF_TRANSPORT_SOFT_IWARP_FIRST_MESSAGE_WATCH_H_

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "transport/net/socket_address.h"
#include "transport/reactor/reactor.h"
#include "transport/soft_iwarp/tcp_arrivals.h"

namespace skiff::transport {

// Gets the first message of a connection through Linux' siw (6.1).
//
// What comes in after siw's reply to a connect and before it has taken the
// socket over, it does not look at before more comes (siw_accept() and
// siw_cm_llp_data_ready()): a first message waits in the accepting end's
// socket, and its sender for the answer. That happens where the thread that
// accepts is not scheduled in between.
//
// More is, for the accepting end, the answer to a READ of nothing. It is sent
// only where a message does lie there, because siw may answer such a READ with
// something while it sends something else (siw_activate_tx()); whoever waits
// for us sends nothing. The other end does not see the socket, and cannot know
// when it was taken over: it sends WRITEs of nothing, which cost little.
//
// Belongs to the reactor's thread.
class FirstMessageWatch {
 public:
  struct Settings {
    // The first wait. They double. Zero: there is none.
    absl::Duration after;
    // None is longer.
    absl::Duration limit;
  };
  enum class Nothing : uint8_t { kRead, kWrite };
  struct Connection {
    // Whether something came, or the connection is over.
    absl::AnyInvocable<bool() const> settled;
    // Sends it, with no completion for the user. False: not now.
    absl::AnyInvocable<bool(Nothing)> send;
  };

  FirstMessageWatch(Reactor* reactor, const Settings& settings,
                    Connection connection);
  FirstMessageWatch(const FirstMessageWatch&) = delete;
  FirstMessageWatch& operator=(const FirstMessageWatch&) = delete;

  // The connection stands. Of an end that connected ...
  void StartConnected();
  // ... and of one that accepted. The addresses are those of siw's socket.
  void StartAccepted(const SocketAddress& local, const SocketAddress& peer);
  void Stop() { timer_.Cancel(); }

 private:
  void Wait();
  void OnTimer();
  // Whether something has lain in the socket since the last wait began, and
  // nothing has come.
  bool LiesUnread();

  const Settings settings_;
  Connection connection_;
  bool accepted_ = false;
  SocketAddress local_;
  SocketAddress peer_;
  TcpArrivals before_;
  absl::Duration wait_;
  Timer timer_;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_SOFT_IWARP_FIRST_MESSAGE_WATCH_H_
