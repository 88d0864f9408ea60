#include "testing/stack/exchange_target.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <utility>
#include <vector>

#include "protocol/codec/endian.h"

namespace skiff::protocol {
namespace {

using scsi::Task;

constexpr size_t kTakesOffset = 2;
constexpr size_t kGivesOffset = 6;

class ExchangeNexus final : public scsi::Nexus {
 public:
  explicit ExchangeNexus(scsi::TargetPort* port) : port_(port) {}

  void Submit(Task* task) override {
    task->data_out_wanted = Load32(task->cdb.data() + kTakesOffset);
    task->data_in_wanted = Load32(task->cdb.data() + kGivesOffset);
    std::string& taken = tasks_[task].taken;
    taken.resize(
        std::min<uint64_t>(task->data_out_wanted, task->data_out_length));
    if (taken.empty() ||
        port_->ReceiveDataOut(task, 0, reinterpret_cast<uint8_t*>(taken.data()),
                              static_cast<uint32_t>(taken.size())) ==
            scsi::TransferResult::kDone) {
      Give(task);
    }
  }
  void OnDataOut(Task* task, bool ok) override {
    if (ok) return Give(task);
    task->status = scsi::ScsiStatus::kBusy;
    port_->Complete(task, 0, nullptr, 0);
  }
  void OnDataInSent(Task* task, bool) override { --tasks_[task].sending; }
  void Release(Task* task) override {
    assert(tasks_[task].sending == 0 && "its memory is the port's");
    tasks_.erase(task);
  }

  void Manage(
      scsi::TaskManagement, uint64_t, Task*,
      absl::AnyInvocable<void(scsi::TaskManagementResult)> done) override {
    done(scsi::TaskManagementResult::kNotSupported);
  }
  void Close(absl::AnyInvocable<void()> done) override {
    assert(tasks_.empty() && "it cannot abort");
    done();
  }
  scsi::CommandCounts Counts() const override { return {}; }

 private:
  struct Data {
    std::string taken;
    std::string given;
    int sending = 0;
  };

  // One half first, the other with the status.
  void Give(Task* task) {
    Data& data = tasks_[task];
    const absl::string_view cdb(reinterpret_cast<const char*>(task->cdb.data()),
                                task->cdb_length);
    data.given = ExchangeAnswer(
        cdb, data.taken,
        std::min<uint64_t>(task->data_in_wanted, task->data_in_length));
    const auto* bytes = reinterpret_cast<const uint8_t*>(data.given.data());
    const auto size = static_cast<uint32_t>(data.given.size());
    const uint32_t half = size / 2;
    if (half > 0) {
      ++data.sending;
      port_->SendDataIn(task, 0, bytes, half);
    }
    port_->Complete(task, half, bytes + half, size - half);
  }

  scsi::TargetPort* const port_;
  std::map<Task*, Data> tasks_;
};

class ExchangeTarget final : public scsi::Target {
 public:
  explicit ExchangeTarget(std::string name) : name_(std::move(name)) {}

  absl::string_view name() const override { return name_; }
  absl::Status AddLogicalUnit(std::shared_ptr<scsi::Backend>,
                              const scsi::LogicalUnitOptions&) override {
    return absl::UnimplementedError("it has no media");
  }
  absl::Status RemoveLogicalUnit(uint64_t, scsi::LogicalUnitRemoved) override {
    return absl::UnimplementedError("it has no media");
  }
  void NotifyBackendChanged(uint64_t) override {}
  std::vector<uint64_t> Luns() const override { return {0}; }
  std::vector<scsi::LogicalUnitStatus> LogicalUnitStatuses() const override {
    return {};
  }
  std::vector<scsi::DirectMemory> DirectMemories() const override { return {}; }
  absl::StatusOr<std::unique_ptr<scsi::Nexus>> OpenNexus(
      scsi::Worker*, scsi::TargetPort* port,
      const scsi::NexusIdentity&) override {
    return std::make_unique<ExchangeNexus>(port);
  }

 private:
  const std::string name_;
};

}  // namespace

std::shared_ptr<scsi::Target> MakeExchangeTarget(const std::string& name) {
  return std::make_shared<ExchangeTarget>(name);
}

void SetExchangeCdb(uint8_t length, uint32_t takes, uint32_t gives,
                    scsi::Command* command) {
  assert(length >= kMinExchangeCdb && length <= command->cdb.size());
  command->cdb_length = length;
  command->cdb[0] = 0x7f;  // Of variable length (SPC-4 section 4.2.3).
  for (uint8_t i = kMinExchangeCdb; i < length; ++i) command->cdb[i] = i;
  Store32(takes, command->cdb.data() + kTakesOffset);
  Store32(gives, command->cdb.data() + kGivesOffset);
}

std::string ExchangeAnswer(absl::string_view cdb, absl::string_view taken,
                           size_t size) {
  std::string answer(size, '\0');
  for (size_t i = 0; i < size; ++i) {
    answer[i] = static_cast<char>(cdb[i % cdb.size()] + i / cdb.size());
    if (!taken.empty()) answer[i] ^= taken[i % taken.size()];
  }
  return answer;
}

}  // namespace skiff::protocol
