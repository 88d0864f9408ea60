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
#include "scsi/target/testing_backend.h"
#include "testing/datamover_conformance/bad_peer.h"
#include "testing/refusing_memory.h"
#include "testing/sim/sim_network.h"
#include "testing/sim/sim_reactor.h"
#include "testing/stack/end_to_end_test_util.h"
#include "testing/stack/fabrics.h"
#include "transport/system/spare_memory.h"

namespace skiff::protocol {
namespace {

using scsi::testing::TestBackend;

constexpr uint64_t kLun1 = uint64_t{1} << 48;
// All timeouts of the server are over after this.
constexpr absl::Duration kAllTimeouts = absl::Seconds(20);

// How many seeds; more where there is time for them.
uint64_t NumberOfSeeds() {
  const char* const text = std::getenv("SKIFF_SIM_SEEDS");
  uint64_t seeds = 0;
  return text != nullptr && absl::SimpleAtoi(text, &seeds) ? seeds : 50;
}

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
  Neighbourhood(uint64_t seed, const Fabric& fabric)
      : stack_(seed, 1, fabric.rdma),
        iser_(fabric.rdma.has_value()),
        budget_(std::make_shared<MemoryBudget>(512 << 10)) {
    stack_.StopServer();
    TargetServerOptions& options = stack_.server_options;
    options.budget = budget_;
    options.limits.session.queue_depth = 32;
    options.limits.memory.max_spare_buffer_bytes = 0;
    options.limits.memory.max_send_queue_bytes = 128 << 10;
    options.limits.login_timeout = absl::Seconds(3);
    options.limits.session.data_out_timeout = absl::Seconds(5);
    options.limits.send_timeout = absl::Seconds(5);
    options.limits.session.nop_interval = absl::Seconds(3);
    options.limits.session.nop_timeout = absl::Seconds(3);
    options.worker.buffer_pool_bytes = 4u << 20;
    options.worker.buffer_bytes = 256u << 10;
    options.log = [this](LogLevel, absl::string_view line) {
      absl::StrAppend(&log_, line, "\n");
    };
    // Over iSER it takes receives for each piece of such data.
    if (Random().Below(2) == 0) {
      options.offer.initial_r2t = false;
      options.offer.iser.unsolicited_data_out = true;
    }
    AddFile(1);
    AddFile(2);
    stack_.StartServer();
    streams_ = iser_ ? stack_.Listen(stack_.StreamAddress()) : stack_.portal;
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
    for (uint64_t i = 1 + Random().Below(6); i > 0; --i) {
      bad.push_back(MakeBadPeer(static_cast<uint8_t>(10 + i)));
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
    // They are there, but not as sessions: none of them says a word.
    stack_.RunFor(kAllTimeouts);
    EXPECT_EQ(stack_.Sessions().size(), 2u) << log_;
    bad.clear();
    ExpectAllIsBack();
  }

 private:
  testing::SimRandom& Random() { return stack_.world.random(); }

  // A target of iSER has bad neighbours of either kind.
  std::unique_ptr<BadPeer> MakeBadPeer(uint8_t number) {
    return iser_ && Random().Below(4) != 0
               ? MakeBadIserPeer(&stack_, number)
               : MakeBadStreamPeer(&stack_, streams_, number);
  }

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
        // The bad peers are the test.
        return testing::RefuseAllEvery(many, [] {
          const testing::SimReactor* const turning =
              testing::SimReactor::turning();
          return turning != nullptr &&
                 turning->host().compare(0, 4, "bad-") != 0;
        });
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
  const bool iser_;
  std::string streams_;  // The portal of byte streams.
  const std::shared_ptr<MemoryBudget> budget_;
  std::unique_ptr<Initiator> second_;
};

// A device that waits for ever for a receive that the peer does not post, as
// most are told to (rnr_retry_count of rdma_cm is 7).
Fabric PatientInfiniBand() {
  Fabric fabric = {"PatientInfiniBand", "iSER",
                   testing::SimRdmaOptions::InfiniBand()};
  fabric.rdma->receiver_not_ready_timeout = absl::InfiniteDuration();
  return fabric;
}

class BadNeighboursTest : public ::testing::TestWithParam<Fabric> {
 protected:
  static void SetUpTestSuite() { transport::SpareMemory::Keep(); }
};

INSTANTIATE_TEST_SUITE_P(Fabrics, BadNeighboursTest,
                         ::testing::Values(Stream(), InfiniBand(), Iwarp(),
                                           Plain(), PatientInfiniBand()),
                         FabricName());

TEST_P(BadNeighboursTest, WellBehavedInitiatorsGetWhatTheyAskFor) {
  const uint64_t seeds = NumberOfSeeds();
  const uint64_t refused = testing::RefusedAllocations();
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    Neighbourhood(seed, GetParam()).Run();
    if (HasFailure()) {
      ADD_FAILURE() << "with seed " << seed;
      return;
    }
  }
  EXPECT_GT(testing::RefusedAllocations(), refused);
}

}  // namespace
}  // namespace skiff::protocol
