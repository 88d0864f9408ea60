// Random commands against a model that is too simple to be wrong: a vector of
// bytes. Several at a time, each slot within a range of its own, so that their
// order does not matter.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "scsi/backend/ram_backend.h"
#include "scsi/endian.h"
#include "scsi/target/testing.h"
#include "scsi/target/testing_backend.h"

namespace skiff::scsi {
namespace {

using testing::Bytes;
using testing::Cdb16;
using testing::Outcome;
using testing::TestBackend;
using testing::TestCommand;
using testing::TestTarget;
using testing::ThinInfo;

constexpr uint32_t kBlock = 512;
constexpr uint32_t kSlots = 6;
constexpr uint32_t kSlotBlocks = 700;  // More than one buffer holds.
constexpr uint32_t kBlocks = kSlots * kSlotBlocks;

// What a command should come to.
struct Expected {
  std::string outcome = "GOOD";
  Bytes data_in;
};

class Simulation {
 public:
  Simulation(uint32_t seed, bool direct)
      : random_(seed), model_(kBlocks * kBlock), target_(MakeBackend(direct)) {}

  void Run(int rounds) {
    for (int round = 0; round < rounds; ++round) {
      target_.port().immediate_data_out = Below(2) == 0;
      if (backend_ != nullptr) {
        backend_->completion = static_cast<TestBackend::Completion>(Below(3));
      }
      std::vector<std::unique_ptr<TestCommand>> commands;
      std::vector<Expected> expected;
      for (uint32_t slot = 0; slot < kSlots; ++slot) {
        expected.emplace_back();
        commands.push_back(Make(slot, &expected.back()));
        target_.nexus().Submit(commands.back().get());
      }
      Finish(commands);
      for (uint32_t slot = 0; slot < kSlots; ++slot) {
        const TestCommand& command = *commands[slot];
        const std::string what =
            absl::StrCat("round ", round, " opcode ", command.task.cdb[0],
                         " flags ", command.task.cdb[1]);
        ASSERT_EQ(Outcome(command), expected[slot].outcome) << what;
        ASSERT_EQ(command.received(), expected[slot].data_in) << what;
      }
      if (::testing::Test::HasFailure()) return;
    }
    if (backend_ != nullptr) {
      backend_->completion = TestBackend::Completion::kInline;
    }
    const auto all = target_.Run(Cdb16(0x88, 0, kBlocks), {}, kBlocks * kBlock);
    ASSERT_EQ(all->data_in, model_);
  }

 private:
  std::shared_ptr<Backend> MakeBackend(bool direct) {
    if (!direct) {
      backend_ = std::make_shared<TestBackend>(ThinInfo(kBlocks));
      return backend_;
    }
    RamBackendOptions options;
    options.size_bytes = uint64_t{kBlocks} * kBlock;
    options.thin = true;
    auto backend = MakeRamBackend(options);
    EXPECT_TRUE(backend.ok());
    return *std::move(backend);
  }

  uint32_t Below(uint32_t bound) { return random_() % bound; }

  void Finish(const std::vector<std::unique_ptr<TestCommand>>& commands) {
    for (int turn = 0; turn < 10000; ++turn) {
      target_.port().FinishTransfers();
      if (backend_ != nullptr && Below(3) == 0) backend_->CompleteHeld();
      target_.reactor().Turn();
      if (std::all_of(commands.begin(), commands.end(),
                      [](const auto& c) { return c->completed; })) {
        return;
      }
    }
    ADD_FAILURE() << "commands do not end";
  }

  // Few values, so that comparisons succeed now and then.
  Bytes Data(uint32_t blocks) {
    Bytes data(blocks * kBlock, static_cast<uint8_t>(Below(3)));
    if (!data.empty() && Below(4) == 0) data[Below(data.size())] ^= 1;
    return data;
  }
  uint8_t* At(uint64_t lba) { return model_.data() + lba * kBlock; }

  std::unique_ptr<TestCommand> Make(uint32_t slot, Expected* expected) {
    const uint32_t blocks = Below(4) == 0 ? Below(kSlotBlocks) : Below(8);
    const uint32_t lba = slot * kSlotBlocks + Below(kSlotBlocks - blocks + 1);
    switch (Below(9)) {
      case 0:
      case 1:
        return Read(lba, blocks, expected);
      case 2:
      case 3:
        return Write(0x8a, lba, blocks, expected);
      case 4:
        return Write(0x8e, lba, blocks, expected);
      case 5:
        return Verify(lba, blocks, expected);
      case 6:
        return WriteSame(lba, blocks, expected);
      case 7:
        return Unmap(lba, blocks);
      default:
        return CompareAndWrite(lba, std::min(blocks, 128u), expected);
    }
  }

