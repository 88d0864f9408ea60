// The settings of the transport that only iWARP has use for. For a machine with
// such a device, whose address is in the environment.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "transport/libfabric/fabric/libfabric_options.h"
#include "transport/libfabric/libfabric_test_util.h"
#include "transport/net/scoped_fd.h"

namespace skiff::transport {
namespace {

// A connect under way, to somebody who takes the TCP connection and never says
// a word. The kernel does not let go of such a one by itself for ten seconds.
class IwarpOptionsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* const host = std::getenv("SKIFF_VM_IWARP_ADDRESS");
    ASSERT_NE(host, nullptr) << "no device has an address";
    sockaddr_in address = {};
    socklen_t length = sizeof(address);
    address.sin_family = AF_INET;
    ASSERT_EQ(inet_pton(AF_INET, host, &address.sin_addr), 1);
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    ASSERT_EQ(bind(silent_.get(), generic, length), 0);
    ASSERT_EQ(listen(silent_.get(), 1), 0);
    ASSERT_EQ(getsockname(silent_.get(), generic, &length), 0);
    peer_ =
        Address::Parse(absl::StrCat("libfabric://", host, ":",
                                    ntohs(address.sin_port), "?provider=verbs"))
            .value();
  }

  // How long it takes to give up a connect whose request has been sent.
  absl::Duration GivingUp(const LibfabricOptions& settings) {
    const auto transport = MakeLibfabricTransport(settings);
    auto attempt = transport->Connect(
        reactor_.get(), peer_, {},
        [](const auto& endpoint) { ADD_FAILURE() << endpoint.status(); });
    EXPECT_TRUE(attempt.ok()) << attempt.status();
    if (!attempt.ok()) return absl::ZeroDuration();
    const absl::Time limit = EpollReactor::MonotonicNow() + absl::Seconds(20);
    while (!Requested() && EpollReactor::MonotonicNow() < limit) {
      reactor_->Poll();
    }
    EXPECT_TRUE(Requested()) << "no request comes";
    const absl::Time start = EpollReactor::MonotonicNow();
    attempt->reset();
    return EpollReactor::MonotonicNow() - start;
  }
  bool Requested() {
    if (taken_.get() < 0) {
      taken_ = ScopedFd(accept4(silent_.get(), nullptr, nullptr,
                                SOCK_NONBLOCK | SOCK_CLOEXEC));
    }
    char byte = 0;
    return recv(taken_.get(), &byte, 1, MSG_PEEK) == 1;
  }

  const std::unique_ptr<EpollReactor> reactor_ = EpollReactor::Create().value();
  Address peer_;
  // These go first, and with them what the kernel waits for.
  ScopedFd silent_{
      socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
  ScopedFd taken_;
};

TEST_F(IwarpOptionsTest, GivingUpHoldsTheReactorSoLong) {
  LibfabricOptions settings;
  settings.close_grace = absl::Milliseconds(700);
  EXPECT_GE(GivingUp(settings), absl::Milliseconds(690));
}

TEST_F(IwarpOptionsTest, ItsEndIsLookedForSoOften) {
  LibfabricOptions settings;
  settings.closing_interval = absl::Hours(1);
  GivingUp(settings);
  while (reactor_->NextDeadline() <= EpollReactor::MonotonicNow()) {
    reactor_->Poll();
  }
  const absl::Duration sleeps =
      reactor_->NextDeadline() - EpollReactor::MonotonicNow();
  EXPECT_GT(sleeps, absl::Minutes(30));
  EXPECT_LE(sleeps, absl::Hours(1));
}

}  // namespace
}  // namespace skiff::transport
