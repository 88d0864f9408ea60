// InitialR2T=No over iSER where both ends are told to take it
// (IserOffer::unsolicited_data_out): the target has a receive for every
// Data-Out that may come.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "protocol/codec/iser_header.h"
#include "testing/sim/sim_rdma.h"
#include "testing/stack/end_to_end_test_util.h"
#include "testing/stack/fabrics.h"
#include "transport/capabilities.h"

namespace skiff::protocol {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using Outcome = scsi::Command::Outcome;

constexpr uint32_t kFirstBurst = 65536;
constexpr uint32_t kBlocksEach = kFirstBurst / kBlock;
constexpr uint32_t kDepth = 64;
// For the receives of commands, and of a few unsolicited Data-Out PDUs.
constexpr uint32_t kShortQueue = 256;

class UnsolicitedReceivesTest : public ::testing::TestWithParam<Fabric> {
 protected:
  void Start(uint64_t seed, bool target_takes) {
    stack_ = std::make_unique<SimStack>(seed, 1, fabric_);
    stack_->StopServer();
    TargetServerOptions& server = stack_->server_options;
    server.offer.iser.unsolicited_data_out = target_takes;
    server.offer.first_burst_length = kFirstBurst;
    server.limits.session.queue_depth = kDepth;
    server.log = [this](LogLevel, absl::string_view line) {
      log_.emplace_back(line);
    };
    stack_->StartServer();
    options_ = stack_->Options();
    options_.offer.iser.unsolicited_data_out = true;
    options_.offer.first_burst_length = kFirstBurst;
  }

  ConnectionCounters OfTarget() {
    return stack_->Sessions().at(0).connection.counters;
  }

  void RunLoad() {
    // Writes that are longer than FirstBurstLength are read, beside.
    VerifiedLoad load(stack_->initiator.get(), &stack_->world.random(),
                      {.depth = kDepth, .max_blocks = 2 * kBlocksEach});
    load.Start();
    EXPECT_TRUE(stack_->RunUntil([&] { return load.done(); }));
    for (const std::string& error : load.errors()) ADD_FAILURE() << error;
  }

  // All of the window at once: the target sees none before all are there.
  void WriteAtOnce(uint32_t blocks) {
    const uint64_t reads = OfTarget().rdma_reads;
    static_cast<testing::SimReactor*>(stack_->server_reactors[0])
        ->StallUntil(stack_->world.now() + absl::Seconds(1));
    std::vector<std::unique_ptr<TestCommand>> writes;
    for (uint32_t i = 0; i < kDepth; ++i) {
      writes.push_back(std::make_unique<TestCommand>(
          scsi::cdb::Write(uint64_t{i} * blocks, blocks), 0,
          std::string(size_t{blocks} * kBlock, static_cast<char>('0' + i))));
      stack_->initiator->Submit(&writes.back()->command);
    }
    EXPECT_TRUE(stack_->RunUntil([&] {
      for (const auto& write : writes) {
        if (!write->finished) return false;
      }
      return true;
    }));
    for (const auto& write : writes) {
      EXPECT_EQ(write->command.outcome, Outcome::kCompleted);
      EXPECT_EQ(write->command.status, 0);
    }
    EXPECT_EQ(OfTarget().rdma_reads, reads) << "not all of it was unsolicited";
  }

