#include "transport/soft_iwarp/tcp_arrivals.h"

#include <string>

#include "gtest/gtest.h"
#include "transport/soft_iwarp/tcp_pair_test_util.h"

namespace skiff::transport {
namespace {

// The parameter is a loopback address.
class TcpArrivalsTest : public ::testing::TestWithParam<const char*> {};

TEST_P(TcpArrivalsTest, SaysWhatCameAndWhatLiesThere) {
  const TcpPair pair(GetParam());
  const auto expect = [&pair](uint64_t bytes, uint32_t unread) {
    const auto found = QueryTcpArrivals(pair.local(), pair.peer());
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->bytes, bytes);
    EXPECT_EQ(found->unread, unread);
  };
  expect(0, 0);
  pair.Send("12345");
  expect(5, 5);
  pair.ReceiveByte();
  expect(5, 4);
}

// As those of a listener on all addresses of a device.
TEST_P(TcpArrivalsTest, FindsASocketThatIsBoundToItsInterface) {
  const TcpPair pair(GetParam());
  // Everybody may, since Linux 5.7.
  ASSERT_TRUE(pair.BindToInterface("lo"));
  pair.Send("12345");
  const auto found = QueryTcpArrivals(pair.local(), pair.peer());
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->unread, 5);
}

TEST_P(TcpArrivalsTest, DoesNotTakeAListenerForTheConnection) {
  const SocketAddress any = ParseLiteral(GetParam(), 0).value();
  const ScopedFd listener(socket(any.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(bind(listener.get(), any.get(), any.length), 0);
  ASSERT_EQ(listen(listener.get(), 1), 0);
  EXPECT_EQ(QueryTcpArrivals(LocalAddress(listener.get()),
                             ParseLiteral(GetParam(), 1).value())
                .status()
                .code(),
            absl::StatusCode::kNotFound);
}

TEST_P(TcpArrivalsTest, KnowsNoOther) {
  const SocketAddress nobody = ParseLiteral(GetParam(), 1).value();
  EXPECT_EQ(QueryTcpArrivals(nobody, nobody).status().code(),
            absl::StatusCode::kNotFound);
}

INSTANTIATE_TEST_SUITE_P(Families, TcpArrivalsTest,
                         ::testing::Values("127.0.0.1", "::1"),
                         [](const auto& info) {
                           return std::string(info.param) == "::1" ? "IPv6"
                                                                   : "IPv4";
                         });

}  // namespace
}  // namespace skiff::transport
