// What happens to devices, ports and reactors while they are in use: everything
// that is under way completes and says what happened, nothing hangs, and other
// connections of the process go on. Runs in a guest (testing/vm), whose devices
// it takes away.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "testing/transport_conformance/conformance_pair.h"
#include "testing/transport_conformance/verbs_factory.h"
#include "transport/reactor/epoll_reactor.h"
#include "transport/verbs/verbs_transport.h"

namespace skiff::testing {
namespace {

struct Device {
  const char* factory;
  const char* name;
  const char* type;
  const char* interface;
  const char* url;
};
constexpr Device kDevices[] = {
    {"verbs_rxe", "rxe0", "rxe", "eth0", "verbs://192.168.77.1:0"},
    {"verbs_siw", "siw0", "siw", "eth1", "verbs://192.168.78.1:0"},
};

void RunCommand(const std::string& command) {
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
}

std::string OutputOf(const std::string& command) {
  std::string output;
  std::FILE* pipe = popen(command.c_str(), "re");
  if (pipe == nullptr) return command + ": cannot be run";
  char buffer[4096];
  size_t got;
  while ((got = std::fread(buffer, 1, sizeof(buffer), pipe)) > 0) {
    output.append(buffer, got);
  }
  pclose(pipe);
  return output;
}

bool Exists(const Device& device) {
  return access(absl::StrCat("/sys/class/infiniband/", device.name).c_str(),
                F_OK) == 0;
}

// A connection of this process over another device.
class Bystander {
 public:
  explicit Bystander(TransportFactory* factory)
      : scale_(factory->scale()),
        world_(factory->MakeWorld().value()),
        client_host_(world_.get(), Side::kConnecting, scale_),
        server_host_(world_.get(), Side::kListening, scale_) {
    const auto listener = server_host_.Listen({});
    EXPECT_TRUE(listener.ok()) << listener.status();
    client_ = EndHandle(
        &client_host_,
        client_host_.Connect(server_host_.ListenAddress(*listener), {}));
    ready_ = Wait([&] {
      const ListenerState state = server_host_.StateOfListener(*listener);
      if (state.ends.empty()) return false;
      server_ = EndHandle(&server_host_, state.ends[0]);
      return client_.State().phase == EndPhase::kOpen &&
             server_.State().phase == EndPhase::kOpen;
    });
    EXPECT_TRUE(ready_) << "the bystander does not connect";
    if (!ready_) return;
    source_ = client_.Memory(100);
    sink_ = server_.Memory(100);
  }
  ~Bystander() {
    client_host_.Finish();
    server_host_.Finish();
  }

  // A message arrives.
  void Serve() {
    if (!ready_) return;
    const Posted receive = server_.Receive({sink_.All()});
    const Posted send = client_.Send({source_.All()});
    EXPECT_TRUE(Wait([&] {
      client_.Poll();
      server_.Poll();
      return client_.Has(send.id) && server_.Has(receive.id);
    })) << "another device's connection has stopped";
    EXPECT_TRUE(client_.State().connected) << client_.State().error;
  }

 private:
  bool Wait(absl::FunctionRef<bool()> done) {
    return world_->RunUntil(done, scale_.patience);
  }

