// A session that moves to the other data model: the initiator comes back over
// another kind of transport while the target still believes in the old one.

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "protocol/driver/end_to_end_test_util.h"

namespace skiff::protocol {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kBytes = 1 << 20;
constexpr char kStream[] = "sim://server:3260";
constexpr char kRdma[] = "sim://server:3260?kind=rdma";

class ReinstatementTest : public ::testing::Test {
 protected:
  ReinstatementTest() : stack_(1, 1, testing::SimRdmaOptions::InfiniBand()) {
    stack_.StopServer();
    stack_.server_options.log = [this](LogLevel, absl::string_view line) {
      log_.emplace_back(line);
    };
    stack_.StartServer();
    const auto also =
        stack_.server->Listen(transport::Address::Parse(kStream).value());
    EXPECT_TRUE(also.ok()) << also.status();
  }

  // The same initiator port, from another host. The host that it was on before
  // is not heard of any more.
  void ComeBackOver(const char* portal, const char* host) {
    InitiatorOptions options = stack_.Options();
    options.portal = transport::Address::Parse(portal).value();
    options.offer.immediate_data = false;
    std::optional<absl::Status> ready;
    if (!hosts_.empty()) {
      stack_.world.network().Blackhole(hosts_.back(), "server");
    }
    hosts_.push_back(host);
    initiators_.push_back(
        Initiator::Create(
            &stack_.registry, stack_.world.AddReactor(host), options,
            [&ready](absl::Status status) { ready = std::move(status); })
            .value());
    // At once: nobody waits for the pings of the old session to fail.
    ASSERT_TRUE(stack_.RunUntil([&ready] { return ready.has_value(); },
                                absl::Seconds(1)));
    ASSERT_TRUE(ready->ok()) << *ready;
  }
  Initiator* initiator() { return initiators_.back().get(); }
  std::string DataModel() { return initiator()->data_model(); }

  void Finish(TestCommand* command) {
    for (;;) {
      command->finished = false;
      initiator()->Submit(&command->command);
      ASSERT_TRUE(stack_.RunUntil([command] { return command->finished; }));
      ASSERT_EQ(command->command.outcome, scsi::Command::Outcome::kCompleted);
      if (command->command.status == 0) return;  // Else a unit attention.
    }
  }
  void Write(char what) {
    TestCommand write(scsi::cdb::Write(0, kBytes / kBlock), 0,
                      std::string(kBytes, what));
    Finish(&write);
  }
  char Read() {
    TestCommand read(scsi::cdb::Read(0, kBytes / kBlock), kBytes);
    Finish(&read);
    EXPECT_TRUE(read.buffer == std::string(kBytes, read.buffer[0]));
    return read.buffer[0];
  }

  std::vector<std::string> log_;
  SimStack stack_;
  std::vector<std::string> hosts_;
  std::vector<std::unique_ptr<Initiator>> initiators_;
};

TEST_F(ReinstatementTest, FromRdmaToTcpAndBack) {
  ComeBackOver(kRdma, "first");
  EXPECT_EQ(DataModel(), "iSER");
  Write('1');
  ComeBackOver(kStream, "second");
  EXPECT_EQ(DataModel(), "iSCSI");
  EXPECT_EQ(Read(), '1');
  Write('2');
  ComeBackOver(kRdma, "third");
  EXPECT_EQ(DataModel(), "iSER");
  EXPECT_EQ(Read(), '2');
  Write('3');
  EXPECT_EQ(Read(), '3');
  EXPECT_THAT(absl::StrJoin(log_, "\n"), HasSubstr("reinstated"));
}

// What the old session had begun to move does not come over what the new one
// wrote.
TEST_F(ReinstatementTest, ATransferThatHangsIsOver) {
  ComeBackOver(kRdma, "first");
  Write('1');
  TestCommand hangs(scsi::cdb::Write(0, kBytes / kBlock), 0,
                    std::string(kBytes, 'x'));
  testing::LinkOptions slow = testing::LinkOptions::Calm();
  slow.bytes_per_second = 10 << 20;
  stack_.world.network().SetLink("first", "server", slow);
  initiator()->Submit(&hangs.command);
  stack_.world.RunFor(absl::Milliseconds(20));
  ASSERT_FALSE(hangs.finished);
  ComeBackOver(kStream, "second");
  Write('2');
  stack_.world.network().Heal("first", "server");
  // Not so long that the first host comes back and sends its command again.
  stack_.world.RunFor(absl::Milliseconds(50));
  EXPECT_EQ(Read(), '2');
  initiators_.clear();  // Ends the command before its memory goes.
}

}  // namespace
}  // namespace skiff::protocol
