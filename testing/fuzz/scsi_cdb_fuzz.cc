// Any CDB, with any data, against a logical unit in memory and one behind
// buffers: every command ends, within the lengths it was given.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "scsi/backend/ram_backend.h"
#include "scsi/sense.h"
#include "scsi/target/target.h"
#include "scsi/target/testing_backend.h"
#include "testing/fuzz/check.h"
#include "transport/reactor/epoll_reactor.h"

namespace skiff::scsi {
namespace {

constexpr uint64_t kBlocks = 2048;
constexpr uint32_t kMaxData = 1 << 20;

// Sends the input's bytes as Data-Out, over and over, and looks at lengths.
class FuzzPort : public TargetPort {
 public:
  Nexus* nexus = nullptr;
  transport::EpollReactor* reactor = nullptr;
  const uint8_t* data = nullptr;
  size_t size = 0;
  bool late_data = false;
  bool ended = false;

  TransferResult ReceiveDataOut(Task* task, uint32_t offset, uint8_t* to,
                                uint32_t length) override {
    SKIFF_FUZZ_CHECK(uint64_t{offset} + length <= task->data_out_length);
    for (uint32_t i = 0; i < length; ++i) {
      to[i] = size > 0 ? data[(offset + i) % size] : 0;
    }
    if (!late_data) return TransferResult::kDone;
    reactor->Post([this, task] { nexus->OnDataOut(task, true); });
    return TransferResult::kPending;
  }
  void SendDataIn(Task* task, uint32_t offset, const uint8_t* from,
                  uint32_t length) override {
    SKIFF_FUZZ_CHECK(uint64_t{offset} + length <= task->data_in_length);
    Look(from, length);
    reactor->Post([this, task] { nexus->OnDataInSent(task, true); });
  }
  void Complete(Task* task, uint32_t offset, const uint8_t* from,
                uint32_t length) override {
    SKIFF_FUZZ_CHECK(uint64_t{offset} + length <= task->data_in_length);
    SKIFF_FUZZ_CHECK(uint64_t{offset} + length <= task->data_in_wanted);
    Look(from, length);
    if (task->status == ScsiStatus::kCheckCondition) {
      SKIFF_FUZZ_CHECK(
          DecodeSense({task->sense.data(), task->sense_length}).has_value());
    } else {
      SKIFF_FUZZ_CHECK(task->status == ScsiStatus::kGood ||
                       task->status == ScsiStatus::kAcaActive);
      SKIFF_FUZZ_CHECK(task->sense_length == 0);
    }
    End(task);
  }
  void Aborted(Task* task, bool) override { End(task); }
  void CancelTransfers(Task*) override {}
  void AsyncEvent(uint64_t, const uint8_t*, size_t) override {}
  uint64_t DataInTaken() const override { return 0; }
  void EndNexus(absl::string_view) override {}

 private:
  // Reads every byte: all of them must be there.
  void Look(const uint8_t* from, uint32_t length) {
    for (uint32_t i = 0; i < length; ++i) checksum_ ^= from[i];
  }
  void End(Task* task) {
    SKIFF_FUZZ_CHECK(!ended);
    ended = true;
    nexus->Release(task);
  }

  uint8_t checksum_ = 0;
};

struct Stand {
  std::unique_ptr<transport::EpollReactor> reactor =
      *transport::EpollReactor::Create();
  std::unique_ptr<Worker> worker = *Worker::Create(
      reactor.get(),
      {.buffer_pool_bytes = 4u << 20, .buffer_bytes = 256u << 10});
  std::unique_ptr<Target> target = Target::Create("iqn.2026-01.example:fuzz");
  FuzzPort port;
  std::unique_ptr<Nexus> nexus;

  Stand() {
    RamBackendOptions options;
    options.size_bytes = kBlocks * 512;
    options.thin = true;
    Add(*MakeRamBackend(options), 0);
    auto buffered =
        std::make_shared<testing::TestBackend>(testing::ThinInfo(kBlocks));
    buffered->keep_log = false;
    Add(std::move(buffered), 1);
    nexus = *target->OpenNexus(
        worker.get(), &port,
        {.initiator_port = "fuzzer", .target_port = "t,t,0x1"});
    port.nexus = nexus.get();
    port.reactor = reactor.get();
    Reset();
  }
  void Add(std::shared_ptr<Backend> backend, uint64_t lun) {
    LogicalUnitOptions options;
    options.lun = lun;
    SKIFF_FUZZ_CHECK(target->AddLogicalUnit(std::move(backend), options).ok());
  }

  void Run(Task* task) {
    port.ended = false;
    nexus->Submit(task);
    for (int turns = 0; !port.ended; ++turns) {
      SKIFF_FUZZ_CHECK(turns < 100000);
      reactor->Poll();
    }
  }
  // To where no mode page, ACA condition or unit attention of this input
  // changes what the next one meets.
  void Reset() {
    bool done = false;
    nexus->Manage(TaskManagement::kTargetReset, 0, nullptr,
                  [&done](TaskManagementResult) { done = true; });
    while (!done) reactor->Poll();
    for (const uint64_t lun : {0, 1}) {
      Task test_unit_ready;
      test_unit_ready.cdb.fill(0);
      test_unit_ready.lun = lun << 48;
      Run(&test_unit_ready);
    }
  }
};

// The input: a byte of flags, the LUN's first two bytes, lengths of data-out
// and data-in in units, the CDB, and what is sent.
constexpr size_t kHeader = 7;
constexpr size_t kCdb = 16;

void FuzzOne(const uint8_t* data, size_t size) {
  static Stand& stand = *new Stand;
  if (size < kHeader + kCdb) return;
  Task task;
  task.lun = (data[0] & 0x40) != 0
                 ? uint64_t{data[1]} << 56 | uint64_t{data[2]} << 48
                 : uint64_t{data[2] % 2u} << 48;
  task.attribute = static_cast<Attribute>(data[0] & 3);
  // Fine lengths and coarse ones.
  const uint32_t unit = (data[0] & 0x04) != 0 ? 512 : 1;
  task.data_out_length = std::min((data[3] << 8 | data[4]) * unit, kMaxData);
  task.data_in_length = std::min((data[5] << 8 | data[6]) * unit, kMaxData);
  task.cdb.fill(0);
  std::memcpy(task.cdb.data(), data + kHeader, kCdb);
  stand.port.data = data + kHeader + kCdb;
  stand.port.size = size - kHeader - kCdb;
  stand.port.late_data = (data[0] & 0x08) != 0;
  stand.Run(&task);
  stand.Reset();
}

}  // namespace
}  // namespace skiff::scsi

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  skiff::scsi::FuzzOne(data, size);
  return 0;
}
