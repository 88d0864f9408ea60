// auto:// over RDMA devices: what it chooses, what it says of that, and what it
// does when the peer has less. Runs in a guest (testing/vm).

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "transport/auto/auto_transport.h"
#include "transport/libfabric/libfabric_transport.h"
#include "transport/reactor/epoll_reactor.h"
#include "transport/registry.h"
#include "transport/tcp/tcp_transport.h"
#include "transport/verbs/verbs_transport.h"

namespace skiff::testing {
namespace {

using transport::Address;
using transport::ByteStream;
using transport::ChoiceEntry;
using transport::ChoiceOutcome;
using transport::ChoiceReport;
using transport::ConnectionRequest;
using transport::ConnectOptions;
using transport::Endpoint;
using transport::EpollReactor;
using transport::Listener;
using transport::RdmaEndpoint;
using transport::Registry;

constexpr absl::Duration kPatience = absl::Seconds(30);

struct Device {
  const char* name;
  const char* interface;
  const char* address;
  bool iwarp;
};
constexpr Device kDevices[] = {
    {"rxe0", "eth0", "192.168.77.1", false},
    {"siw0", "eth1", "192.168.78.1", true},
};
// The other one.
const Device& OtherThan(const Device& device) {
  return kDevices[device.iwarp ? 0 : 1];
}

class AutoChoiceTest : public ::testing::TestWithParam<Device> {
 protected:
  void SetUp() override {
    // As the programs have them.
    ASSERT_TRUE(registry_.Add(transport::MakeVerbsTransport()).ok());
    ASSERT_TRUE(registry_.Add(transport::MakeLibfabricTransport()).ok());
    ASSERT_TRUE(registry_.Add(transport::MakeTcpTransport()).ok());
    ASSERT_TRUE(registry_
                    .Add(transport::MakeAutoTransport(
                        &registry_,
                        [this](const ChoiceReport& report) {
                          reports_.push_back(report);
                        }))
                    .ok());
  }

  bool RunUntil(const std::function<bool()>& done) {
    const absl::Time limit = EpollReactor::MonotonicNow() + kPatience;
    while (!done()) {
      if (EpollReactor::MonotonicNow() > limit) return false;
      reactor_->Poll();
    }
    return true;
  }
  Address At(const std::string& scheme, int port,
             const std::string& options = "") const {
    return Address::Parse(absl::StrCat(scheme, "://", GetParam().address, ":",
                                       port, options))
        .value();
  }
  // Its port; fails the test, and is 0, if it does not listen.
  int Listen(const Address& address) {
    auto made =
        registry_.Find(address.scheme)
            .value()
            ->Listen(reactor_.get(), address, {},
                     [this](std::unique_ptr<ConnectionRequest> request) {
                       request->Accept(
                           reactor_.get(), {}, [this](auto accepted) {
                             if (accepted.ok())
                               ends_.push_back(*std::move(accepted));
                           });
                     });
    EXPECT_TRUE(made.ok()) << made.status();
    if (!made.ok()) return 0;
    const int port = (*made)->address().port;
    listeners_.push_back(*std::move(made));
    return port;
  }
  // Connects by auto.
  absl::StatusOr<Endpoint> Connect(const Address& address,
                                   absl::Duration timeout = kPatience) {
    std::optional<absl::StatusOr<Endpoint>> result;
    ConnectOptions options;
    options.timeout = timeout;
    auto attempt = registry_.Find("auto").value()->Connect(
        reactor_.get(), address, options,
        [&](absl::StatusOr<Endpoint> made) { result = std::move(made); });
    if (!attempt.ok()) return attempt.status();
    if (!RunUntil([&] { return result.has_value(); })) {
      return absl::InternalError("neither a connection nor an error");
    }
    return *std::move(result);
  }
  static RdmaEndpoint* Rdma(const absl::StatusOr<Endpoint>& made) {
    const auto* end = made.ok()
                          ? std::get_if<std::unique_ptr<RdmaEndpoint>>(&*made)
                          : nullptr;
    return end == nullptr ? nullptr : end->get();
  }
  static bool IsStream(const absl::StatusOr<Endpoint>& made) {
    return made.ok() &&
           std::holds_alternative<std::unique_ptr<ByteStream>>(*made);
  }
  // Of the last report: the entry of a transport that names the device, or any
  // one if that is empty.
  const ChoiceEntry* Entry(const std::string& scheme,
                           const std::string& device = "") const {
    for (const ChoiceEntry& entry : reports_.back().entries) {
      if (entry.scheme == scheme && absl::StrContains(entry.devices, device)) {
        return &entry;
      }
    }
    ADD_FAILURE() << "no " << scheme << " " << device << " in\n"
                  << reports_.back().ToString();
    return nullptr;
  }

