// How a target scales with its reactors: one process with N reactors, each on a
// core of its own, polling, that together serve a logical unit in memory and
// also carry the load on it, a session of 4 KiB random reads at depth 32 each.
//
//   reactors --count=2
//
// Prints one line of JSON. On two cores there is no room for a load beside two
// reactors, so both counts are measured with the load inside.

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/time/time.h"
#include "bench/compare/util.h"
#include "protocol/initiator/initiator.h"
#include "protocol/target/target_server.h"
#include "scsi/backend/ram_backend.h"
#include "scsi/initiator/cdb.h"
#include "scsi/initiator/command.h"
#include "scsi/target/target.h"
#include "transport/reactor/reactor_threads.h"
#include "transport/registry.h"
#include "transport/tcp/tcp_transport.h"

ABSL_FLAG(int, count, 1, "reactors, on the cores 0 to count - 1");
ABSL_FLAG(double, runtime, 2, "seconds to measure");

namespace skiff::bench {
namespace {

using scsi::Command;

constexpr char kTargetName[] = "iqn.2026-11.org.skiff:reactors";
constexpr uint64_t kDiskBytes = 64 << 20;
constexpr uint32_t kBlockSize = 512;
constexpr uint32_t kIoBytes = 4096;
constexpr int kDepth = 32;
constexpr double kWarmupSeconds = 0.2;

template <typename T>
T Must(absl::StatusOr<T> value) {
  if (!value.ok()) Die("reactors: " + value.status().ToString());
  return *std::move(value);
}

void Must(const absl::Status& status) {
  if (!status.ok()) Die("reactors: " + status.ToString());
}

// A session that writes the whole unit once, so that reads meet memory and not
// the absence of it, and then always has kDepth reads on the way. Lives on its
// reactor.
class Load {
 public:
  Load(const transport::Registry* registry, transport::Reactor* reactor,
       const transport::Address& portal, uint64_t seed)
      : random_(seed) {
    protocol::InitiatorOptions options;
    options.portal = portal;
    options.target_name = kTargetName;
    initiator_ = Must(protocol::Initiator::Create(
        registry, reactor, options,
        [](const absl::Status& status) { Must(status); }));
    for (Slot& slot : slots_) {
      slot.load = this;
      slot.piece = {slot.data.data(), slot.data.size()};
      slot.command.context = &slot;
      slot.command.done = OnDone;
      Submit(&slot);
    }
  }

  // Reads; 0 while the unit is being written.
  uint64_t completed() const {
    return completed_.load(std::memory_order_relaxed);
  }

 private:
  struct Slot {
    Command command;
    std::array<uint8_t, kIoBytes> data;
    iovec piece = {};
    Load* load = nullptr;
  };

  static void OnDone(Command* command) {
    auto* slot = static_cast<Slot*>(command->context);
    Load* load = slot->load;
    if (command->outcome == Command::Outcome::kConnectionLost) return;
    if (command->outcome != Command::Outcome::kCompleted) {
      Die("reactors: a read failed");
    }
    // Unit attentions apart, which end with CHECK CONDITION, all are GOOD.
    if (command->status == 0 && command->data_in_length > 0) {
      load->completed_.store(load->completed() + 1, std::memory_order_relaxed);
    }
    load->Submit(slot);
  }

  void Submit(Slot* slot) {
    constexpr uint32_t kBlocks = kIoBytes / kBlockSize;
    constexpr uint64_t kPlaces = kDiskBytes / kIoBytes;
    Command& command = slot->command;
    const bool fill = filled_ < kPlaces;
    if (fill) {
      SetCdb(scsi::cdb::Write(filled_++ * kBlocks, kBlocks), &command);
    } else {
      random_ ^= random_ << 13;
      random_ ^= random_ >> 7;
      random_ ^= random_ << 17;
      SetCdb(scsi::cdb::Read(random_ % kPlaces * kBlocks, kBlocks), &command);
    }
    command.data_out = fill ? &slot->piece : nullptr;
    command.data_out_count = fill ? 1 : 0;
    command.data_out_length = fill ? kIoBytes : 0;
    command.data_in = fill ? nullptr : &slot->piece;
    command.data_in_count = fill ? 0 : 1;
    command.data_in_length = fill ? 0 : kIoBytes;
    initiator_->Submit(&command);
  }

  uint64_t filled_ = 0;  // Places written, or about to be.
  uint64_t random_;
  std::atomic<uint64_t> completed_{0};
  std::array<Slot, kDepth> slots_;
  std::unique_ptr<protocol::Initiator> initiator_;
};

std::shared_ptr<scsi::Target> MakeTarget() {
  scsi::RamBackendOptions disk;
  disk.size_bytes = kDiskBytes;
  disk.block_size = kBlockSize;
  disk.thin = false;
  std::shared_ptr<scsi::Target> target = scsi::Target::Create(kTargetName);
  Must(target->AddLogicalUnit(Must(scsi::MakeRamBackend(disk)), {}));
  return target;
}

double Measure(const std::vector<std::unique_ptr<Load>>& loads) {
  const auto sum = [&loads] {
    uint64_t total = 0;
    for (const auto& load : loads) total += load->completed();
    return total;
  };
  const auto sleep = [](double seconds) {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  };
  for (const auto& load : loads) {
    while (load->completed() == 0) sleep(0.01);
  }
  sleep(kWarmupSeconds);
  const uint64_t before = sum();
  const double begin = Now();
  sleep(absl::GetFlag(FLAGS_runtime));
  return static_cast<double>(sum() - before) / (Now() - begin);
}

void Run() {
  const int count = absl::GetFlag(FLAGS_count);
  transport::Registry registry;
  Must(registry.Add(transport::MakeTcpTransport()));
  transport::ReactorThreadsOptions options;
  options.count = count;
  options.reactor.spin = absl::InfiniteDuration();
  for (int i = 0; i < count; ++i) options.cpus.push_back(i);
  const auto threads = Must(transport::ReactorThreads::Start(options));

  auto server =
      Must(protocol::TargetServer::Create(&registry, threads->reactors(), {}));
  Must(server->AddTarget(MakeTarget()));
  const transport::Address portal = Must(
      server->Listen(Must(transport::Address::Parse("tcp://127.0.0.1:0"))));
  std::vector<std::unique_ptr<Load>> loads(count);
  for (int i = 0; i < count; ++i) {
    threads->RunOn(i, [&] {
      loads[i] = std::make_unique<Load>(&registry, threads->reactor(i), portal,
                                        0x9e3779b97f4a7c15 + i);
    });
  }
  const double iops = Measure(loads);
  for (int i = 0; i < count; ++i) {
    threads->RunOn(i, [&] { loads[i].reset(); });
  }
  std::promise<void> down;
  server->Shutdown(absl::ZeroDuration(), [&down] { down.set_value(); });
  down.get_future().wait();
  threads->Stop();
  server.reset();
  std::printf("{\"reactors\": %d, \"iops\": %.0f}\n", count, iops);
}

}  // namespace
}  // namespace skiff::bench

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  skiff::bench::Run();
  return 0;
}
