// Well-behaved initiators beside others that misbehave, in one target whose
// memory may run out: what the former ask for is done, and right, in a bounded
// time, and in the end nothing is missing.

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "protocol/codec/pdu.h"
#include "protocol/codec/wire_test_util.h"
#include "scsi/target/testing_backend.h"
#include "testing/refusing_memory.h"
#include "testing/sim/sim_network.h"
#include "testing/sim/sim_reactor.h"
#include "testing/stack/end_to_end_test_util.h"
#include "testing/stack/raw_stream_peer.h"
#include "transport/system/spare_memory.h"

namespace skiff::protocol {
namespace {

using scsi::testing::TestBackend;

constexpr uint64_t kLun1 = uint64_t{1} << 48;
constexpr uint64_t kLun2 = uint64_t{2} << 48;
// All timeouts of the server are over after this.
constexpr absl::Duration kAllTimeouts = absl::Seconds(20);

// How many seeds; more where there is time for them.
uint64_t NumberOfSeeds() {
  const char* const text = std::getenv("SKIFF_SIM_SEEDS");
  uint64_t seeds = 0;
  return text != nullptr && absl::SimpleAtoi(text, &seeds) ? seeds : 50;
}

enum class Vice : uint8_t {
  kSilentWriter,   // Its data never come.
  kNeverReads,     // READs whose data it does not take.
  kFloods,         // NOP, task management, text, and what is rejected.
  kHalfALogin,     // Begins to log in, and stays silent.
  kHangsUp,        // In the middle of a command.
  kManyAndSilent,  // All that it may send unsolicited, and nothing more.
};
constexpr uint64_t kVices = 6;

// One initiator that misbehaves, on a host of its own.
class BadPeer {
 public:
  BadPeer(SimStack* stack, uint8_t number, Vice vice)
      : stack_(stack), vice_(vice) {
    transport::Reactor* const reactor =
        stack->world.AddReactor(absl::StrCat("bad-", number));
    peer_ = std::make_unique<RawPeer>(stack, reactor);
    const std::string name =
        absl::StrCat("iqn.2001-04.com.example:bad-", number);
    if (vice == Vice::kHalfALogin) {
      const std::string login =
          RawPeer::FirstLogin(number, kTargetName, name, /*transit=*/false);
      peer_->Send(login.substr(0, 1 + Random().Below(login.size())));
      return;
    }
    peer_->LogIn(number, kTargetName, name);
  }

  // The next of what it does.
  void Act() {
    if (peer_ == nullptr || peer_->closed()) return;
    switch (vice_) {
      case Vice::kSilentWriter:
        Command(/*write=*/true, 128, "", /*final=*/true);
        break;
      case Vice::kNeverReads:
        peer_->StopReading();
        for (int i = 0; i < 4; ++i) Command(/*write=*/false, 256, "", true);
        break;
      case Vice::kFloods:
        for (int i = 0; i < 10; ++i) Flood();
        break;
      case Vice::kHalfALogin:
        break;
      case Vice::kHangsUp: {
        Command(/*write=*/true, 128, std::string(4096, 'x'), true);
        Command(/*write=*/false, 128, "", true);
        std::string cut =
            CommandPdu(/*write=*/true, 16, std::string(8192, 'x'), true);
        cut.resize(1 + Random().Below(cut.size() - 1));
        peer_->Send(cut);
        if (Random().Below(3) == 0) peer_.reset();
        break;
      }
      case Vice::kManyAndSilent:
        Command(/*write=*/true, 128, std::string(8192, 'x'), false);
        break;
    }
  }

 private:
  testing::SimRandom& Random() { return stack_->world.random(); }

  std::string CommandPdu(bool write, uint16_t blocks, const std::string& data,
                         bool final) {
    ScsiCommandPdu pdu;
    pdu.final = final;
    pdu.read = !write;
    pdu.write = write;
    pdu.lun = kLun2;
    pdu.initiator_task_tag = ++tag_;
    pdu.expected_data_transfer_length = blocks * kBlock;
    pdu.cmd_sn = cmd_sn_++;
    pdu.exp_stat_sn = 2;
    pdu.cdb[0] = write ? 0x2a : 0x28;
    pdu.cdb[7] = static_cast<uint8_t>(blocks >> 8);
    pdu.cdb[8] = static_cast<uint8_t>(blocks);
    return ToWire(pdu, data);
  }
  // Within a window of 32.
  void Command(bool write, uint16_t blocks, const std::string& data,
               bool final) {
    if (cmd_sn_ > 30) return;
    peer_->Send(CommandPdu(write, blocks, data, final));
  }