  const ConformanceScale scale_;
  std::unique_ptr<TransportWorld> world_;
  LocalHost client_host_;
  LocalHost server_host_;
  bool ready_ = false;
  EndHandle client_;
  EndHandle server_;
  MemoryHandle source_;
  MemoryHandle sink_;
};

class VerbsFaultTest : public ConformancePair {
 protected:
  const Device& device() const {
    return kDevices[factory().name() == kDevices[0].factory ? 0 : 1];
  }
  TransportFactory* OtherFactory() const {
    return RdmaFactories()[&device() == &kDevices[0] ? 1 : 0];
  }
  // Does not wait: the kernel does, for us to let the device go.
  void RemoveDevice() const {
    RunCommand(absl::StrCat("rdma link delete ", device().name,
                            " </dev/null >/dev/null 2>&1 &"));
  }
  void AddDevice() const {
    RunCommand(absl::StrCat("rdma link add ", device().name, " type ",
                            device().type, " netdev ", device().interface));
  }
  void SetInterface(const char* state) const {
    RunCommand(absl::StrCat("ip link set ", device().interface, " ", state));
  }
  void ExpectUsable() {
    bool usable = false;
    EXPECT_TRUE(Wait([&] {
      for (const auto& report :
           world().transport(Side::kConnecting)->Devices()) {
        usable = usable || (report.usable &&
                            absl::StartsWith(report.name, device().name));
      }
      return usable;
    })) << device().name
        << " is not usable again";
  }
  // The queue pair that Soft-RoCE has for the connection manager does not
  // survive what is sent while the interface is down (Linux 6.1).
  void RenewDevice() {
    SetInterface("up");
    RemoveDevice();
    // Connect()'s. Whoever has nothing on the device does not hear of it.
    EXPECT_TRUE(Wait([&] {
      return !server_host().StateOfListener(0).failure.ok();
    })) << "the listener did not end";
    RenewHosts();
    EXPECT_TRUE(Wait([&] { return !Exists(device()); }))
        << "something still holds " << device().name;
    AddDevice();
    ExpectUsable();
  }
  void ExpectATransfer() {
    const MemoryHandle source = client().Memory(100);
    const MemoryHandle sink = server().Memory(100);
    source.Fill(1);
    const Posted receive = server().Receive({sink.All()});
    Succeed(client(), client().Send({source.All()}), "SEND");
    Succeed(server(), receive, "RECEIVE");
    ExpectBytes(sink, 0, 100, 1);
  }
};

SKIFF_CONFORMANCE_SUITE(VerbsFaultTest, RdmaFactories);

TEST_P(VerbsFaultTest, DeviceRemovedWithEverythingInFlight) {
  {
    Bystander bystander(OtherFactory());
    Connect();
    PutEverythingInFlight(client(), server());
    RemoveDevice();
    for (EndHandle* end : {&client(), &server()}) {
      AwaitEnd(*end);
      EXPECT_TRUE(
          absl::StrContains(end->State().error.message(), device().name))
          << end->State().error;
      // Soft-iWARP ends connections before it is said why.
      if (device().factory == std::string("verbs_siw")) continue;
      EXPECT_TRUE(
          absl::StrContains(end->State().error.message(), "was removed"))
          << end->State().error;
    }
    AwaitAll(client());
    AwaitAll(server());
    EXPECT_TRUE(Wait([&] {
      return client().State().disconnects == 1 &&
             server().State().disconnects == 1;
    })) << "on_disconnect did not run";
    bystander.Serve();
    // What is posted now is refused, and what is registered can go.
    EXPECT_EQ(client().Send({}).result, transport::PostResult::kClosed);
    RenewHosts();
    EXPECT_TRUE(Wait([&] { return !Exists(device()); }))
        << "something still holds " << device().name;
    bystander.Serve();
  }
  // A new device of that name is a new device.
  AddDevice();
  ExpectUsable();
  Connect();
  ASSERT_FALSE(HasFailure());
  ExpectATransfer();
}

TEST_P(VerbsFaultTest, ListenerHearsThatItsDeviceWasRemoved) {
  const auto listener = server_host().Listen({});
  ASSERT_TRUE(listener.ok()) << listener.status();
  const std::string address = server_host().ListenAddress(*listener);
  RemoveDevice();
  EXPECT_TRUE(Wait([&] {
    return !server_host().StateOfListener(*listener).failure.ok();
  })) << "on_failure did not run";
  const absl::Status failure = server_host().StateOfListener(*listener).failure;
  EXPECT_EQ(failure.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StrContains(failure.message(), "listening on")) << failure;
  RenewHosts();
  EXPECT_TRUE(Wait([&] { return !Exists(device()); }))
      << "something still holds " << device().name;
  // Nothing is left to connect by.
  EndPlan plan;
  plan.timeout = absl::Seconds(5);
  const EndHandle end(&client_host(), client_host().Connect(address, plan));
  EXPECT_TRUE(Wait([&] { return end.State().phase == EndPhase::kFailed; }));
  EXPECT_TRUE(absl::StrContains(end.State().status.message(), "192.168."))
      << end.State().status;
  AddDevice();
  ExpectUsable();
}

// It ends with no device, and so does not fail with one.
TEST_P(VerbsFaultTest, ListenerOnAllAddressesServesADeviceThatComesBack) {
  using transport::Address;
  using transport::Endpoint;
  const auto transport = transport::MakeVerbsTransport();
  const auto reactor = transport::EpollReactor::Create().value();
  std::vector<Endpoint> ends;
  const auto take = [&](absl::StatusOr<Endpoint> end) {
    EXPECT_TRUE(end.ok()) << end.status();
    if (end.ok()) ends.push_back(*std::move(end));
  };
  transport::ListenOptions options;
  options.on_failure = [](const absl::Status& why) { ADD_FAILURE() << why; };
  const auto listener = transport->Listen(
      reactor.get(), Address::Parse("verbs://0.0.0.0:0").value(), options,
      [&](std::unique_ptr<transport::ConnectionRequest> request) {
        request->Accept(reactor.get(), {}, take);
      });
  ASSERT_TRUE(listener.ok()) << listener.status();
  Address address = Address::Parse(device().url).value();
  address.port = (*listener)->address().port;
  const auto run_until = [&](absl::FunctionRef<bool()> done) {
    return Wait([&] {
      reactor->Poll();
      return done();
    });
  };
  const auto connect = [&] {
    const auto attempt = transport->Connect(reactor.get(), address, {}, take);
    ASSERT_TRUE(attempt.ok()) << attempt.status();
    EXPECT_TRUE(run_until([&] { return ends.size() == 2; }));
  };
  connect();
  RemoveDevice();
  EXPECT_TRUE(run_until([&] {
    for (const Endpoint& end : ends) {
      if (std::get<1>(end)->connected()) return false;
    }
    return true;
  })) << "the connections do not hear of it";
  ends.clear();
  EXPECT_TRUE(run_until([&] { return !Exists(device()); }))
      << "something still holds " << device().name;
  AddDevice();
  ExpectUsable();
  connect();
}

TEST_P(VerbsFaultTest, PortDownEndsItsConnections) {
  Bystander bystander(OtherFactory());
  Connect();
  PutEverythingInFlight(client(), server());
  SetInterface("down");
  AwaitEnd(client());
  AwaitEnd(server());
  AwaitAll(client());
  AwaitAll(server());
  std::printf("%s: %s\n", device().name,
              client().State().error.ToString().c_str());
  EXPECT_EQ(client().State().error.code(), absl::StatusCode::kUnavailable);
  bystander.Serve();
  RenewDevice();
  Connect();
  ASSERT_FALSE(HasFailure());
  ExpectATransfer();
}

// An idle connection hears of it, too.
TEST_P(VerbsFaultTest, PortDownEndsIdleConnections) {
  Connect();
  const MemoryHandle sink = client().Memory(100);
  const Posted receive = client().Receive({sink.All()});
  SetInterface("down");
  AwaitEnd(client());
  EXPECT_EQ(Await(client(), receive, "RECEIVE").status,
            transport::CompletionStatus::kFlushed);
  AwaitEnd(server());
  RenewDevice();
}

// Programs that the embedding process starts hold none of its devices.
TEST_P(VerbsFaultTest, ProgramsStartedMeanwhileInheritNoDevice) {
  Connect();
  const std::string inherited = OutputOf("ls -l /proc/self/fd/");
  EXPECT_FALSE(absl::StrContains(inherited, "infiniband")) << inherited;
  ExpectATransfer();
}

// The reactor of an embedder ends while a connection is being accepted.
TEST_P(VerbsFaultTest, ReactorGoneInTheMidstOfAnAccept) {
  using transport::Endpoint;
  using transport::EpollReactor;
  const auto transport = transport::MakeVerbsTransport();
  auto reactor = EpollReactor::Create().value();
  auto home = EpollReactor::Create().value();
  const auto watched = std::make_shared<int>(0);
  bool requested = false;
  const auto listener = transport->Listen(
      reactor.get(), transport::Address::Parse(device().url).value(), {},
      [&](std::unique_ptr<transport::ConnectionRequest> request) {
        requested = true;
        request->Accept(home.get(), {}, [watched](const auto& /*made*/) {
          ADD_FAILURE() << "the reactor was never turned again";
        });
      });
  ASSERT_TRUE(listener.ok()) << listener.status();
  auto attempt = transport->Connect(reactor.get(), (*listener)->address(), {},
                                    [](const auto& /*made*/) {});
  ASSERT_TRUE(attempt.ok()) << attempt.status();
  const absl::Time limit = EpollReactor::MonotonicNow() + scale().patience;
  while (!requested && EpollReactor::MonotonicNow() < limit) reactor->Poll();
  ASSERT_TRUE(requested);
  // Answers the request; that the peer has the answer comes in a later turn.
  home->Poll();
  EXPECT_EQ(watched.use_count(), 2) << "the accept is over already";
  home.reset();
  EXPECT_EQ(watched.use_count(), 1) << "the accept goes on without a reactor";
  attempt->reset();
  // They are destroyed by a thread of their own, and Soft-iWARP's connect is
  // given up only when its peer has ended it.
  const absl::Time destroyed = EpollReactor::MonotonicNow() + scale().patience;
  std::string left;
  do {
    reactor->Poll();
    left = OutputOf(absl::StrCat("rdma resource show qp | grep 'link ",
                                 device().name, "/.* pid ", getpid(), " '"));
  } while (!left.empty() && EpollReactor::MonotonicNow() < destroyed);
  EXPECT_EQ(left, "") << "queue pairs are left";
}

}  // namespace
}  // namespace skiff::testing

int main(int argc, char** argv) {
  for (const auto& device : skiff::testing::kDevices) {
    skiff::testing::AddTransportFactory(
        skiff::testing::MakeVerbsFactory(device.factory, device.url));
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
