// A target whose window is far larger than the send queue of its device.

#include <deque>
#include <memory>
#include <string>

#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "testing/stack/end_to_end_test_util.h"

namespace skiff::protocol {
namespace {

constexpr uint32_t kDepth = 1024;
constexpr uint32_t kTransfer = 128 * 1024;
constexpr uint64_t kCommands = 4 * kDepth;

// Reads all the time, everything into the same memory.
class Reads {
 public:
  explicit Reads(scsi::CommandPort* port)
      : port_(port), buffer_(kTransfer, '\xee') {
    iov_ = {buffer_.data(), buffer_.size()};
    for (scsi::Command& command : commands_) {
      SetCdb(scsi::cdb::Read(0, kTransfer / kBlock), &command);
      command.data_in = &iov_;
      command.data_in_count = 1;
      command.data_in_length = kTransfer;
      command.context = this;
      command.done = [](scsi::Command* done) {
        static_cast<Reads*>(done->context)->OnDone(done);
      };
    }
  }
  void Start() {
    for (scsi::Command& command : commands_) port_->Submit(&command);
  }
  bool done() const { return good_ + bad_ == kCommands + kDepth; }
  uint64_t bad() const { return bad_; }

 private:
  void OnDone(scsi::Command* command) {
    const bool good = command->outcome == scsi::Command::Outcome::kCompleted &&
                      command->status == 0;
    ++(good ? good_ : bad_);
    if (good_ + bad_ <= kCommands) port_->Submit(command);
  }

  scsi::CommandPort* const port_;
  std::string buffer_;
  iovec iov_;
  std::deque<scsi::Command> commands_ = std::deque<scsi::Command>(kDepth);
  uint64_t good_ = 0;
  uint64_t bad_ = 0;
};

// Nearly all of the responses wait behind RDMA Writes. Each that leaves lets
// another command come, which must find a receive: on iWARP, one that does not
// ends the connection.
TEST(IserDeepQueueTest, ResponsesThatWaitHoldBackNoReceives) {
  testing::SimRdmaOptions fabric = testing::SimRdmaOptions::Iwarp();
  fabric.capabilities.max_receive_queue = 4 * kDepth;
  fabric.capabilities.max_send_queue = 4 * kDepth;  // The target uses 256.
  SimStack stack(1, 1, fabric);
  testing::LinkOptions link;
  link.bytes_per_second = uint64_t{1} << 30;
  stack.world.network().SetDefaultLink(link);
  stack.StopServer();
  stack.server_options.limits.session.queue_depth = kDepth;
  stack.StartServer();
  InitiatorOptions options = stack.Options();
  options.max_commands = kDepth;
  // The commands do not wait for acknowledgements behind the data.
  options.connect.send_queue = 4 * kDepth;
  stack.LogIn(options);
  TestCommand ready(scsi::cdb::TestUnitReady(), 0);  // A unit attention.
  stack.Run(&ready.command);

  Reads reads(stack.initiator.get());
  reads.Start();
  EXPECT_TRUE(stack.RunUntil([&] { return reads.done(); }));
  EXPECT_EQ(reads.bad(), 0u);
  EXPECT_EQ(stack.initiator->stats().reconnects, 0u)
      << absl::StrJoin(stack.log, "\n");
}

}  // namespace
}  // namespace skiff::protocol
