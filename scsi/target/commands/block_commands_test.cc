// READ, WRITE, VERIFY and their relatives, over media with and without direct
// memory.

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>

#include "scsi/backend/ram_backend.h"
#include "scsi/endian.h"
#include "scsi/target/testing.h"
#include "scsi/target/testing_backend.h"

namespace skiff::scsi {
namespace {

using testing::Bytes;
using testing::Cdb10;
using testing::Cdb16;
using testing::Outcome;
using testing::Pattern;
using testing::TestBackend;
using testing::TestTarget;
using testing::ThinInfo;

constexpr uint64_t kBlocks = 4096;
constexpr uint32_t kBlock = 512;

struct Medium {
  std::string name;
  bool direct;
  TestBackend::Completion completion;
  bool immediate_data_out;
};

class BlockCommandsTest : public ::testing::TestWithParam<Medium> {
 protected:
  BlockCommandsTest() : backend_(MakeBackend()), target_(backend_) {
    target_.port().immediate_data_out = GetParam().immediate_data_out;
  }

  static std::shared_ptr<Backend> MakeBackend() {
    if (GetParam().direct) {
      RamBackendOptions options;
      options.size_bytes = kBlocks * kBlock;
      options.thin = true;
      auto backend = MakeRamBackend(options);
      EXPECT_TRUE(backend.ok());
      return *std::move(backend);
    }
    auto backend = std::make_shared<TestBackend>(ThinInfo(kBlocks));
    backend->completion = GetParam().completion;
    return backend;
  }

  auto Run(const Bytes& cdb, const Bytes& out = {}, uint32_t room = 0) {
    return target_.Run(cdb, out, room);
  }
  // The medium, as READ tells.
  Bytes Contents(uint64_t lba, uint32_t blocks) {
    const auto read = Run(Cdb16(0x88, lba, blocks), {}, blocks * kBlock);
    EXPECT_EQ(Outcome(*read), "GOOD");
    return read->data_in;
  }
  void Fill(uint64_t lba, const Bytes& data) {
    const auto write = Run(
        Cdb16(0x8a, lba, static_cast<uint32_t>(data.size() / kBlock)), data);
    EXPECT_EQ(Outcome(*write), "GOOD");
  }

