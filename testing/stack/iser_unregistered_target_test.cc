// Commands whose data the target's device cannot move, as it does not register
// the target's memory: they alone end in CHECK CONDITION.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "protocol/datamover/iser/iser_datamover.h"
#include "scsi/initiator/scsi_error.h"
#include "testing/stack/end_to_end_test_util.h"
#include "testing/stack/exchange_target.h"
#include "testing/stack/fabrics.h"

namespace skiff::protocol {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What the target registers at once, of longer data a piece at a time.
constexpr uint32_t kPiece = 256 * 1024;
static_assert(kPiece == IserDatamoverOptions().max_rdma_bytes);
constexpr uint32_t kLong = 2 * kPiece + kPiece / 2;
constexpr uint32_t kShort = 16 * 1024;
constexpr char kNoResources[] =
    "CHECK CONDITION: ABORTED COMMAND, INSUFFICIENT RESOURCES (55h/03h)";

// Its initiator's memory is registered once, that of the target's thin disk for
// every operation.
class UnregisteredTargetTest : public ::testing::TestWithParam<Fabric> {
 protected:
  // A command whose data are in that memory.
  class Transfer {
   public:
    Transfer(char* data, uint32_t size) : iov_{data, size} {}
    Transfer(const Transfer&) = delete;
    Transfer& operator=(const Transfer&) = delete;

    void Read() { Start(/*write=*/false); }
    void Write() { Start(/*write=*/true); }
    char* data() const { return static_cast<char*>(iov_.iov_base); }
    uint32_t size() const { return static_cast<uint32_t>(iov_.iov_len); }
    std::string result() const {
      return std::string(scsi::CommandStatus(command).message());
    }

    scsi::Command command;
    bool finished = false;

   private:
    void Start(bool write) {
      const uint64_t blocks = size() / kBlock;
      SetCdb(write ? scsi::cdb::Write(0, blocks) : scsi::cdb::Read(0, blocks),
             &command);
      (write ? command.data_out : command.data_in) = &iov_;
      (write ? command.data_out_count : command.data_in_count) = 1;
      (write ? command.data_out_length : command.data_in_length) = size();
      command.context = this;
      command.done = [](scsi::Command* done) {
        static_cast<Transfer*>(done->context)->finished = true;
      };
    }

    iovec iov_;
  };

  UnregisteredTargetTest()
      : UnregisteredTargetTest(std::make_shared<size_t>(size_t{1} << 40)) {}
  explicit UnregisteredTargetTest(const std::shared_ptr<size_t>& lockable)
      : lockable_(lockable),
        stack_(1, 1, Device(lockable)),
        memory_(std::make_shared<std::string>(8 << 20, '\xee')) {}

  void LogIn() {
    stack_.StopServer();
    stack_.server_options.log = [this](LogLevel level, absl::string_view line) {
      if (level == LogLevel::kWarning) warnings_.emplace_back(line);
    };
    stack_.StartServer();
    InitiatorOptions options = stack_.Options();
    options.rdma.lasting_keys = true;
    stack_.LogIn(options);
    ASSERT_TRUE(
        stack_.initiator->UseMemory(memory_->data(), memory_->size(), memory_)
            .ok());
    TestCommand ready(scsi::cdb::TestUnitReady(), 0);  // A unit attention.
    stack_.Run(&ready.command);
  }

  // Memory for the data of one more command, filled.
  char* Take(uint32_t size, char with) {
    char* const data = memory_->data() + taken_;
    taken_ += size;
    std::memset(data, with, size);
    return data;
  }
  void SubmitAndWait(const std::vector<Transfer*>& transfers) {
    for (Transfer* transfer : transfers) {
      stack_.initiator->Submit(&transfer->command);
    }
    ASSERT_TRUE(stack_.RunUntil([&transfers] {
      return std::all_of(transfers.begin(), transfers.end(),
                         [](const Transfer* t) { return t->finished; });
    }));
  }

  // The first bytes of the disk.
  void ExpectDisk(char with) {
    Transfer read(Take(kShort, '\xee'), kShort);
    read.Read();
    SubmitAndWait({&read});
    EXPECT_EQ(read.result(), "");
    EXPECT_EQ(std::string(read.data(), kShort), std::string(kShort, with));
  }
  // Nothing is registered that was not before, and it is the same connection.
  void ExpectNothingLost(size_t lockable) {
    ASSERT_TRUE(stack_.RunUntil([&] { return *lockable_ == lockable; },
                                absl::Seconds(1)))
        << *lockable_ << " bytes can be locked, not " << lockable;
    EXPECT_EQ(stack_.initiator->stats().reconnects, 0u);
  }

  const std::shared_ptr<size_t> lockable_;
  SimStack stack_;
  std::shared_ptr<std::string> memory_;
  size_t taken_ = 0;
  std::vector<std::string> warnings_;  // Of the target.

