#include "scsi/initiator/fake_command_port.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "scsi/endian.h"
#include "scsi/initiator/cdb.h"
#include "scsi/iovec_cursor.h"

namespace skiff::scsi {
namespace {

constexpr uint8_t kCheckCondition = 0x02;
constexpr uint8_t kUnmap = 0x42;

std::string DataOut(const Command& command) {
  std::string bytes(command.data_out_length, '\0');
  IovecCursor cursor(command.data_out, command.data_out_count);
  EXPECT_EQ(
      cursor.CopyTo(reinterpret_cast<uint8_t*>(bytes.data()), bytes.size()),
      bytes.size())
      << "the buffer is shorter than data_out_length";
  return bytes;
}

struct Range {
  uint64_t lba = 0;
  uint64_t count = 0;
};

Range RangeOf(const Command& command) {
  const uint8_t* cdb = command.cdb.data();
  if (cdb[0] == kUnmap) {
    const std::string list = DataOut(command);
    if (list.size() != kUnmapListLength) return {};
    const auto* bytes = reinterpret_cast<const uint8_t*>(list.data());
    return {LoadBe64(bytes + 8), LoadBe32(bytes + 16)};
  }
  if (cdb[0] == 0x89) return {LoadBe64(cdb + 2), cdb[13]};
  if (command.cdb_length == 16) return {LoadBe64(cdb + 2), LoadBe32(cdb + 10)};
  return {LoadBe32(cdb + 2), LoadBe16(cdb + 7)};
}

}  // namespace

FakeCommandPort::~FakeCommandPort() { EXPECT_TRUE(pending_.empty()); }

void FakeCommandPort::Submit(Command* command) {
  const Range range = RangeOf(*command);
  log_.push_back(
      absl::StrCat(CommandName(*command), " ", range.lba, "+", range.count));
  pending_.push_back(command);
  if (!hold) reactor_->ScheduleTurnEnd(this);
}

void FakeCommandPort::Abort(Command* command) {
  const auto found = std::find(pending_.begin(), pending_.end(), command);
  ASSERT_NE(found, pending_.end());
  pending_.erase(found);
  command->outcome = Command::Outcome::kAborted;
  reactor_->Post([command] { command->done(command); });
}

size_t FakeCommandPort::CountOf(const std::string& prefix) const {
  return static_cast<size_t>(std::count_if(
      log_.begin(), log_.end(),
      [&](const std::string& line) { return absl::StartsWith(line, prefix); }));
}

void FakeCommandPort::Release() { reactor_->ScheduleTurnEnd(this); }

void FakeCommandPort::OnTurnEnd() {
  std::deque<Command*> ready = std::exchange(pending_, {});
  if (newest_first) std::reverse(ready.begin(), ready.end());
  for (Command* command : ready) {
    command->outcome = Command::Outcome::kCompleted;
    std::deque<Answer>& scripted = answers[command->cdb[0]];
    if (scripted.empty()) {
      Execute(command);
    } else {
      const Answer answer = scripted.front();
      scripted.pop_front();
      Apply(command, answer);
    }
    command->done(command);
  }
}

void FakeCommandPort::Apply(Command* command, const Answer& answer) {
  command->outcome = answer.outcome;
  command->status = answer.status;
  command->residual = answer.residual;
  command->underflow = answer.residual > 0;
  if (answer.status == kCheckCondition)
    Refuse(command, answer.key, answer.code);
}

void FakeCommandPort::Refuse(Command* command, SenseKey key,
                             AdditionalSense code) {
  SenseData sense;
  sense.key = key;
  sense.code = code;
  command->status = kCheckCondition;
  command->sense_length = static_cast<uint8_t>(
      EncodeSense(sense, SenseFormat::kFixed, command->sense.data()));
}

void FakeCommandPort::Return(Command* command,
                             const std::vector<uint8_t>& bytes) {
  IovecCursor cursor(command->data_in, command->data_in_count);
  const uint64_t returned = cursor.CopyFrom(
      bytes.data(), std::min<uint64_t>(bytes.size(), command->data_in_length));
  command->residual = static_cast<uint32_t>(command->data_in_length - returned);
  command->underflow = command->residual > 0;
}

void FakeCommandPort::Execute(Command* command) {
  const uint8_t* cdb = command->cdb.data();
  const Range range = RangeOf(*command);
  const auto replaced = data.find(static_cast<uint16_t>(cdb[0] << 8 | cdb[2]));
  if (replaced != data.end()) return Return(command, replaced->second);
  switch (cdb[0]) {
    case 0x00:
      return;
    case 0x12:
      return Inquiry(command);
    case 0x1a:
      return ModeSense(command);
    case 0x25:
    case 0x9e:
      return ReadCapacity(command);
    case 0x28:
    case 0x88:
      return Transfer(command, range.lba, range.count, /*write=*/false);
    case 0x2a:
    case 0x8a:
      return Transfer(command, range.lba, range.count, /*write=*/true);
    case 0x35:
      if (disk.synchronize_cache) return;
      break;
    case kUnmap:
      return Unmap(command, range.lba, range.count);
    case 0x89:
      return CompareAndWrite(command, range.lba, range.count);
    case 0x93:
      if (disk.write_same) return WriteSame(command, range.lba, range.count);
      break;
    default:
      break;
  }
  Refuse(command, SenseKey::kIllegalRequest,
         AdditionalSense::kInvalidCommandOperationCode);
}

void FakeCommandPort::Inquiry(Command* command) {
  const uint8_t* cdb = command->cdb.data();
  if ((cdb[1] & 1) == 0) {
    std::vector<uint8_t> bytes(36);
    bytes[0] =
        static_cast<uint8_t>(disk.peripheral_qualifier << 5 | disk.device_type);
    bytes[4] = 31;
    const std::string text = "SKIFF   Fake            0.1 ";
    std::copy(text.begin(), text.end(), bytes.begin() + 8);
    return Return(command, bytes);
  }
  std::vector<uint8_t> page = {0, cdb[2], 0, 0};
  const auto append = [&page](std::initializer_list<uint8_t> more) {
    page.insert(page.end(), more);
  };
  switch (disk.vpd ? cdb[2] : 0xff) {
    case 0x00:
      append({0x00, 0x80, 0x83, 0xb0, 0xb1, 0xb2});
      break;
    case 0x80:
      append({'4', '7'});
      break;
    case 0x83:
      append({1, 3, 0, 8, 0x60, 0, 0, 0, 0, 0, 0, 1});
      break;
    case 0xb0:
      page.resize(64);
      page[5] = disk.max_compare_and_write;
      StoreBe32(&page[8], disk.max_transfer_blocks);
      StoreBe32(&page[20], disk.max_unmap_blocks);
      StoreBe32(&page[24], disk.unmap ? 1 : 0);
      StoreBe32(&page[28], disk.unmap_granularity);
      StoreBe64(&page[36], disk.max_write_same_blocks);
      break;
    case 0xb1:
      append({0, 1});
      break;
    case 0xb2:
      append(
          {0,
           static_cast<uint8_t>(disk.unmap << 7 | disk.write_same_unmap << 6),
           2, 0});
      break;
    default:
      return Refuse(command, SenseKey::kIllegalRequest,
                    AdditionalSense::kInvalidFieldInCdb);
  }
  StoreBe16(&page[2], static_cast<uint16_t>(page.size() - 4));
  Return(command, page);
}

void FakeCommandPort::ReadCapacity(Command* command) {
  std::vector<uint8_t> bytes;
  if (command->cdb[0] == 0x25) {
    bytes.resize(8);
    StoreBe32(&bytes[0], static_cast<uint32_t>(disk.blocks - 1));
    StoreBe32(&bytes[4], disk.block_size);
    return Return(command, bytes);
  }
  if (!disk.read_capacity_16) {
    return Refuse(command, SenseKey::kIllegalRequest,
                  AdditionalSense::kInvalidCommandOperationCode);
  }
  bytes.resize(32);
  StoreBe64(&bytes[0], disk.blocks - 1);
  StoreBe32(&bytes[8], disk.block_size);
  bytes[13] = 3;
  bytes[14] = 0xc0;
  Return(command, bytes);
}

void FakeCommandPort::ModeSense(Command* command) {
  const uint8_t page = command->cdb[2] & 0x3f;
  const auto specific =
      static_cast<uint8_t>(disk.write_protected << 7 | disk.dpo_fua << 4);
  if (page == 0x08 && !disk.caching_page) {
    return Refuse(command, SenseKey::kIllegalRequest,
                  AdditionalSense::kInvalidFieldInCdb);
  }
  std::vector<uint8_t> bytes = {3, 0, specific, 0};
  if (disk.caching_page) {
    bytes.resize(4 + 20);
    bytes[4] = 0x08;
    bytes[5] = 18;
    bytes[6] = static_cast<uint8_t>(disk.write_cache << 2);
    bytes[0] = static_cast<uint8_t>(bytes.size() - 1);
  }
  Return(command, bytes);
}

bool FakeCommandPort::InRange(Command* command, uint64_t lba, uint64_t count) {
  if (lba <= disk.blocks && count <= disk.blocks - lba) return true;
  Refuse(command, SenseKey::kIllegalRequest, AdditionalSense::kLbaOutOfRange);
  return false;
}

void FakeCommandPort::Transfer(Command* command, uint64_t lba, uint64_t count,
                               bool write) {
  if (!InRange(command, lba, count)) return;
  const uint64_t bytes = count * disk.block_size;
  if (disk.max_transfer_blocks != 0 && count > disk.max_transfer_blocks) {
    return Refuse(command, SenseKey::kIllegalRequest,
                  AdditionalSense::kInvalidFieldInCdb);
  }
  if (write) {
    EXPECT_EQ(command->data_out_length, bytes);
    EXPECT_EQ(TotalLength(command->data_out, command->data_out_count), bytes);
    return SetContent(lba, DataOut(*command));
  }
  EXPECT_EQ(command->data_in_length, bytes);
  EXPECT_EQ(TotalLength(command->data_in, command->data_in_count), bytes);
  const std::string content = Content(lba, count);
  Return(command, {content.begin(), content.end()});
}

void FakeCommandPort::WriteSame(Command* command, uint64_t lba,
                                uint64_t count) {
  if (!InRange(command, lba, count)) return;
  if (disk.max_write_same_blocks != 0 && count > disk.max_write_same_blocks) {
    return Refuse(command, SenseKey::kIllegalRequest,
                  AdditionalSense::kInvalidFieldInCdb);
  }
  const std::string block = DataOut(*command);
  EXPECT_EQ(block, std::string(disk.block_size, '\0'));
  content_.erase(content_.lower_bound(lba), content_.lower_bound(lba + count));
}

void FakeCommandPort::Unmap(Command* command, uint64_t lba, uint64_t count) {
  EXPECT_EQ(command->data_out_length, kUnmapListLength);
  EXPECT_LE(count, disk.max_unmap_blocks);
  if (!InRange(command, lba, count)) return;
  content_.erase(content_.lower_bound(lba), content_.lower_bound(lba + count));
}

void FakeCommandPort::CompareAndWrite(Command* command, uint64_t lba,
                                      uint64_t count) {
  if (!InRange(command, lba, count)) return;
  const std::string both = DataOut(*command);
  const uint64_t bytes = count * disk.block_size;
  ASSERT_EQ(both.size(), 2 * bytes);
  if (both.substr(0, bytes) != Content(lba, count)) {
    return Refuse(command, SenseKey::kMiscompare,
                  AdditionalSense::kMiscompareDuringVerify);
  }
  SetContent(lba, both.substr(bytes));
}

std::string FakeCommandPort::Content(uint64_t lba, uint64_t count) const {
  std::string bytes(count * disk.block_size, '\0');
  for (auto at = content_.lower_bound(lba);
       at != content_.end() && at->first < lba + count; ++at) {
    bytes.replace((at->first - lba) * disk.block_size, disk.block_size,
                  at->second);
  }
  return bytes;
}

void FakeCommandPort::SetContent(uint64_t lba, const std::string& bytes) {
  for (size_t at = 0; at < bytes.size(); at += disk.block_size) {
    content_[lba++] = bytes.substr(at, disk.block_size);
  }
}

}  // namespace skiff::scsi
