// How long COMPARE AND WRITE waits for others who do their worst, in virtual
// time: see the bound in write_guard.h.

#include "scsi/target/write_guard.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "scsi/backend/ram_backend.h"
#include "scsi/target/testing.h"
#include "testing/sim/sim_reactor.h"
#include "testing/sim/sim_world.h"

namespace skiff::scsi {
namespace {

using testing::Bytes;
using testing::Cdb10;
using testing::Cdb16;
using testing::FakeTargetPort;
using testing::Outcome;
using testing::Pattern;
using testing::TestCommand;

constexpr uint32_t kBlock = 512;
constexpr absl::Duration kPatience = absl::Seconds(2);

class WriteGuardTest : public ::testing::Test {
 protected:
  struct Initiator {
    FakeTargetPort port;
    std::unique_ptr<Nexus> nexus;
    std::vector<std::unique_ptr<TestCommand>> commands;
  };

  WriteGuardTest() : target_(Target::Create("iqn.2026-01.example:t")) {
    EXPECT_TRUE(
        target_->AddLogicalUnit(*MakeRamBackend({.size_bytes = 1u << 20}), {})
            .ok());
    WorkerOptions options = testing::TestReactor::SmallPool();
    options.buffer_pool_bytes = 16u << 20;
    options.data_patience = kPatience;
    for (const char* host : {"one", "two"}) {
      reactors_.push_back(world_.AddReactor(host));
      workers_.push_back(*Worker::Create(reactors_.back(), options));
    }
  }
  void TearDown() override {
    size_t closed = 0;
    for (auto& i : initiators_) i->nexus->Close([&closed] { ++closed; });
    for (auto& i : initiators_) i->port.FinishTransfers();
    world_.RunFor(absl::Seconds(1));
    EXPECT_EQ(closed, initiators_.size());
  }

  Initiator* Add(bool silent) {
    const size_t n = initiators_.size();
    initiators_.push_back(std::make_unique<Initiator>());
    Initiator* added = initiators_.back().get();
    added->nexus =
        *target_->OpenNexus(workers_[n % workers_.size()].get(), &added->port,
                            testing::IdentityOf(absl::StrCat(
                                "iqn.2026-01.example:i", n, ",i,0x1")));
    added->port.set_nexus(added->nexus.get());
    Submit(added, Bytes(6), {});  // Takes the unit attention.
    added->port.immediate_data_out = !silent;
    return added;
  }
  TestCommand* Submit(Initiator* from, const Bytes& cdb, const Bytes& data) {
    from->commands.push_back(std::make_unique<TestCommand>(cdb, data, 0));
    from->nexus->Submit(&from->commands.back()->task);
    return from->commands.back().get();
  }
  // With its data, whoever it is from.
  TestCommand* Swap(Initiator* from, uint32_t lba, uint8_t fill = 0) {
    const bool silent = !std::exchange(from->port.immediate_data_out, true);
    Bytes cdb = Cdb16(0x89, lba, 0);
    cdb[13] = 1;
    Bytes data(2 * kBlock);
    data[kBlock] = fill;
    TestCommand* command = Submit(from, cdb, data);
    from->port.immediate_data_out = !silent;
    return command;
  }
  TestCommand* Write(Initiator* from, uint32_t lba) {
    return Submit(from, Cdb10(0x2a, lba, 1), Bytes(kBlock));
  }
  // Until the command ends: how long that takes. `meanwhile` runs each 100 ms.
  template <typename Fn>
  absl::Duration TimeOf(const TestCommand& command, const Fn& meanwhile) {
    const absl::Time begin = world_.now();
    while (!command.completed && world_.now() - begin < absl::Minutes(10)) {
      meanwhile();
      world_.RunFor(absl::Milliseconds(100));
      for (auto& i : initiators_) {
        // What was cancelled ends, and only that.
        if (std::exchange(i->port.cancels, 0) > 0) i->port.FinishCancelled();
      }
    }
    return world_.now() - begin;
  }