  std::unique_ptr<TestCommand> Read(uint32_t lba, uint32_t blocks,
                                    Expected* expected) {
    uint32_t room = blocks * kBlock;
    if (Below(4) == 0) room = Below(room + 2 * kBlock);
    expected->data_in.assign(At(lba),
                             At(lba) + std::min(room, blocks * kBlock));
    return std::make_unique<TestCommand>(Cdb16(0x88, lba, blocks), Bytes(),
                                         room);
  }

  std::unique_ptr<TestCommand> Write(uint8_t opcode, uint32_t lba,
                                     uint32_t blocks, Expected* expected) {
    Bytes data = Data(blocks);
    if (Below(4) == 0) data.resize(Below(data.size() + 2 * kBlock), 9);
    const size_t length = std::min<size_t>(data.size(), blocks * kBlock);
    if (length % kBlock == 0) {
      std::copy_n(data.begin(), length, At(lba));
    } else {
      expected->outcome =
          "ILLEGAL REQUEST, INVALID FIELD IN COMMAND INFORMATION UNIT "
          "(0Eh/03h)";
    }
    return std::make_unique<TestCommand>(Cdb16(opcode, lba, blocks), data, 0);
  }

  std::unique_ptr<TestCommand> Verify(uint32_t lba, uint32_t blocks,
                                      Expected* expected) {
    Bytes data(At(lba), At(lba) + blocks * kBlock);
    if (!data.empty() && Below(2) == 0) {
      const uint32_t at = Below(data.size());
      data[at] ^= 0x40;
      expected->outcome = absl::StrCat(
          "MISCOMPARE, MISCOMPARE DURING VERIFY OPERATION (1Dh/00h), "
          "information ",
          lba + at / kBlock);
    }
    return std::make_unique<TestCommand>(Cdb16(0x8f, lba, blocks, 0x02), data,
                                         0);
  }

  std::unique_ptr<TestCommand> WriteSame(uint32_t lba, uint32_t blocks,
                                         Expected* expected) {
    const Bytes data = Data(1);
    const uint8_t flags = static_cast<uint8_t>(Below(2) * 0x08);
    if (blocks == 0) {
      expected->outcome =
          "ILLEGAL REQUEST, INVALID FIELD IN CDB (24h/00h), CDB byte 10";
    }
    for (uint32_t i = 0; i < blocks; ++i) {
      std::copy(data.begin(), data.end(), At(lba + i));
    }
    return std::make_unique<TestCommand>(Cdb16(0x93, lba, blocks, flags), data,
                                         0);
  }

  std::unique_ptr<TestCommand> Unmap(uint32_t lba, uint32_t blocks) {
    std::fill_n(At(lba), blocks * kBlock, 0);
    Bytes list(24);
    StoreBe16(&list[0], 22);
    StoreBe16(&list[2], 16);
    StoreBe64(&list[8], lba);
    StoreBe32(&list[16], blocks);
    return std::make_unique<TestCommand>(testing::Cdb10(0x42, 0, 24), list, 0);
  }

  std::unique_ptr<TestCommand> CompareAndWrite(uint32_t lba, uint32_t blocks,
                                               Expected* expected) {
    Bytes data = Data(2 * blocks);
    if (Below(2) == 0) std::copy_n(At(lba), blocks * kBlock, data.begin());
    const auto [mine, theirs] =
        std::mismatch(data.begin(), data.begin() + blocks * kBlock, At(lba));
    const size_t equal = static_cast<size_t>(mine - data.begin());
    if (equal == blocks * kBlock) {
      std::copy(mine, data.end(), At(lba));
    } else {
      expected->outcome = absl::StrCat(
          "MISCOMPARE, MISCOMPARE DURING VERIFY OPERATION (1Dh/00h), "
          "information ",
          equal);
    }
    return std::make_unique<TestCommand>(Cdb16(0x89, lba, blocks), data, 0);
  }

  std::mt19937 random_;
  Bytes model_;
  std::shared_ptr<TestBackend> backend_;
  TestTarget target_;
};

class RandomCommandsTest : public ::testing::TestWithParam<uint32_t> {};

TEST_P(RandomCommandsTest, DoWhatTheModelDoesInMemory) {
  Simulation(GetParam(), /*direct=*/true).Run(150);
}

TEST_P(RandomCommandsTest, DoWhatTheModelDoesThroughBuffers) {
  Simulation(GetParam(), /*direct=*/false).Run(150);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomCommandsTest,
                         ::testing::Range(uint32_t{1}, uint32_t{9}));

}  // namespace
}  // namespace skiff::scsi