  void Flood() {
    switch (Random().Below(4)) {
      case 0: {
        NopOutPdu nop;
        nop.immediate = true;
        nop.initiator_task_tag = ++tag_;
        nop.cmd_sn = cmd_sn_;
        return peer_->Send(ToWire(nop, std::string(2000, 'n')));
      }
      case 1: {
        TaskManagementRequestPdu manage;
        manage.immediate = true;
        manage.function = static_cast<uint8_t>(1 + Random().Below(5));
        manage.lun = kLun2;
        manage.initiator_task_tag = ++tag_;
        manage.cmd_sn = cmd_sn_;
        return peer_->Send(ToWire(manage));
      }
      case 2: {
        TextRequestPdu text;
        text.immediate = true;
        text.initiator_task_tag = ++tag_;
        text.cmd_sn = cmd_sn_;
        return peer_->Send(ToWire(text, std::string("SendTargets=All\0", 16)));
      }
      default: {
        // An opcode that only targets use.
        std::string reject(kBhsSize, '\0');
        reject[0] = 0x7f;
        reject[1] = '\x80';
        return peer_->Send(reject);
      }
    }
  }

  SimStack* const stack_;
  const Vice vice_;
  std::unique_ptr<RawPeer> peer_;
  uint32_t tag_ = 100;
  uint32_t cmd_sn_ = 1;
};

// Whose memory runs out meanwhile.
enum class Lack : uint8_t {
  kNone,
  kOfLargeThings,  // What may be refused.
  kAtTheTarget,    // Whatever is asked for in a turn of the target,
  kEverywhere,     // or of the initiators, too.
};
constexpr uint64_t kLacks = 4;

class Neighbourhood {
 public:
  explicit Neighbourhood(uint64_t seed)
      : stack_(seed), budget_(std::make_shared<MemoryBudget>(512 << 10)) {
    stack_.StopServer();
    TargetServerOptions& options = stack_.server_options;
    options.budget = budget_;
    options.limits.queue_depth = 32;
    options.limits.max_spare_buffer_bytes = 0;
    options.limits.max_send_queue_bytes = 128 << 10;
    options.limits.login_timeout = absl::Seconds(3);
    options.limits.data_out_timeout = absl::Seconds(5);
    options.limits.send_timeout = absl::Seconds(5);
    options.limits.nop_interval = absl::Seconds(3);
    options.limits.nop_timeout = absl::Seconds(3);
    options.worker.buffer_pool_bytes = 4u << 20;
    options.worker.buffer_bytes = 256u << 10;
    options.log = [this](LogLevel, absl::string_view line) {
      absl::StrAppend(&log_, line, "\n");
    };
    AddFile(1);
    AddFile(2);
    stack_.StartServer();
  }

  void Run() {
    const Lack lack = static_cast<Lack>(Random().Below(kLacks));
    std::vector<std::unique_ptr<BadPeer>> bad;
    LogInBoth();
    VerifiedLoad::Options options;
    options.commands = 150;
    options.depth = 8;
    VerifiedLoad first(stack_.initiator.get(), &Random(), options);
    options.lun = kLun1;
    VerifiedLoad second(second_.get(), &Random(), options);
    first.Start();
    second.Start();
    const absl::Time begin = stack_.world.now();
    Refuse(lack);
    for (uint64_t i = 1 + Random().Below(kVices); i > 0; --i) {
      bad.push_back(
          std::make_unique<BadPeer>(&stack_, static_cast<uint8_t>(10 + i),
                                    static_cast<Vice>(Random().Below(kVices))));
    }
    for (int i = 0; i < 40; ++i) {
      bad[Random().Below(bad.size())]->Act();
      stack_.RunFor(absl::Microseconds(Random().Below(20000)));
    }
    testing::RefuseEvery(0);
    // What is set aside is there again after each turn, however few.
    EXPECT_EQ(transport::SpareMemory::missing(), 0u);
    EXPECT_TRUE(stack_.RunUntil([&] { return first.done() && second.done(); },
                                absl::Seconds(60)))
        << first.completed() << " and " << second.completed() << " of "
        << options.commands << " commands";
    // What an outage costs that a lack of memory caused, and else no second.
    const absl::Duration bound =
        lack == Lack::kNone ? absl::Seconds(15) : absl::Seconds(60);
    EXPECT_LE(stack_.world.now() - begin, bound);
    ExpectRight(first, lack);
    ExpectRight(second, lack);
    bad.clear();
    ExpectAllIsBack();
  }

