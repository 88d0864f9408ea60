// What one command costs in the SCSI layer: dispatch, CDB checks, task set,
// and the medium's memory, with a port that does nothing. Counts heap
// allocations, of which there must be none. And what counting it takes alone.

#include <benchmark/benchmark.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "scsi/backend/ram_backend.h"
#include "scsi/endian.h"
#include "scsi/target/access_list.h"
#include "scsi/target/command_counters.h"
#include "scsi/target/target.h"
#include "transport/reactor/epoll_reactor.h"

namespace {

std::atomic<uint64_t> allocations{0};

}  // namespace

[[gnu::noinline]] void* operator new(size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  void* memory = std::malloc(size);
  if (memory == nullptr) std::abort();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}

namespace skiff::scsi {
namespace {

constexpr uint32_t kBlock = 512;
constexpr uint32_t kBlocksPerCommand = 8;  // 4 KiB.
constexpr uint64_t kMediumBytes = 64u << 20;
constexpr char kInitiator[] = "iqn.2026-01.example:i";

// Takes what it gets at once.
class NullPort : public TargetPort {
 public:
  void set_nexus(Nexus* nexus) { nexus_ = nexus; }
  uint64_t completed() const { return completed_; }
  uint64_t failed() const { return failed_; }

  TransferResult ReceiveDataOut(Task*, uint32_t, uint8_t*, uint32_t) override {
    return TransferResult::kDone;
  }
  void SendDataIn(Task*, uint32_t, const uint8_t*, uint32_t) override {}
  void Complete(Task* task, uint32_t, const uint8_t* from,
                uint32_t length) override {
    benchmark::DoNotOptimize(from + length);
    ++completed_;
    if (task->status != ScsiStatus::kGood) ++failed_;
    nexus_->Release(task);
  }
  void Aborted(Task* task, bool) override { nexus_->Release(task); }
  void CancelTransfers(Task*) override {}
  void AsyncEvent(uint64_t, const uint8_t*, size_t) override {}
  uint64_t DataInTaken() const override { return 0; }
  void EndNexus(absl::string_view) override {}

 private:
  Nexus* nexus_ = nullptr;
  uint64_t completed_ = 0;
  uint64_t failed_ = 0;
};

class Stand {
 public:
  // `access`: as Target::Create() has it.
  explicit Stand(std::shared_ptr<AccessPolicy> access = nullptr)
      : reactor_(*transport::EpollReactor::Create()),
        worker_(*Worker::Create(reactor_.get(), {})),
        target_(
            Target::Create("iqn.2026-01.example:bench", std::move(access))) {
    RamBackendOptions options;
    options.size_bytes = kMediumBytes;
    options.block_size = kBlock;
    target_->AddLogicalUnit(*MakeRamBackend(options), {}).IgnoreError();
    nexus_ =
        *target_->OpenNexus(worker_.get(), &port_,
                            {.initiator = kInitiator,
                             .initiator_port = "iqn.2026-01.example:i,i,0x1",
                             .target_port = "iqn.2026-01.example:bench,t,0x1"});
    port_.set_nexus(nexus_.get());
    Task first;  // Takes the unit attention.
    first.cdb.fill(0);
    nexus_->Submit(&first);
  }
  ~Stand() {
    bool closed = false;
    nexus_->Close([&] { closed = true; });
    while (!closed) reactor_->Poll();
  }

  // Runs the commands of `opcode`, at ever other places, forever.
  void Run(benchmark::State& state, uint8_t opcode, Attribute attribute) {
    std::vector<Task> tasks(32);
    for (Task& task : tasks) {
      task.cdb.fill(0);
      task.cdb[0] = opcode;
      task.attribute = attribute;
      if (opcode != 0) StoreBe16(&task.cdb[7], kBlocksPerCommand);
      task.data_in_length = task.data_out_length = kBlocksPerCommand * kBlock;
    }
    size_t next = 0;
    uint32_t lba = 0;
    const uint64_t allocations_before = allocations.load();
    for (auto _ : state) {
      Task& task = tasks[next++ % tasks.size()];
      if (opcode != 0) StoreBe32(&task.cdb[2], lba);
      lba = (lba + kBlocksPerCommand) & (kMediumBytes / kBlock - 1);
      nexus_->Submit(&task);
    }
    state.counters["allocations"] =
        static_cast<double>(allocations.load() - allocations_before);
    state.SetItemsProcessed(state.iterations());
    if (port_.failed() > 1) state.SkipWithError("commands fail");
    if (allocations.load() > allocations_before + 8) {
      state.SkipWithError("commands allocate");
    }
  }

 private:
  NullPort port_;
  std::unique_ptr<transport::EpollReactor> reactor_;
  std::unique_ptr<Worker> worker_;
  std::unique_ptr<Target> target_;
  std::unique_ptr<Nexus> nexus_;
};

void BmRead4K(benchmark::State& state) {
  Stand().Run(state, 0x28, Attribute::kSimple);
}
BENCHMARK(BmRead4K);

// By the last one of so many rules.
void BmRead4KByRules(benchmark::State& state) {
  std::vector<AccessRule> rules(state.range(0));
  for (size_t i = 0; i + 1 < rules.size(); ++i) {
    rules[i].initiator = absl::StrCat(kInitiator, i);
  }
  rules.back().initiator = kInitiator;
  Stand(std::make_shared<AccessList>(std::move(rules)))
      .Run(state, 0x28, Attribute::kSimple);
}
BENCHMARK(BmRead4KByRules)->ArgName("rules")->Arg(1)->Arg(1000);

void BmWrite4K(benchmark::State& state) {
  Stand().Run(state, 0x2a, Attribute::kSimple);
}
BENCHMARK(BmWrite4K);

void BmOrderedWrite4K(benchmark::State& state) {
  Stand().Run(state, 0x2a, Attribute::kOrdered);
}
BENCHMARK(BmOrderedWrite4K);

void BmVerify4K(benchmark::State& state) {
  Stand().Run(state, 0x2f, Attribute::kSimple);
}
BENCHMARK(BmVerify4K);

void BmTestUnitReady(benchmark::State& state) {
  Stand().Run(state, 0x00, Attribute::kSimple);
}
BENCHMARK(BmTestUnitReady);

// Reads of 4 KiB and 256 KiB in turns: no size class is predicted for free.
void BmCounting(benchmark::State& state) {
  CommandCounters counters;
  std::vector<Task> tasks(32);
  for (size_t i = 0; i < tasks.size(); ++i) {
    tasks[i].kind = Task::Kind::kRead;
    tasks[i].status = ScsiStatus::kGood;
    tasks[i].data_in_length = i % 2 == 0 ? 4u << 10 : 256u << 10;
    tasks[i].data_in_wanted = tasks[i].data_in_length;
  }
  const int64_t nanos = state.range(0);
  size_t next = 0;
  for (auto _ : state) {
    Task& task = tasks[next++ % tasks.size()];
    benchmark::DoNotOptimize(task);
    counters.Begin();
    benchmark::ClobberMemory();  // Between both, a command is executed.
    counters.Answer(task, nanos);
    counters.End();
  }
  const auto counted = static_cast<int64_t>(counters.Get().reads);
  if (counted != state.iterations()) state.SkipWithError("a read is missing");
  state.SetItemsProcessed(state.iterations());
}
// Answered in the turn in which it came, or later.
BENCHMARK(BmCounting)->ArgName("ns")->Arg(0)->Arg(100000);

}  // namespace
}  // namespace skiff::scsi