  std::unique_ptr<EpollReactor> reactor_ = EpollReactor::Create().value();
  Registry registry_;
  std::vector<ChoiceReport> reports_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::vector<Endpoint> ends_;
};

INSTANTIATE_TEST_SUITE_P(Devices, AutoChoiceTest, ::testing::ValuesIn(kDevices),
                         [](const auto& info) {
                           return std::string(info.param.name);
                         });

TEST_P(AutoChoiceTest, TakesVerbs) {
  const int port = Listen(At("verbs", 0));
  const auto made = Connect(At("auto", port));
  ASSERT_TRUE(made.ok()) << made.status();
  RdmaEndpoint* const end = Rdma(made);
  ASSERT_NE(end, nullptr);
  EXPECT_TRUE(
      absl::StartsWith(end->path(), absl::StrCat(GetParam().name, " port 1")))
      << end->path();
  const ChoiceReport& report = reports_.back();
  ASSERT_NE(report.chosen(), nullptr);
  EXPECT_EQ(report.chosen(), Entry("verbs"));
  EXPECT_EQ(report.chosen()->rank, 1);
  EXPECT_EQ(report.chosen()->devices, "rxe0 port 1, siw0 port 1");
  EXPECT_FALSE(report.fell_back());
  // And what was not chosen.
  EXPECT_EQ(Entry("tcp", GetParam().interface)->reason,
            "verbs succeeded first");
  for (const Device& device : kDevices) {
    EXPECT_EQ(Entry("libfabric", absl::StrCat("verbs/", device.name))->reason,
              "verbs has the same device");
  }
  for (const ChoiceEntry& entry : report.entries) {
    if (!entry.emulated) continue;
    EXPECT_EQ(entry.outcome, ChoiceOutcome::kSkipped) << report.ToString();
    EXPECT_TRUE(absl::StrContains(entry.reason, "emulates RDMA"))
        << entry.reason;
  }
}

// The peer speaks TCP only.
TEST_P(AutoChoiceTest, FallsBackToTcpAndSaysWhy) {
  const int port = Listen(At("tcp", 0));
  const auto made = Connect(At("auto", port));
  ASSERT_TRUE(IsStream(made)) << made.status();
  const ChoiceReport& report = reports_.back();
  EXPECT_TRUE(report.fell_back());
  EXPECT_EQ(report.chosen(), Entry("tcp")) << report.ToString();
  const ChoiceEntry* verbs = Entry("verbs");
  EXPECT_TRUE(absl::StrContains(report.WhyNoRdma(), verbs->reason))
      << report.WhyNoRdma();
  if (GetParam().iwarp) {
    // It reaches TCP's listener, which does not answer, and runs until TCP has
    // its turn.
    EXPECT_EQ(verbs->outcome, ChoiceOutcome::kTried);
    EXPECT_EQ(verbs->reason, "tcp succeeded first");
    EXPECT_GE(report.took, absl::Seconds(1));
  } else {
    EXPECT_EQ(verbs->outcome, ChoiceOutcome::kFailed);
    EXPECT_TRUE(absl::StrContains(verbs->reason, GetParam().address))
        << verbs->reason;
  }
  EXPECT_LT(report.took, absl::Seconds(10)) << report.ToString();
}

TEST_P(AutoChoiceTest, RequiredRdmaDoesNotFallBack) {
  const int port = Listen(At("tcp", 0));
  const auto made =
      Connect(At("auto", port, "?rdma=require"), absl::Seconds(3));
  ASSERT_FALSE(made.ok());
  EXPECT_TRUE(absl::StrContains(made.status().message(), "verbs rxe0 port 1"))
      << made.status();
  EXPECT_TRUE(absl::StrContains(made.status().message(), "rdma=require"))
      << made.status();
  EXPECT_EQ(reports_.back().chosen(), nullptr);
}

TEST_P(AutoChoiceTest, RdmaCanBeSwitchedOff) {
  const int port = Listen(At("tcp", 0));
  const auto made = Connect(At("auto", port, "?rdma=off"));
  ASSERT_TRUE(IsStream(made)) << made.status();
  EXPECT_EQ(Entry("verbs", "rxe0")->reason, "RDMA is switched off (rdma=off)");
  EXPECT_FALSE(reports_.back().fell_back());
}

// RoCE shares the number of TCP's port, iWARP lives on TCP's ports.
TEST_P(AutoChoiceTest, ListensByAllThatCanShareAPort) {
  const int port = Listen(At("auto", 0));
  ASSERT_NE(port, 0);
  const ChoiceEntry* verbs = Entry("verbs");
  EXPECT_EQ(Entry("tcp")->outcome, ChoiceOutcome::kSucceeded);
  if (GetParam().iwarp) {
    EXPECT_EQ(verbs->outcome, ChoiceOutcome::kFailed);
    EXPECT_TRUE(absl::StrContains(verbs->reason, "in use")) << verbs->reason;
    EXPECT_TRUE(IsStream(Connect(At("auto", port))));
    return;
  }
  EXPECT_EQ(verbs->outcome, ChoiceOutcome::kSucceeded) << verbs->reason;
  const auto made = Connect(At("auto", port));
  ASSERT_NE(Rdma(made), nullptr) << made.status();
}

// A device whose link is down is not tried, and that is said.
TEST_P(AutoChoiceTest, LeavesOutWhatIsDown) {
  const Device& other = OtherThan(GetParam());
  const int port = Listen(At("verbs", 0));
  const auto set = [&](const char* state) {
    const std::string command =
        absl::StrCat("ip link set ", other.interface, " ", state);
    EXPECT_EQ(std::system(command.c_str()), 0);
  };
  set("down");
  const auto made = Connect(At("auto", port));
  set("up");
  ASSERT_NE(Rdma(made), nullptr) << made.status();
  EXPECT_EQ(reports_.back().chosen()->devices,
            absl::StrCat(GetParam().name, " port 1"));
  const ChoiceEntry* down = Entry("verbs", other.name);
  EXPECT_EQ(down->outcome, ChoiceOutcome::kSkipped);
  EXPECT_TRUE(absl::StrContains(down->reason, "the link is down"))
      << down->reason;
  for (const ChoiceEntry& entry : reports_.back().entries) {
    if (entry.scheme != "libfabric" || entry.emulated) continue;
    EXPECT_EQ(entry.rank, 0) << reports_.back().ToString();
  }
}

}  // namespace
}  // namespace skiff::testing
