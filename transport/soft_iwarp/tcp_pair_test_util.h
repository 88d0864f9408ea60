#ifndef SKIFF_TRANSPORT_SOFT_IWARP_TCP_PAIR_TEST_UTIL_H_
#define SKIFF_TRANSPORT_SOFT_IWARP_TCP_PAIR_TEST_UTIL_H_

#include <netinet/in.h>
#include <sys/socket.h>

#include <string>

#include "gtest/gtest.h"
#include "transport/net/scoped_fd.h"
#include "transport/net/socket_address.h"

namespace skiff::transport {

// A TCP connection of two sockets.
class TcpPair {
 public:
  // `host`: a loopback address.
  explicit TcpPair(const std::string& host) {
    const SocketAddress any = ParseLiteral(host, 0).value();
    const ScopedFd listener(NewSocket(any));
    EXPECT_EQ(bind(listener.get(), any.get(), any.length), 0);
    EXPECT_EQ(listen(listener.get(), 1), 0);
    const SocketAddress address = LocalAddress(listener.get());
    sender_ = ScopedFd(NewSocket(any));
    EXPECT_EQ(connect(sender_.get(), address.get(), address.length), 0);
    receiver_ =
        ScopedFd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    EXPECT_TRUE(receiver_.valid());
  }

  // It has arrived by the end of the call.
  void Send(const std::string& text) const {
    EXPECT_EQ(send(sender_.get(), text.data(), text.size(), 0),
              static_cast<ssize_t>(text.size()));
    char byte = 0;
    EXPECT_EQ(recv(receiver_.get(), &byte, 1, MSG_PEEK), 1);
  }
  void ReceiveByte() const {
    char byte = 0;
    EXPECT_EQ(recv(receiver_.get(), &byte, 1, 0), 1);
  }

  // The receiver.
  bool BindToInterface(const std::string& name) const {
    return setsockopt(receiver_.get(), SOL_SOCKET, SO_BINDTODEVICE,
                      name.c_str(), name.size()) == 0;
  }

  // As the receiver has them.
  SocketAddress local() const { return LocalAddress(receiver_.get()); }
  SocketAddress peer() const { return PeerAddress(receiver_.get()); }

 private:
  static int NewSocket(const SocketAddress& like) {
    return socket(like.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  }

  ScopedFd sender_;
  ScopedFd receiver_;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_SOFT_IWARP_TCP_PAIR_TEST_UTIL_H_
