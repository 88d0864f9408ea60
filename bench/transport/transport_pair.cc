// One end of a connection in a process of its own, on this host or another.
// bench/compare/transport measures byte streams with it:
//
//   transport_pair --listen=verbs://192.168.77.1:7471 --core=0
//   transport_pair --connect=verbs://192.168.77.1:7471 --core=1
//       --op=write --mode=latency --size=64 --runtime=2
//
// The one that listens serves one connection after the other, with --once a
// single one. The other prints a line of JSON. Both poll their completion queue
// (their stream) without a pause and give their reactor a turn now and then.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_cat.h"
#include "bench/compare/util.h"
#include "bench/transport/connection.h"
#include "transport/reactor/epoll_reactor.h"

ABSL_FLAG(std::string, listen, "", "serve at this URL");
ABSL_FLAG(std::string, connect, "", "connect to this URL");
ABSL_FLAG(bool, once, false, "end after one connection");
ABSL_FLAG(int, core, -1, "core to run on");
ABSL_FLAG(std::string, op, "send", "send, write or read");
ABSL_FLAG(std::string, mode, "latency",
          "latency: one at a time, send and write to and fro; "
          "rate: depth at once, one way");
ABSL_FLAG(std::string, size, "64", "bytes of an operation");
ABSL_FLAG(uint32_t, depth, 128, "operations at once, for rate");
ABSL_FLAG(uint32_t, inline_bytes, 0, "what the post itself may copy");
ABSL_FLAG(uint32_t, read_depth, 16, "READs at once");
ABSL_FLAG(double, runtime, 2, "seconds to measure");

namespace skiff::bench {
namespace {

using transport::EpollReactor;

constexpr double kWarmupSeconds = 0.2;
constexpr int kPollsPerTurn = 4096;
constexpr size_t kMaxSamples = 1u << 20;
// Operations between looks at the clock, which can be slow.
constexpr uint64_t kPerClock = 64;

std::unique_ptr<EpollReactor> MakeReactor() {
  transport::EpollReactorOptions options;
  options.spin = absl::InfiniteDuration();
  auto reactor = EpollReactor::Create(options);
  if (!reactor.ok()) Die(reactor.status().ToString());
  return *std::move(reactor);
}

void Serve(EpollReactor* reactor, End* end) {
  while (!end->closed()) {
    for (int i = 0; i < kPollsPerTurn && !end->closed(); ++i) end->Poll();
    reactor->Poll();
  }
}

void Listen(const std::string& url) {
  auto reactor = MakeReactor();
  auto acceptor = Acceptor::Listen(reactor.get(), reactor.get(), url);
  if (!acceptor.ok()) Die(acceptor.status().ToString());
  std::printf("%s\n", (*acceptor)->url().c_str());
  std::fflush(stdout);
  do {
    while (!(*acceptor)->ready()) reactor->Poll();
    Serve(reactor.get(), (*acceptor)->Take().get());
  } while (!absl::GetFlag(FLAGS_once));
}

Workload WorkloadOfFlags() {
  Workload workload;
  const std::string op = absl::GetFlag(FLAGS_op);
  const std::string mode = absl::GetFlag(FLAGS_mode);
  if (op == "write") {
    workload.kind = Workload::Kind::kWrite;
  } else if (op == "read") {
    workload.kind = Workload::Kind::kRead;
  } else if (op != "send") {
    Die("--op is send, write or read");
  }
  if (mode != "latency" && mode != "rate") Die("--mode is latency or rate");
  const bool latency = mode == "latency";
  workload.ping_pong = latency && op != "read";
  workload.depth = latency ? 1 : absl::GetFlag(FLAGS_depth);
  workload.size = static_cast<uint32_t>(ParseSize(absl::GetFlag(FLAGS_size)));
  workload.inline_bytes = absl::GetFlag(FLAGS_inline_bytes);
  workload.read_depth = absl::GetFlag(FLAGS_read_depth);
  return workload;
}

struct Result {
  double seconds = 0;
  double cpu = 0;
  uint64_t operations = 0;
  std::vector<uint64_t> samples;  // Ticks between two completions.
  uint64_t ticks = 0;             // In `seconds`.
};

class Meter {
 public:
  Meter(EpollReactor* reactor, End* end) : reactor_(reactor), end_(end) {}