  std::shared_ptr<Backend> backend_;
  TestTarget target_;
};

Bytes Join(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// The same fields for CDBs of 6, 10, 12 and 16 bytes.
Bytes Cdb(uint8_t opcode, uint32_t lba, uint8_t blocks, uint8_t flags = 0) {
  Bytes cdb(16);
  cdb[0] = opcode;
  cdb[1] = flags;
  switch (opcode >> 5) {
    case 0:
      StoreBe24(&cdb[1], lba);
      cdb[4] = blocks;
      break;
    case 5:
      StoreBe32(&cdb[2], lba);
      cdb[9] = blocks;
      break;
    case 4:
      StoreBe64(&cdb[2], lba);
      cdb[13] = blocks;
      break;
    default:
      StoreBe32(&cdb[2], lba);
      cdb[8] = blocks;
  }
  return cdb;
}

TEST_P(BlockCommandsTest, EveryReadAndWriteReachesItsBlocks) {
  uint8_t seed = 0;
  for (const uint8_t write : {0x0a, 0x2a, 0xaa, 0x8a, 0x2e, 0xae, 0x8e}) {
    const Bytes before = Pattern(5 * kBlock, ++seed);
    Fill(kBlocks - 5, before);
    const Bytes data = Pattern(3 * kBlock, ++seed);
    const auto written = Run(Cdb(write, kBlocks - 4, 3), data);
    EXPECT_EQ(Outcome(*written), "GOOD");
    EXPECT_EQ(written->task.data_out_wanted, data.size());
    Bytes expected = before;
    std::copy(data.begin(), data.end(), expected.begin() + kBlock);
    for (const uint8_t read : {0x08, 0x28, 0xa8, 0x88}) {
      const auto got = Run(Cdb(read, kBlocks - 5, 5), {}, 5 * kBlock);
      EXPECT_EQ(Outcome(*got), "GOOD");
      EXPECT_EQ(got->task.data_in_wanted, 5 * kBlock);
      EXPECT_EQ(got->data_in, expected) << int{write} << " " << int{read};
    }
  }
}

TEST_P(BlockCommandsTest, SixByteCdbsTakeZeroFor256Blocks) {
  const Bytes data = Pattern(256 * kBlock, 9);
  EXPECT_EQ(Outcome(*Run(Cdb(0x0a, 7, 0), data)), "GOOD");
  const auto read = Run(Cdb(0x08, 7, 0), {}, 256 * kBlock);
  EXPECT_EQ(read->data_in, data);
}

TEST_P(BlockCommandsTest, CommandsLongerThanABufferGoThroughInSteps) {
  // 256 KiB buffers: four and a half of them.
  const uint32_t blocks = 2304;
  const Bytes data = Pattern(blocks * kBlock, 3);
  for (const uint8_t write : {0x8a, 0x8e}) {
    EXPECT_EQ(Outcome(*Run(Cdb16(write, 11, blocks), data)), "GOOD");
    EXPECT_EQ(Contents(11, blocks), data);
  }
  EXPECT_EQ(Outcome(*Run(Cdb16(0x8f, 11, blocks, 0x02), data)), "GOOD");
  EXPECT_EQ(Outcome(*Run(Cdb16(0x8f, 11, blocks))), "GOOD");
}

TEST_P(BlockCommandsTest, ZeroBlocksTransferNothing) {
  for (const uint8_t opcode :
       {0x28, 0x2a, 0x88, 0x8a, 0xa8, 0xaa, 0x2e, 0x2f, 0x34, 0x35, 0x8e, 0x8f,
        0x90, 0x91, 0xae, 0xaf, 0x89}) {
    const auto command = Run(Cdb(opcode, 5, 0));
    EXPECT_EQ(Outcome(*command), "GOOD") << int{opcode};
    EXPECT_EQ(command->task.data_in_wanted, 0u);
    EXPECT_EQ(command->task.data_out_wanted, 0u);
    EXPECT_EQ(Outcome(*Run(Cdb(opcode, kBlocks, 0))), "GOOD") << int{opcode};
    EXPECT_EQ(Run(Cdb(opcode, kBlocks + 1, 0))->code(),
              AdditionalSense::kLbaOutOfRange)
        << int{opcode};
  }
}

TEST_P(BlockCommandsTest, RangesBeyondTheMediumAreRefused) {
  const Bytes data(2 * kBlock);
  for (const uint8_t opcode :
       {0x08, 0x0a, 0x28, 0x2a, 0x2e, 0x2f, 0x34, 0x35, 0x41, 0x88,
        0x8a, 0x8e, 0x8f, 0x90, 0x91, 0x93, 0xa8, 0xaa, 0xae, 0xaf}) {
    for (const uint32_t lba : {uint32_t{kBlocks - 1}, uint32_t{kBlocks}}) {
      const auto command = Run(Cdb(opcode, lba, 2), data, 2 * kBlock);
      EXPECT_EQ(command->sense()->key, SenseKey::kIllegalRequest)
          << int{opcode};
      EXPECT_EQ(command->code(), AdditionalSense::kLbaOutOfRange)
          << int{opcode};
    }
  }
  // LBA plus length must not wrap around.
  for (const uint8_t opcode : {0x88, 0x8a, 0x8e, 0x8f, 0x90, 0x91, 0x93}) {
    EXPECT_EQ(Run(Cdb16(opcode, ~uint64_t{0}, 2), data)->code(),
              AdditionalSense::kLbaOutOfRange);
  }
}

TEST_P(BlockCommandsTest, ReadsEndWhereTheInitiatorHasNoMoreRoom) {
  const Bytes data = Pattern(2 * kBlock, 4);
  Fill(0, data);
  for (const uint32_t room : {0u, 1u, 200u, kBlock, kBlock + 1, 2 * kBlock}) {
    const auto read = Run(Cdb10(0x28, 0, 2), {}, room);
    EXPECT_EQ(Outcome(*read), "GOOD");
    EXPECT_EQ(read->task.data_in_wanted, 2 * kBlock) << "for the residual";
    EXPECT_EQ(read->data_in, Bytes(data.begin(), data.begin() + room));
  }
  const auto roomy = Run(Cdb10(0x28, 0, 2), {}, 10000);
  EXPECT_EQ(roomy->received(), data);
}

TEST_P(BlockCommandsTest, WritesTakeWholeBlocksOfWhatTheInitiatorSends) {
  for (const uint8_t opcode : {0x2a, 0xaa, 0x8a, 0x2e, 0xae, 0x8e}) {
    const Bytes before = Pattern(3 * kBlock, 1);
    Fill(0, before);
    const Bytes data = Pattern(kBlock, 2);
    auto write = Run(Cdb(opcode, 0, 2), data);
    EXPECT_EQ(Outcome(*write), "GOOD");
    EXPECT_EQ(write->task.data_out_wanted, 2 * kBlock);
    EXPECT_EQ(Contents(0, 3),
              Join(data, Bytes(before.begin() + kBlock, before.end())));
    write = Run(Cdb(opcode, 0, 1));
    EXPECT_EQ(Outcome(*write), "GOOD");
    EXPECT_EQ(write->task.data_out_wanted, kBlock);
    write = Run(Cdb(opcode, 0, 1), Pattern(200, 5));
    EXPECT_EQ(write->code(),
              AdditionalSense::kInvalidFieldInCommandInformationUnit);
    EXPECT_EQ(write->task.data_out_wanted, kBlock);
    write = Run(Cdb(opcode, 1, 1), Pattern(10000, 6));
    EXPECT_EQ(Outcome(*write), "GOOD");
    const Bytes sent = Pattern(10000, 6);
    EXPECT_EQ(Contents(0, 3),
              Join(Join(data, Bytes(sent.begin(), sent.begin() + kBlock)),
                   Bytes(before.begin() + 2 * kBlock, before.end())));
  }
}

TEST_P(BlockCommandsTest, VerifyComparesByByteCheck) {
  for (const uint8_t opcode : {0x2f, 0xaf, 0x8f}) {
    Bytes data = Pattern(4 * kBlock, 7);
    Fill(20, data);
    EXPECT_EQ(Outcome(*Run(Cdb(opcode, 20, 4), data)), "GOOD");
    EXPECT_EQ(Outcome(*Run(Cdb(opcode, 20, 4, 0x02), data)), "GOOD");
    data[2 * kBlock + 17] ^= 1;
    const auto mismatch = Run(Cdb(opcode, 20, 4, 0x02), data);
    EXPECT_EQ(mismatch->sense()->key, SenseKey::kMiscompare);
    EXPECT_EQ(mismatch->code(), AdditionalSense::kMiscompareDuringVerify);
    EXPECT_EQ(mismatch->sense()->information, 22u);
    EXPECT_EQ(Outcome(*Run(Cdb(opcode, 20, 4, 0x00), data)), "GOOD");
    EXPECT_EQ(Run(Cdb(opcode, 20, 4, 0x04), data)->sense()->field_pointer->bit,
              2);
    // One block against each.
    const Bytes one = Pattern(kBlock, 8);
    Fill(30, Join(Join(one, one), data));
    auto same = Run(Cdb(opcode, 30, 2, 0x06), one);
    EXPECT_EQ(Outcome(*same), "GOOD");
    EXPECT_EQ(same->task.data_out_wanted, kBlock);
    same = Run(Cdb(opcode, 30, 3, 0x06), one);
    EXPECT_EQ(same->sense()->information, 32u);
  }
}

// Half a buffer of an odd number of pages is no multiple of the block size.
TEST(VerifyTest, StepsAreWholeBlocksWhateverTheBufferSize) {
  constexpr uint32_t kBigBlock = 4096;
  BackendInfo info = ThinInfo(100 * kBigBlock / kBlock);
  info.block_size = info.physical_block_size = kBigBlock;
  info.unmap_granularity_bytes = kBigBlock;
  auto backend = std::make_shared<TestBackend>(info);
  const WorkerOptions worker = {.buffer_pool_bytes = 4u << 20,
                                .buffer_bytes = 65 * kBigBlock};
  TestTarget target(backend, {}, worker);
  const Bytes data = Pattern(80 * kBigBlock, 5);
  std::memcpy(backend->bytes().data(), data.data(), data.size());
  EXPECT_EQ(Outcome(*target.Run(Cdb10(0x2f, 0, 80, 0x02), data)), "GOOD");
  const Bytes other = Pattern(80 * kBigBlock, 6);
  EXPECT_EQ(Outcome(*target.Run(Cdb10(0x2e, 0, 80, 0x02), other)), "GOOD");
  EXPECT_EQ(std::memcmp(backend->bytes().data(), other.data(), other.size()),
            0);
}

TEST_P(BlockCommandsTest, WriteAndVerifyKnowsTwoByteChecks) {
  const Bytes data = Pattern(2 * kBlock, 1);
  for (const uint8_t opcode : {0x2e, 0xae, 0x8e}) {
    EXPECT_EQ(Outcome(*Run(Cdb(opcode, 3, 2, 0x02), data)), "GOOD");
    EXPECT_EQ(Contents(3, 2), data);
    for (const uint8_t reserved : {0x04, 0x06}) {
      EXPECT_EQ(Run(Cdb(opcode, 3, 2, reserved), data)->code(),
                AdditionalSense::kInvalidFieldInCdb);
    }
  }
}

TEST_P(BlockCommandsTest, WriteSameRepeatsABlock) {
  for (const uint8_t opcode : {0x41, 0x93}) {
    const Bytes before = Pattern(1300 * kBlock, 1);
    Fill(0, before);
    const Bytes one = Pattern(kBlock, opcode);
    Bytes cdb = opcode == 0x41 ? Cdb10(0x41, 2, 1200) : Cdb16(0x93, 2, 1200);
    EXPECT_EQ(Outcome(*Run(cdb, one)), "GOOD");
    const Bytes after = Contents(0, 1300);
    for (uint32_t i = 0; i < 1300; ++i) {
      const uint8_t* expected =
          i >= 2 && i < 1202 ? one.data() : &before[i * kBlock];
      ASSERT_EQ(std::memcmp(&after[i * kBlock], expected, kBlock), 0) << i;
    }
    // Zeroes, with and without leave to unmap.
    for (const uint8_t flags : {0x00, 0x08}) {
      Fill(0, before);
      cdb[1] = flags;
      EXPECT_EQ(Outcome(*Run(cdb, Bytes(kBlock))), "GOOD");
      EXPECT_EQ(Contents(2, 1200), Bytes(1200 * kBlock));
      EXPECT_EQ(Contents(0, 2),
                Bytes(before.begin(), before.begin() + 2 * kBlock));
    }
    // Leave to unmap does not change what is read.
    cdb[1] = 0x08;
    EXPECT_EQ(Outcome(*Run(cdb, one)), "GOOD");
    EXPECT_EQ(Contents(2, 1), one);
  }
  Fill(0, Pattern(4 * kBlock, 1));
  const auto no_data = Run(Cdb16(0x93, 1, 2, 0x01));
  EXPECT_EQ(Outcome(*no_data), "GOOD");
  EXPECT_EQ(no_data->task.data_out_wanted, 0u);
  EXPECT_EQ(Contents(1, 2), Bytes(2 * kBlock));
}

TEST_P(BlockCommandsTest, WriteSameRefusesWhatTheBlockLimitsRuleOut) {
  const Bytes one(kBlock);
  EXPECT_EQ(Run(Cdb10(0x41, 0, 0), one)->sense()->field_pointer->byte, 7);
  EXPECT_EQ(Run(Cdb16(0x93, 0, 0), one)->sense()->field_pointer->byte, 10);
  EXPECT_EQ(Run(Cdb16(0x93, 0, 1, 0x10), one)->sense()->field_pointer->bit, 4);
  for (const size_t length : {size_t{256}, size_t{1024}, size_t{0}}) {
    EXPECT_EQ(Run(Cdb16(0x93, 0, 1), Bytes(length))->code(),
              AdditionalSense::kInvalidFieldInCommandInformationUnit);
  }
}

Bytes UnmapList(const std::vector<std::pair<uint64_t, uint32_t>>& ranges) {
  Bytes list(8 + ranges.size() * 16);
  StoreBe16(&list[0], static_cast<uint16_t>(list.size() - 2));
  StoreBe16(&list[2], static_cast<uint16_t>(list.size() - 8));
  for (size_t i = 0; i < ranges.size(); ++i) {
    StoreBe64(&list[8 + i * 16], ranges[i].first);
    StoreBe32(&list[8 + i * 16 + 8], ranges[i].second);
  }
  return list;
}

Bytes UnmapCdb(size_t length, uint8_t flags = 0) {
  return Cdb10(0x42, 0, static_cast<uint16_t>(length), flags);
}

TEST_P(BlockCommandsTest, UnmapFreesEveryRange) {
  Fill(0, Pattern(64 * kBlock, 1));
  const Bytes list = UnmapList({{0, 8}, {5, 0}, {16, 16}, {kBlocks, 0}});
  const auto unmap = Run(UnmapCdb(list.size()), list);
  EXPECT_EQ(Outcome(*unmap), "GOOD");
  EXPECT_EQ(unmap->task.data_out_wanted, list.size());
  EXPECT_EQ(Contents(0, 8), Bytes(8 * kBlock));
  EXPECT_EQ(Contents(16, 16), Bytes(16 * kBlock));
  EXPECT_NE(Contents(8, 8), Bytes(8 * kBlock));
  EXPECT_EQ(Outcome(*Run(UnmapCdb(0))), "GOOD");
  EXPECT_EQ(Outcome(*Run(UnmapCdb(8), UnmapList({}))), "GOOD");

  Bytes cdb = Cdb16(0x9e, 0, 24, 0x12);
  const auto status = Run(cdb, {}, 24);
  EXPECT_EQ(Outcome(*status), "GOOD");
  EXPECT_EQ(LoadBe64(&status->data_in[8]), 0u);
  EXPECT_EQ(LoadBe32(&status->data_in[16]), 8u);
  EXPECT_EQ(status->data_in[20], 1) << "deallocated";
}

TEST_P(BlockCommandsTest, UnmapDoesAllOrNothing) {
  const Bytes data = Pattern(16 * kBlock, 1);
  Fill(0, data);
  Bytes list = UnmapList({{0, 8}, {kBlocks - 1, 2}});
  EXPECT_EQ(Run(UnmapCdb(list.size()), list)->code(),
            AdditionalSense::kLbaOutOfRange);
  EXPECT_EQ(Contents(0, 16), data);
  list = UnmapList({{0, 8}});
  EXPECT_EQ(Run(UnmapCdb(list.size(), 0x01), list)->sense()->field_pointer->bit,
            0)
      << "ANCHOR";
  for (const size_t length : {size_t{1}, size_t{7}}) {
    EXPECT_EQ(Run(UnmapCdb(length), list)->code(),
              AdditionalSense::kParameterListLengthError);
  }
  EXPECT_EQ(Run(UnmapCdb(list.size() + 1), list)->code(),
            AdditionalSense::kParameterListLengthError)
      << "the initiator does not send it all";
  // More descriptors than MAXIMUM UNMAP BLOCK DESCRIPTOR COUNT.
  list = UnmapList(std::vector<std::pair<uint64_t, uint32_t>>(257, {0, 0}));
  auto command = Run(UnmapCdb(list.size()), list);
  EXPECT_EQ(command->code(), AdditionalSense::kInvalidFieldInParameterList);
  EXPECT_EQ(command->sense()->field_pointer->byte, 2);
  // A list that is longer than its descriptors is taken as a whole.
  for (const size_t length : {size_t{8 + 257 * 16}, size_t{65535}}) {
    list = UnmapList(std::vector<std::pair<uint64_t, uint32_t>>(256, {0, 0}));
    list.resize(length);
    command = Run(UnmapCdb(list.size()), list);
    EXPECT_EQ(Outcome(*command), "GOOD");
    EXPECT_EQ(command->task.data_out_wanted, length);
  }
  // An incomplete last descriptor is ignored.
  list = UnmapList({{0, 8}, {8, 8}});
  list.resize(list.size() - 1);
  EXPECT_EQ(Outcome(*Run(UnmapCdb(list.size()), list)), "GOOD");
  EXPECT_EQ(Contents(0, 8), Bytes(8 * kBlock));
  EXPECT_EQ(Contents(8, 8), Bytes(data.begin() + 8 * kBlock, data.end()));
}

TEST_P(BlockCommandsTest, CompareAndWriteWritesOnAMatchOnly) {
  const Bytes old_data = Pattern(2 * kBlock, 1);
  const Bytes new_data = Pattern(2 * kBlock, 2);
  Fill(40, old_data);
  auto swap = Run(Cdb16(0x89, 40, 2), Join(old_data, new_data));
  EXPECT_EQ(Outcome(*swap), "GOOD");
  EXPECT_EQ(swap->task.data_out_wanted, 4 * kBlock);
  EXPECT_EQ(Contents(40, 2), new_data);
  for (const size_t at : {size_t{0}, size_t{511}, size_t{512}, size_t{1023}}) {
    Bytes wrong = new_data;
    wrong[at] ^= 0x80;
    swap = Run(Cdb16(0x89, 40, 2), Join(wrong, old_data));
    EXPECT_EQ(swap->sense()->key, SenseKey::kMiscompare);
    EXPECT_EQ(swap->code(), AdditionalSense::kMiscompareDuringVerify);
    EXPECT_EQ(swap->sense()->information, at) << "the offset";
    EXPECT_EQ(Contents(40, 2), new_data);
  }
  EXPECT_EQ(Run(Cdb16(0x89, 0, 129), Bytes(129 * 2 * kBlock))
                ->sense()
                ->field_pointer->byte,
            13)
      << "longer than the block limits say";
  for (const uint32_t blocks : {1u, 3u}) {
    EXPECT_EQ(Run(Cdb16(0x89, 0, blocks), Bytes(4 * kBlock))->code(),
              AdditionalSense::kInvalidFieldInCommandInformationUnit);
  }
}

TEST_P(BlockCommandsTest, ProtectionInformationIsRefused) {
  const Bytes data(kBlock);
  for (const uint8_t opcode : {0x28, 0x2a, 0x2e, 0x2f, 0x41, 0x88, 0x8a, 0x8e,
                               0x8f, 0x89, 0x93, 0xa8, 0xaa, 0xae, 0xaf}) {
    for (uint8_t protect = 1; protect < 8; ++protect) {
      const auto command = Run(
          Cdb(opcode, 0, 1, static_cast<uint8_t>(protect << 5)), data, kBlock);
      EXPECT_EQ(command->code(), AdditionalSense::kInvalidFieldInCdb);
      ASSERT_TRUE(command->sense()->field_pointer.has_value());
      EXPECT_EQ(command->sense()->field_pointer->byte, 1);
      EXPECT_GE(command->sense()->field_pointer->bit, 5);
    }
  }
}

TEST_P(BlockCommandsTest, CacheHintsAreAccepted) {
  const Bytes data = Pattern(kBlock, 3);
  for (const uint8_t flags : {0x10, 0x08, 0x02, 0x0a, 0x18, 0x1a}) {
    for (const uint8_t opcode : {0x2a, 0xaa, 0x8a}) {
      EXPECT_EQ(Outcome(*Run(Cdb(opcode, 9, 1, flags), data)), "GOOD");
    }
    for (const uint8_t opcode : {0x28, 0xa8, 0x88}) {
      EXPECT_EQ(Outcome(*Run(Cdb(opcode, 9, 1, flags), {}, kBlock)), "GOOD");
    }
  }
  EXPECT_EQ(Outcome(*Run(Cdb(0x35, 0, 1, 0x06))), "GOOD");
  EXPECT_EQ(Outcome(*Run(Cdb(0x34, 0, 1, 0x02))), "GOOD");
}

INSTANTIATE_TEST_SUITE_P(
    Media, BlockCommandsTest,
    ::testing::Values(
        Medium{"Memory", true, TestBackend::Completion::kInline, true},
        Medium{"MemorySlowData", true, TestBackend::Completion::kInline, false},
        Medium{"Inline", false, TestBackend::Completion::kInline, true},
        Medium{"Posted", false, TestBackend::Completion::kPosted, true},
        Medium{"PostedSlowData", false, TestBackend::Completion::kPosted,
               false}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace skiff::scsi
