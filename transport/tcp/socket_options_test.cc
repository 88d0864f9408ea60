#include "transport/tcp/socket_options.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "transport/net/scoped_fd.h"

namespace skiff::transport {
namespace {

int Get(const ScopedFd& fd, int level, int option) {
  int value = -1;
  socklen_t length = sizeof(value);
  EXPECT_EQ(getsockopt(fd.get(), level, option, &value, &length), 0);
  return value;
}

ScopedFd TcpSocket() { return ScopedFd(socket(AF_INET, SOCK_STREAM, 0)); }

TEST(SocketOptionsTest, SetsWhatIsAsked) {
  ScopedFd fd = TcpSocket();
  ConnectOptions options;
  options.keepalive_idle = absl::Milliseconds(10500);
  options.keepalive_interval = absl::Seconds(7);
  options.keepalive_probes = 4;
  options.user_timeout = absl::Milliseconds(1234);
  ASSERT_TRUE(SetConnectionOptions(fd.get(), options).ok());
  EXPECT_EQ(Get(fd, IPPROTO_TCP, TCP_NODELAY), 1);
  EXPECT_EQ(Get(fd, SOL_SOCKET, SO_KEEPALIVE), 1);
  EXPECT_EQ(Get(fd, IPPROTO_TCP, TCP_KEEPIDLE), 11);
  EXPECT_EQ(Get(fd, IPPROTO_TCP, TCP_KEEPINTVL), 7);
  EXPECT_EQ(Get(fd, IPPROTO_TCP, TCP_KEEPCNT), 4);
  EXPECT_EQ(Get(fd, IPPROTO_TCP, TCP_USER_TIMEOUT), 1234);
}

TEST(SocketOptionsTest, ZeroTurnsThemOff) {
  ScopedFd fd = TcpSocket();
  ConnectOptions options;
  options.keepalive_idle = absl::ZeroDuration();
  options.user_timeout = absl::ZeroDuration();
  ASSERT_TRUE(SetConnectionOptions(fd.get(), options).ok());
  EXPECT_EQ(Get(fd, SOL_SOCKET, SO_KEEPALIVE), 0);
  EXPECT_EQ(Get(fd, IPPROTO_TCP, TCP_USER_TIMEOUT), 0);
}

TEST(SocketOptionsTest, HugeDurationsMeetTheKernelsLimits) {
  ScopedFd fd = TcpSocket();
  ConnectOptions options;
  options.keepalive_idle = absl::InfiniteDuration();
  options.keepalive_interval = absl::InfiniteDuration();
  options.keepalive_probes = 1000;
  options.user_timeout = absl::InfiniteDuration();
  absl::Status status = SetConnectionOptions(fd.get(), options);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(Get(fd, IPPROTO_TCP, TCP_KEEPIDLE), 32767);
}

TEST(SocketOptionsTest, ParsesAddressOptions) {
  auto options = ParseTcpOptions(
      *Address::Parse("tcp://[::]?send_buffer=65536&receive_buffer=4096&"
                      "v6only=1"));
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->send_buffer, 65536);
  EXPECT_EQ(options->receive_buffer, 4096);
  EXPECT_TRUE(options->v6only);
}

TEST(SocketOptionsTest, BadAddressOptionsAreNamed) {
  for (const char* option :
       {"color=red", "send_buffer=0", "send_buffer=-1", "receive_buffer=x",
        "receive_buffer=99999999999", "v6only=yes"}) {
    auto options = ParseTcpOptions(
        *Address::Parse(std::string("tcp://127.0.0.1?") + option));
    ASSERT_FALSE(options.ok()) << option;
    const std::string key(option, std::string(option).find('='));
    EXPECT_TRUE(absl::StrContains(options.status().message(), key))
        << options.status();
  }
}

TEST(SocketOptionsTest, SetsBuffers) {
  ScopedFd fd = TcpSocket();
  TcpAddressOptions options;
  options.send_buffer = 30000;
  options.receive_buffer = 20000;
  ASSERT_TRUE(SetBuffers(fd.get(), options).ok());
  // The kernel doubles both, for its own bookkeeping (socket(7)).
  EXPECT_EQ(Get(fd, SOL_SOCKET, SO_SNDBUF), 60000);
  EXPECT_EQ(Get(fd, SOL_SOCKET, SO_RCVBUF), 40000);
}

}  // namespace
}  // namespace skiff::transport
