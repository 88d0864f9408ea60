// A target on iWARP against an initiator that writes where RDMA Reads have
// shown it memory of the target's (RFC 5040 section 4.4).

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "testing/stack/iser_raw_initiator_test_util.h"

namespace skiff::protocol {
namespace {

using testing::SimRdmaOptions;
using transport::RemoteBuffer;
using Sinks = std::vector<RemoteBuffer>;

SimRdmaOptions IwarpThatShows(std::shared_ptr<Sinks> sinks) {
  SimRdmaOptions fabric = SimRdmaOptions::Iwarp();
  fabric.shown_sinks = std::move(sinks);
  return fabric;
}

TargetServerOptions Server(bool lasting_keys) {
  TargetServerOptions options;
  options.rdma.lasting_keys = lasting_keys;
  return options;
}

// The parameter: lasting keys.
class ReadSinkTest : public RawInitiatorTest {
 protected:
  static constexpr uint32_t kWritten = 4096;

  ReadSinkTest() : ReadSinkTest(std::make_shared<Sinks>()) {}
  explicit ReadSinkTest(const std::shared_ptr<Sinks>& sinks)
      : RawInitiatorTest(IwarpThatShows(sinks), Server(GetParam()),
                         MakeRamTarget(/*thin=*/false)),
        sinks_(sinks) {}

  // Where the data of a write went, which is done.
  RemoteBuffer SinkOfAWrite() {
    const auto memory = Buffer(kWritten, transport::Access::kRemoteRead);
    peer_.Send(ToIser(Command(0, kWritten), "", Reading(memory->Remote())));
    EXPECT_TRUE(peer_.Next().has_value());
    EXPECT_FALSE(sinks_->empty());
    return sinks_->empty() ? RemoteBuffer() : sinks_->back();
  }
  // The medium behind what the command wrote.
  std::string Rest() {
    TestCommand read(scsi::cdb::Read(0, kFilled), kFilled * kBlock);
    stack_.Run(&read.command);
    EXPECT_EQ(read.command.status, 0);
    return read.buffer.substr(kWritten);
  }

  const std::shared_ptr<Sinks> sinks_;
};

INSTANTIATE_TEST_SUITE_P(Keys, ReadSinkTest, ::testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "Lasting" : "OfEachRead";
                         });

TEST_P(ReadSinkTest, OnlyLastingKeysLetInitiatorsWriteElsewhere) {
  LogIn();
  const RemoteBuffer sink = SinkOfAWrite();
  const std::string before = Rest();
  peer_.Write(std::string(kBlock, '!'), {sink.address + kWritten, sink.key});
  stack_.world.RunFor(absl::Milliseconds(100));
  peer_.Poll();
  const bool lasting = GetParam();
  EXPECT_EQ(peer_.connected(), lasting);
  EXPECT_EQ(Rest() != before, lasting);
}

TEST_P(ReadSinkTest, OnlyLastingKeysStayWhenTheWriteIsDone) {
  LogIn();
  const RemoteBuffer sink = SinkOfAWrite();
  peer_.Write(std::string(kBlock, '!'), sink);
  stack_.world.RunFor(absl::Milliseconds(100));
  peer_.Poll();
  EXPECT_EQ(peer_.connected(), GetParam());
}

}  // namespace
}  // namespace skiff::protocol