 private:
  testing::SimRandom& Random() { return stack_.world.random(); }

  void AddFile(uint64_t lun) {
    auto file = std::make_shared<TestBackend>(scsi::testing::ThinInfo(kBlocks));
    file->keep_log = false;
    scsi::LogicalUnitOptions options;
    options.lun = static_cast<uint16_t>(lun);
    EXPECT_TRUE(stack_.target->AddLogicalUnit(std::move(file), options).ok());
  }

  // One reads from memory, the other through buffers, and with digests.
  void LogInBoth() {
    stack_.LogIn();
    InitiatorOptions options = stack_.Options();
    options.initiator_name = "iqn.2001-04.com.example:second";
    options.offer.data_digest = {Digest::kCrc32c};
    options.offer.header_digest = {Digest::kCrc32c};
    bool ready = false;
    second_ = Initiator::Create(&stack_.registry,
                                stack_.world.AddReactor("second"), options,
                                [&](const absl::Status& status) {
                                  EXPECT_TRUE(status.ok()) << status;
                                  ready = true;
                                })
                  .value();
    EXPECT_TRUE(stack_.RunUntil([&] { return ready; }));
  }

  // Each of so many allocations, by chance.
  void Refuse(Lack lack) {
    const auto few = static_cast<uint32_t>(2 + Random().Below(40));
    const auto many = static_cast<uint32_t>(2 + Random().Below(3000));
    switch (lack) {
      case Lack::kNone:
        return;
      case Lack::kOfLargeThings:
        return testing::RefuseEvery(few);
      case Lack::kAtTheTarget:
        return testing::RefuseAllEvery(many, [] {
          const testing::SimReactor* const turning =
              testing::SimReactor::turning();
          return turning != nullptr && turning->host() == "server";
        });
      case Lack::kEverywhere:
        return testing::RefuseAllEvery(
            many, [] { return testing::SimReactor::turning() != nullptr; });
    }
  }

  void ExpectRight(const VerifiedLoad& load, Lack lack) {
    for (const std::string& error : load.errors()) {
      ADD_FAILURE() << error << "\n" << log_;
    }
    if (lack == Lack::kNone && load.busy() > 1000) {
      ADD_FAILURE() << load.busy() << " times BUSY or TASK SET FULL";
    }
  }

  // Once everybody is gone, or given up.
  void ExpectAllIsBack() {
    stack_.initiator.reset();
    second_.reset();
    stack_.RunFor(kAllTimeouts);
    EXPECT_TRUE(stack_.Sessions().empty()) << log_;
    EXPECT_EQ(budget_->use().charged, 0u) << log_;
    bool told = false;
    stack_.server->ReportMemory([&](const ServerMemory& memory) {
      told = true;
      EXPECT_EQ(memory.buffers.held_bytes, 0u) << log_;
      EXPECT_EQ(memory.buffers.waiting_tasks, 0u) << log_;
    });
    EXPECT_TRUE(stack_.RunUntil([&] { return told; }));
    stack_.StopServer();
  }

  std::string log_;
  SimStack stack_;
  const std::shared_ptr<MemoryBudget> budget_;
  std::unique_ptr<Initiator> second_;
};

TEST(BadNeighboursTest, WellBehavedInitiatorsGetWhatTheyAskFor) {
  const uint64_t seeds = NumberOfSeeds();
  const uint64_t refused = testing::RefusedAllocations();
  transport::SpareMemory::Keep();
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    Neighbourhood(seed).Run();
    if (HasFailure()) return;
  }
  EXPECT_GT(testing::RefusedAllocations(), refused);
}

}  // namespace
}  // namespace skiff::protocol
