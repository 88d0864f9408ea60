// A device of libfabric's verbs provider that is removed, and comes back. In a
// guest with both devices: librdmacm lets a removed device go only where there
// is another one. The parameter is the device.

#include <unistd.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "transport/libfabric/libfabric_test_util.h"

namespace skiff::transport {
namespace {

class RemovedDeviceTest : public LibfabricTest {
 protected:
  struct Device {
    std::string name;
    std::string type;
    std::string interface;
    std::string address;
  };

  void SetUp() override {
    other_ = {"siw0", "siw", "eth1", "192.168.78.1"};
    device_ = {"rxe0", "rxe", "eth0", "192.168.77.1"};
    if (GetParam() == other_.name) std::swap(device_, other_);
  }
  void TearDown() override { LetGo(); }

  void LetGo() {
    client_.reset();
    server_.reset();
    requests_.clear();
    listener_.reset();
    buffers_.clear();
  }
  void ListenOnDevice() { ListenOn(device_); }
  void ListenOn(const Device& device) {
    ListenOptions options;
    options.on_failure = [this](absl::Status why) {
      failure_ = std::move(why);
    };
    auto listener = transport_->Listen(
        reactor_.get(),
        Address::Parse(
            absl::StrCat("libfabric://", device.address, ":0?provider=verbs"))
            .value(),
        options, [this](std::unique_ptr<ConnectionRequest> request) {
          requests_.push_back(std::move(request));
        });
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
  }
  // Does not wait: the kernel does, for us to let the device go.
  void Remove() const {
    Run(absl::StrCat("rdma link delete ", device_.name,
                     " </dev/null >/dev/null 2>&1 &"));
  }
  void Add() const {
    Run(absl::StrCat("rdma link add ", device_.name, " type ", device_.type,
                     " netdev ", device_.interface));
  }
  static void Run(const std::string& command) {
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
  }
  bool Exists() const {
    return access(absl::StrCat("/sys/class/infiniband/", device_.name).c_str(),
                  F_OK) == 0;
  }

  void ExpectTransfer() {
    TestBuffer& near = Memory(client_.get(), 100, 'n');
    TestBuffer& far = Memory(server_.get(), 100, 'f');
    ASSERT_EQ(server_->PostReceive(OperationId{1}, {far.Part(0, 100)}),
              PostResult::kAccepted);
    ASSERT_EQ(client_->PostSend(OperationId{2}, {near.Part(0, 100)}),
              PostResult::kAccepted);
    EXPECT_EQ(Next(client_.get()).status, CompletionStatus::kOk);
    EXPECT_EQ(Next(server_.get()).status, CompletionStatus::kOk);
    EXPECT_EQ(far.text(), near.text());
  }

  void ExpectLetGo() {
    LetGo();
    EXPECT_TRUE(RunUntil([&] { return !Exists(); }))
        << "something still holds " << device_.name;
  }
  // The new one of that name is another device.
  void ExpectNewOneWorks() {
    Add();
    ASSERT_NO_FATAL_FAILURE(ListenOnDevice());
    ASSERT_NO_FATAL_FAILURE(ConnectPair());
    ExpectTransfer();
  }

  Device device_;
  Device other_;
  absl::Status failure_;
};

INSTANTIATE_TEST_SUITE_P(Devices, RemovedDeviceTest,
                         ::testing::Values("rxe0", "siw0"), ProviderName);

TEST_P(RemovedDeviceTest, ItsConnectionsSaySoAndLetItGo) {
  ASSERT_NO_FATAL_FAILURE(ListenOnDevice());
  ASSERT_NO_FATAL_FAILURE(ConnectPair());
  ExpectTransfer();
  MemoryDomain* const domain = client_->domain();
  EXPECT_FALSE(domain->removed());
  Remove();
  EXPECT_TRUE(RunUntil([&] { return domain->removed(); }));
  EXPECT_TRUE(RunUntil([&] {
    return !client_->connected() && !server_->connected() && !failure_.ok();
  })) << client_->error()
      << server_->error() << failure_;
  ExpectLetGo();
  ExpectNewOneWorks();
}

TEST_P(RemovedDeviceTest, ItsListenerSaysSoAndLetsItGo) {
  ASSERT_NO_FATAL_FAILURE(ListenOnDevice());
  Remove();
  EXPECT_TRUE(RunUntil([&] { return !failure_.ok(); }));
  ExpectLetGo();
  ExpectNewOneWorks();
}

// Whoever keeps nothing but memory asks, and needs the device until then.
TEST_P(RemovedDeviceTest, MemoryWithoutConnectionsHearsOfItAndStaysValid) {
  ASSERT_NO_FATAL_FAILURE(ListenOnDevice());
  ASSERT_NO_FATAL_FAILURE(ConnectPair());
  ExpectTransfer();
  MemoryDomain* const domain = client_->domain();
  client_.reset();
  server_.reset();
  listener_.reset();
  RunFor(absl::Seconds(2));
  EXPECT_FALSE(domain->removed());
  Remove();
  EXPECT_TRUE(RunUntil([&] { return domain->removed(); }));
  // librdmacm looks for devices here.
  ASSERT_NO_FATAL_FAILURE(ListenOn(other_));
  EXPECT_TRUE(Exists()) << "the memory is registered with it";
  ExpectLetGo();
  Add();
}

}  // namespace
}  // namespace skiff::transport