  std::optional<testing::SimRdmaOptions> fabric_ = GetParam().rdma;
  transport::Capabilities& device_ = fabric_->capabilities;
  std::vector<std::string> log_;  // Of the target; outlives it.
  std::unique_ptr<SimStack> stack_;
  InitiatorOptions options_;
};

// Iwarp and Plain end a connection whose receives are used up.
INSTANTIATE_TEST_SUITE_P(Fabrics, UnsolicitedReceivesTest,
                         ::testing::Values(InfiniBand(), Iwarp(), Plain()),
                         FabricName());

TEST_P(UnsolicitedReceivesTest, EveryDataOutOfTheWindowFindsOne) {
  for (const bool immediate : {true, false}) {
    SCOPED_TRACE(::testing::Message() << "ImmediateData " << immediate);
    Start(1, /*target_takes=*/true);
    options_.offer.immediate_data = immediate;
    stack_->LogIn(options_);
    EXPECT_FALSE(stack_->initiator->parameters().initial_r2t);
    EXPECT_EQ(stack_->initiator->parameters().immediate_data, immediate);
    RunLoad();
    EXPECT_GT(OfTarget().rdma_reads, 0u);
    WriteAtOnce(kBlocksEach);
    EXPECT_EQ(stack_->initiator->stats().reconnects, 0u)
        << absl::StrJoin(stack_->log, "\n");
    stack_->initiator.reset();
  }
}

TEST_P(UnsolicitedReceivesTest, EitherEndDeclinesIt) {
  Start(2, /*target_takes=*/false);
  stack_->LogIn(options_);
  EXPECT_TRUE(stack_->initiator->parameters().initial_r2t);
  Start(3, /*target_takes=*/true);
  options_.offer.iser.unsolicited_data_out = false;
  stack_->LogIn(options_);
  EXPECT_TRUE(stack_->initiator->parameters().initial_r2t);
}

TEST_P(UnsolicitedReceivesTest, AreDoneWithoutWhereTheQueueIsTooShort) {
  device_.max_receive_queue = kShortQueue;
  Start(6, /*target_takes=*/true);
  stack_->LogIn(options_);
  EXPECT_TRUE(stack_->initiator->parameters().initial_r2t);
  EXPECT_THAT(stack_->Sessions().at(0).connection.fallbacks,
              Contains(AllOf(HasSubstr("no unsolicited Data-Out"),
                             HasSubstr("and the device has 256;"))));
  RunLoad();
  EXPECT_EQ(stack_->initiator->stats().reconnects, 0u)
      << absl::StrJoin(stack_->log, "\n");
}

// A device that holds up long messages takes unsolicited data nevertheless.
TEST_P(UnsolicitedReceivesTest, AreNotMissedWhereMessagesWait) {
  device_.receiver_not_ready_retry = true;
  device_.eager_message_bytes = 4096;
  fabric_->receiver_not_ready_timeout = absl::InfiniteDuration();
  device_.max_receive_queue = kShortQueue;
  Start(7, /*target_takes=*/true);
  stack_->LogIn(options_);
  EXPECT_FALSE(stack_->initiator->parameters().initial_r2t);
  EXPECT_THAT(stack_->Sessions().at(0).connection.fallbacks,
              Not(Contains(HasSubstr("unsolicited"))));
  RunLoad();
  // In three messages each, which are more than there are receives.
  WriteAtOnce(3 * (4096 - kIserControlSize) / kBlock);
  EXPECT_EQ(stack_->initiator->stats().reconnects, 0u)
      << absl::StrJoin(stack_->log, "\n");
}

// Receives for which there is no place are not promised.
TEST_P(UnsolicitedReceivesTest, RefusesPiecesOfWhichTooManyCouldCome) {
  Start(4, /*target_takes=*/true);
  options_.offer.iser.target_recv_data_segment_length = 512;
  stack_->Connect(options_);
  ASSERT_TRUE(stack_->RunUntil([&] { return stack_->ready().has_value(); }));
  EXPECT_THAT(stack_->ready()->message(), HasSubstr("0x0302"))
      << *stack_->ready();
  EXPECT_THAT(log_, Contains(HasSubstr("FirstBurstLength=65536 and "
                                       "TargetRecvDataSegmentLength=512")));
}

// A session that does without has no share of them.
TEST_P(UnsolicitedReceivesTest, AreSetApartForTheSessionsThatNeedThem) {
  Start(5, /*target_takes=*/true);
  stack_->StopServer();
  stack_->server_options.rdma.message_memory =
      IserMemoryOfSession(stack_->server_options);
  stack_->StartServer();
  options_.offer.initial_r2t = true;
  stack_->LogIn(options_);
  const std::unique_ptr<Initiator> first = std::move(stack_->initiator);
  options_.isid.back() ^= 1;
  stack_->LogIn(options_);
  EXPECT_TRUE(stack_->initiator->connected());

  const std::unique_ptr<Initiator> second = std::move(stack_->initiator);
  options_.isid.back() ^= 2;
  options_.offer.initial_r2t = false;
  stack_->Connect(options_);
  ASSERT_TRUE(stack_->RunUntil([&] { return stack_->ready().has_value(); }));
  EXPECT_THAT(stack_->ready()->message(), HasSubstr("0x0302"))
      << *stack_->ready();
}

}  // namespace
}  // namespace skiff::protocol
