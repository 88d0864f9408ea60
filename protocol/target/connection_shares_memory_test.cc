// What is counted where memory runs out in the middle.

#include <cstdint>
#include <new>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "protocol/target/connection_shares.h"
#include "testing/refusing_memory.h"

namespace skiff::protocol {
namespace {

bool Always() { return true; }

// Each `n`th allocation is refused.
class RefuseEach {
 public:
  explicit RefuseEach(uint32_t n) { testing::RefuseAllEvery(n, &Always); }
  ~RefuseEach() { testing::RefuseAllEvery(0, nullptr); }
};

ConnectionLimits Limits() {
  ConnectionLimits limits;
  limits.max_connections = 20;
  limits.max_connections_in_login = 8;
  limits.max_discovery_sessions = 6;
  limits.max_logins_per_peer = 2;
  limits.max_discovery_per_peer = 2;
  limits.max_sessions_per_peer = 2;
  return limits;
}

// Long names, so that each copy of one is an allocation.
std::string Host(int n) { return absl::StrCat("host-with-a-long-name-", n); }
std::string Initiator(int n) {
  return absl::StrCat("iqn.2001-04.com.example:with-a-long-name-", n);
}

class ConnectionSharesMemoryTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  // All that a connection does. Whether memory sufficed.
  bool Live(ConnectionShares::Id id, int peer, bool discovery) {
    const std::string address = absl::StrCat(Host(peer), ":1");
    const std::string initiator = Initiator(peer);
    now_ += absl::Seconds(2);
    try {
      const RefuseEach refuse(GetParam());
      shares_.Arrive(id, address, now_,
                     [this](absl::string_view) { ++evicted_; });
      shares_.Identify(id, initiator, now_);
      shares_.Enter(id, discovery, now_);
    } catch (const std::bad_alloc&) {
      return false;
    }
    return true;
  }

  absl::Time now_ = absl::UnixEpoch();
  int evicted_ = 0;
  ConnectionShares shares_{Limits()};
};

TEST_P(ConnectionSharesMemoryTest, NobodyIsCountedForEver) {
  constexpr int kConnections = 60;
  int failed = 0;
  for (int id = 1; id <= kConnections; ++id) {
    if (!Live(id, id % 3, id % 2 == 0)) ++failed;
  }
  EXPECT_GT(failed, 0);
  for (int id = 1; id <= kConnections; ++id) shares_.Gone(id);
  // Each peer has all of its places again.
  for (int id = 101; id <= 106; ++id) {
    EXPECT_EQ(shares_.Arrive(id, absl::StrCat(Host(id % 3), ":1"), now_,
                             [](absl::string_view) {}),
              "");
    EXPECT_EQ(shares_.Identify(id, Initiator(id % 3), now_), "");
    EXPECT_EQ(shares_.Enter(id, /*discovery=*/false, now_), "");
  }
}

INSTANTIATE_TEST_SUITE_P(EachAllocation, ConnectionSharesMemoryTest,
                         ::testing::Range(1u, 8u));

}  // namespace
}  // namespace skiff::protocol
