#ifndef SKIFF_SCSI_INITIATOR_FAKE_COMMAND_PORT_H_
#define SKIFF_SCSI_INITIATOR_FAKE_COMMAND_PORT_H_

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "scsi/initiator/command.h"
#include "scsi/sense.h"
#include "transport/reactor/reactor.h"

namespace skiff::scsi {

// A disk that exists only for tests: executes commands on a map of blocks, at
// the end of the turn, or when the test says so.
class FakeCommandPort : public CommandPort, private transport::TurnHook {
 public:
  struct Disk {
    uint64_t blocks = 1u << 20;
    uint32_t block_size = 512;
    uint8_t device_type = 0;
    uint8_t peripheral_qualifier = 0;
    bool write_protected = false;
    bool dpo_fua = true;
    bool write_cache = true;
    bool read_capacity_16 = true;
    bool vpd = true;
    bool caching_page = true;
    bool write_same = true;
    bool synchronize_cache = true;
    bool unmap = true;             // UNMAP.
    bool write_same_unmap = true;  // LBPWS.
    uint32_t max_transfer_blocks = 0;
    uint32_t max_unmap_blocks = 0xffffffff;
    uint32_t unmap_granularity = 8;
    uint64_t max_write_same_blocks = 0;
    uint8_t max_compare_and_write = 8;
  };

  explicit FakeCommandPort(transport::Reactor* reactor) : reactor_(reactor) {}
  ~FakeCommandPort() override;

  void Submit(Command* command) override;
  void Abort(Command* command) override;

  Disk disk;
  // Answers of the next commands with this operation code, instead of executing
  // them.
  struct Answer {
    Command::Outcome outcome = Command::Outcome::kCompleted;
    uint8_t status = 0;
    SenseKey key = SenseKey::kNoSense;  // With CHECK CONDITION.
    AdditionalSense code = AdditionalSense::kNone;
    uint32_t residual = 0;
  };
  std::map<uint8_t, std::deque<Answer>> answers;
  // Replaces the data that a VPD page or another command returns, by operation
  // code << 8 | page.
  std::map<uint16_t, std::vector<uint8_t>> data;
  // Commands wait for Release().
  bool hold = false;
  // Executes the last command first.
  bool newest_first = false;

  void Release();
  size_t pending() const { return pending_.size(); }
  // Names of all commands so far: "READ (10) 8+16" (block and count).
  const std::vector<std::string>& log() const { return log_; }
  size_t CountOf(const std::string& prefix) const;

  std::string Content(uint64_t lba, uint64_t count) const;
  void SetContent(uint64_t lba, const std::string& bytes);

 private:
  void OnTurnEnd() override;
  void Execute(Command* command);
  void Refuse(Command* command, SenseKey key, AdditionalSense code);
  void Apply(Command* command, const Answer& answer);
  void Return(Command* command, const std::vector<uint8_t>& bytes);
  void Inquiry(Command* command);
  void ReadCapacity(Command* command);
  void ModeSense(Command* command);
  void Transfer(Command* command, uint64_t lba, uint64_t count, bool write);
  void WriteSame(Command* command, uint64_t lba, uint64_t count);
  void Unmap(Command* command, uint64_t lba, uint64_t count);
  void CompareAndWrite(Command* command, uint64_t lba, uint64_t count);
  bool InRange(Command* command, uint64_t lba, uint64_t count);

  transport::Reactor* reactor_;
  std::deque<Command*> pending_;
  std::vector<std::string> log_;
  std::map<uint64_t, std::string> content_;  // By block; missing ones are zero.
};

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_INITIATOR_FAKE_COMMAND_PORT_H_
