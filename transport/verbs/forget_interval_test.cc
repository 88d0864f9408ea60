// librdmacm is made to look for devices that are gone, which costs a reactor
// nothing. In a guest, whose device is removed.

#include <cstdlib>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "transport/reactor/epoll_reactor.h"
#include "transport/verbs/verbs_options.h"
#include "transport/verbs/verbs_transport.h"

namespace skiff::transport {
namespace {

TEST(ForgetIntervalTest, NoReactorLooksForRemovedDevices) {
  const char* const host = std::getenv("SKIFF_VM_ROCE_ADDRESS");
  ASSERT_NE(host, nullptr) << "no device has an address";
  VerbsOptions settings;
  settings.forget_interval = absl::Hours(1);
  settings.forget_removed_for = absl::Hours(2);
  const auto transport = MakeVerbsTransport(settings);
  const auto reactor = EpollReactor::Create().value();
  bool ended = false;
  ListenOptions options;
  options.on_failure = [&ended](const absl::Status& /*why*/) { ended = true; };
  const auto listener = transport->Listen(
      reactor.get(),
      Address::Parse(absl::StrCat("verbs://", host, ":0")).value(), options,
      [](const std::unique_ptr<ConnectionRequest>& /*request*/) {});
  ASSERT_TRUE(listener.ok()) << listener.status();
  // The kernel waits for everybody to let the device go.
  ASSERT_EQ(std::system("rdma link delete rxe0 </dev/null >/dev/null 2>&1 &"),
            0);
  const absl::Time limit = EpollReactor::MonotonicNow() + absl::Seconds(60);
  while (!ended || reactor->NextDeadline() <= EpollReactor::MonotonicNow()) {
    ASSERT_LT(EpollReactor::MonotonicNow(), limit) << ended;
    reactor->Poll();
  }
  EXPECT_EQ(reactor->NextDeadline(), absl::InfiniteFuture());
}

}  // namespace
}  // namespace skiff::transport