 private:
  static testing::SimRdmaOptions Device(
      const std::shared_ptr<size_t>& lockable) {
    testing::SimRdmaOptions options = *GetParam().rdma;
    options.lockable_bytes = lockable;
    return options;
  }
};

INSTANTIATE_TEST_SUITE_P(Fabrics, UnregisteredTargetTest,
                         ::testing::Values(InfiniBand(), Iwarp(), Plain()),
                         FabricName());

// At the first piece, or at a later one, when some of its data are under way.
TEST_P(UnregisteredTargetTest, ReadsFailAlone) {
  LogIn();
  for (const size_t lockable :
       {size_t{2} * kShort, size_t{kPiece} + 2 * kShort}) {
    SCOPED_TRACE(lockable);
    *lockable_ = lockable;
    taken_ = 0;
    Transfer before(Take(kShort, '\xee'), kShort);
    Transfer read(Take(kLong, '\xee'), kLong);
    Transfer after(Take(kBlock, '\xee'), kBlock);
    for (Transfer* transfer : {&before, &read, &after}) transfer->Read();
    SubmitAndWait({&before, &read, &after});
    EXPECT_THAT(read.result(), HasSubstr(kNoResources));
    EXPECT_EQ(before.result(), "");
    EXPECT_EQ(after.result(), "");
    ExpectDisk('\0');
    ExpectNothingLost(lockable);
  }
  // Once in a while is enough.
  EXPECT_THAT(warnings_,
              ElementsAre(AllOf(HasSubstr("cannot be registered for RDMA"),
                                HasSubstr("ulimit -l"),
                                HasSubstr("server cannot lock 262144 bytes"))));
}

TEST_P(UnregisteredTargetTest, WritesFailAlone) {
  LogIn();
  for (const size_t lockable :
       {size_t{2} * kShort, size_t{kPiece} + 2 * kShort}) {
    SCOPED_TRACE(lockable);
    *lockable_ = lockable;
    taken_ = 0;
    Transfer write(Take(kLong, 'w'), kLong);
    Transfer after(Take(kShort, 'a'), kShort);
    for (Transfer* transfer : {&write, &after}) transfer->Write();
    SubmitAndWait({&write, &after});
    EXPECT_THAT(write.result(), HasSubstr(kNoResources));
    EXPECT_EQ(after.result(), "");
    // What was under way of the first write came before all of the second.
    ExpectDisk('a');
    ExpectNothingLost(lockable);
  }
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("ulimit -l")));
}

// Data that leave before the rest does with the response.
TEST_P(UnregisteredTargetTest, DataInThatAreNotTheLastFailAlone) {
  stack_.target = MakeExchangeTarget(kTargetName);
  LogIn();
  struct Case {
    const char* refused;
    uint32_t half;
    size_t lockable;
  };
  for (const auto& [refused, half, lockable] :
       {Case{"the first half", kShort, kShort - 1},
        Case{"a part of the first half", kPiece + kShort, kPiece},
        Case{"the second half", kShort, kShort + kBlock}}) {
    SCOPED_TRACE(refused);
    *lockable_ = lockable;
    taken_ = 0;
    Transfer exchange(Take(2 * half, '\xee'), 2 * half);
    exchange.Read();
    SetExchangeCdb(kMinExchangeCdb, 0, 2 * half, &exchange.command);
    Transfer other(Take(kBlock, '\xee'), kBlock);
    other.Read();
    SetExchangeCdb(kMinExchangeCdb, 0, kBlock, &other.command);
    SubmitAndWait({&exchange, &other});
    EXPECT_THAT(exchange.result(), HasSubstr(kNoResources));
    EXPECT_EQ(other.result(), "");
    ExpectNothingLost(lockable);
  }
}

// Some have luck while others do not: whatever succeeded has the right data.
TEST_P(UnregisteredTargetTest, ManyAtOnce) {
  LogIn();
  constexpr uint32_t kSize = 48 * 1024;
  constexpr size_t kEnoughForFive = size_t{5} * kSize;
  *lockable_ = kEnoughForFive;
  int failed = 0;
  int good = 0;
  for (int round = 0; round < 10; ++round) {
    taken_ = 0;
    std::deque<Transfer> transfers;
    std::vector<Transfer*> all;
    for (int i = 0; i < 20; ++i) {
      all.push_back(&transfers.emplace_back(
          Take(kSize, round % 2 == 0 ? 'x' : '\xee'), kSize));
      round % 2 == 0 ? all.back()->Write() : all.back()->Read();
    }
    SubmitAndWait(all);
    for (const Transfer* transfer : all) {
      if (transfer->result().empty()) {
        ++good;
        EXPECT_EQ(std::string(transfer->data(), kSize),
                  std::string(kSize, 'x'));
      } else {
        ++failed;
        EXPECT_THAT(transfer->result(), HasSubstr(kNoResources));
      }
    }
    ExpectNothingLost(kEnoughForFive);
  }
  EXPECT_GT(good, 20);
  EXPECT_GT(failed, 20);
}

}  // namespace
}  // namespace skiff::protocol