  // Until so many are done, at least.
  void RunTo(uint64_t operations, Result* result) {
    int polls = 0;
    while (end_->completed() < operations) {
      if (end_->closed()) Die("the peer has gone");
      const uint64_t before = end_->completed();
      end_->Poll();
      if (++polls % kPollsPerTurn == 0) reactor_->Poll();
      if (result == nullptr || end_->completed() == before) continue;
      const uint64_t now = Ticks();
      if (result->samples.size() < kMaxSamples) {
        result->samples.push_back(now - last_);
      }
      last_ = now;
    }
  }

  void RunFor(double seconds, Result* result) {
    const double begin = Now();
    const double cpu = CpuSeconds();
    const uint64_t first = end_->completed();
    const uint64_t ticks = last_ = Ticks();
    double now = begin;
    while (now - begin < seconds) {
      RunTo(end_->completed() + kPerClock, result);
      now = Now();
    }
    if (result == nullptr) return;
    result->seconds = now - begin;
    result->ticks = Ticks() - ticks;
    result->cpu = CpuSeconds() - cpu;
    result->operations = end_->completed() - first;
  }

 private:
  EpollReactor* const reactor_;
  End* const end_;
  uint64_t last_ = 0;
};

void Print(const Workload& workload, Result result) {
  const auto count = static_cast<double>(result.operations);
  auto middle = result.samples.begin() +
                static_cast<std::ptrdiff_t>(result.samples.size() / 2);
  std::nth_element(result.samples.begin(), middle, result.samples.end());
  const double us_per_tick =
      1e6 * result.seconds / static_cast<double>(result.ticks);
  // One way.
  const double share = workload.ping_pong ? 0.5 : 1;
  std::printf(
      "{\"rate\": %.0f, \"mb_per_s\": %.2f, \"latency_us\": %.3f, "
      "\"mean_latency_us\": %.3f, \"cpu_us_per_op\": %.3f}\n",
      count / result.seconds,
      count / result.seconds * static_cast<double>(workload.size) * 1e-6,
      share * static_cast<double>(*middle) * us_per_tick,
      share * 1e6 * result.seconds / count, 1e6 * result.cpu / count);
}

void Connect(const std::string& url) {
  const Workload workload = WorkloadOfFlags();
  auto reactor = MakeReactor();
  Connector connector(reactor.get(), url, workload);
  EpollReactor* const reactors[] = {reactor.get()};
  if (!TurnUntil(reactors, [&] { return connector.done(); })) {
    Die(absl::StrCat(url, ": no connection"));
  }
  auto made = connector.Take();
  if (!made.ok()) Die(made.status().ToString());
  End* const end = made->get();

  Result result;
  result.samples.reserve(kMaxSamples);
  Meter meter(reactor.get(), end);
  meter.RunFor(kWarmupSeconds, nullptr);
  meter.RunFor(absl::GetFlag(FLAGS_runtime), &result);
  end->Finish();
  while (!end->idle() && !end->closed()) {
    end->Poll();
    reactor->Poll();
  }
  Print(workload, std::move(result));
}

int Run() {
  PinToCore(absl::GetFlag(FLAGS_core));
  const std::string listen = absl::GetFlag(FLAGS_listen);
  const std::string connect = absl::GetFlag(FLAGS_connect);
  if (listen.empty() == connect.empty()) {
    Die("transport_pair: one of --listen and --connect");
  }
  if (listen.empty()) {
    Connect(connect);
  } else {
    Listen(listen);
  }
  return 0;
}

}  // namespace
}  // namespace skiff::bench

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("transport_pair --listen=URL | --connect=URL");
  absl::ParseCommandLine(argc, argv);
  return skiff::bench::Run();
}