  skiff::testing::SimWorld world_{1};
  const std::unique_ptr<Target> target_;
  std::vector<transport::Reactor*> reactors_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::unique_ptr<Initiator>> initiators_;
};

TEST_F(WriteGuardTest, ManyWhoDoTheirWorstDelayASwapByOnePatience) {
  constexpr uint32_t kLba = 100;
  Initiator* honest = Add(/*silent=*/false);
  std::vector<Initiator*> bad;
  for (int i = 0; i < 8; ++i) bad.push_back(Add(/*silent=*/true));
  const auto do_the_worst = [&] {
    for (Initiator* i : bad) {
      for (int n = 0; n < 2; ++n) {
        Swap(i, kLba);
        Write(i, kLba);
      }
    }
  };
  for (int round = 0; round < 3; ++round) {
    do_the_worst();
    const TestCommand* swap = Swap(honest, kLba);
    EXPECT_LE(TimeOf(*swap, do_the_worst), kPatience + absl::Seconds(1));
    EXPECT_EQ(Outcome(*swap), "GOOD");
  }
}

// One has many, another has one: it does not wait for all of them.
TEST_F(WriteGuardTest, EachNexusHasItsTurn) {
  Initiator* first = Add(/*silent=*/true);
  Initiator* many = Add(/*silent=*/false);
  Initiator* one = Add(/*silent=*/false);
  Initiator* beside = Add(/*silent=*/false);  // On the reactor of `many`.
  const TestCommand* silent = Write(first, 100);
  std::vector<TestCommand*> swaps;
  for (int i = 0; i < 10; ++i) swaps.push_back(Swap(many, 100));
  world_.RunFor(absl::Milliseconds(1));
  // The last changes the block, so that whoever comes later sees it.
  const TestCommand* lone[] = {Swap(one, 100), Swap(beside, 100, 1)};
  EXPECT_LE(TimeOf(*swaps.back(), [] {}), kPatience + absl::Seconds(1));
  EXPECT_EQ(Outcome(*lone[0]), "GOOD");
  EXPECT_EQ(Outcome(*lone[1]), "GOOD");
  EXPECT_EQ(Outcome(*swaps[0]), "GOOD");
  for (size_t i = 1; i < swaps.size(); ++i) {
    EXPECT_EQ(swaps[i]->code(), AdditionalSense::kMiscompareDuringVerify) << i;
  }
  EXPECT_EQ(silent->code(), AdditionalSense::kInitiatorResponseTimeout);
}

// A write that comes while somebody waits for its blocks waits for its data
// elsewhere, and is written.
TEST_F(WriteGuardTest, ALateWriteHoldsUpNobody) {
  Initiator* silent = Add(/*silent=*/true);
  Initiator* honest = Add(/*silent=*/false);
  const TestCommand* held = Write(silent, 100);
  const TestCommand* swap = Swap(honest, 100);
  world_.RunFor(absl::Milliseconds(1));
  TestCommand* late = Write(silent, 100);
  late->data_out = Pattern(kBlock, 7);
  silent->port.FinishTransfer();  // Of the first.
  world_.RunFor(absl::Milliseconds(1));
  EXPECT_EQ(Outcome(*held), "GOOD");
  EXPECT_EQ(Outcome(*swap), "GOOD");
  EXPECT_EQ(Outcome(*late), "pending");
  silent->port.FinishTransfers();
  world_.RunFor(absl::Milliseconds(1));
  EXPECT_EQ(Outcome(*late), "GOOD");
  honest->commands.push_back(
      std::make_unique<TestCommand>(Cdb10(0x28, 100, 1), Bytes(), kBlock));
  TestCommand* read = honest->commands.back().get();
  honest->nexus->Submit(&read->task);
  EXPECT_EQ(read->received(), late->data_out);
}

// As an RDMA Read that is never answered: cancelling does not end it.
TEST_F(WriteGuardTest, WhoDoesNotLetGoIsEnded) {
  Initiator* silent = Add(/*silent=*/true);
  Initiator* honest = Add(/*silent=*/false);
  Write(silent, 100);
  const TestCommand* swap = Swap(honest, 100);
  world_.RunFor(kPatience + absl::Milliseconds(100));
  EXPECT_EQ(silent->port.cancels, 1);
  EXPECT_TRUE(silent->port.ends.empty());
  world_.RunFor(kPatience);
  EXPECT_EQ(silent->port.ends.size(), 1u);
  silent->port.FinishTransfers();
  world_.RunFor(absl::Milliseconds(1));
  EXPECT_EQ(Outcome(*swap), "GOOD");
}

}  // namespace
}  // namespace skiff::scsi
