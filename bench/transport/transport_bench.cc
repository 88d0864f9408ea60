// Every transport of this machine, both ends in this process, each in a reactor
// on a thread of its own:
//
//   bazel run --config=opt //bench/transport:transport_bench
//   transport_bench --transport=tcp://127.0.0.1:0,verbs://192.168.77.1:0
//       --benchmark_filter=RoundTrip
//
// A round trip is one iteration; so is each operation of a rate. "polling" has
// busy pollers, "events" sleeps on the completion queue's descriptor (on the
// socket). cpu_us_per_op is processor time of both ends.

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/str_cat.h"
#include "bench/compare/util.h"
#include "bench/transport/connection.h"
#include "bench/transport/rdma_end.h"
#include "benchmark/benchmark.h"
#include "transport/memory/registration_cache.h"
#include "transport/reactor/epoll_reactor.h"

ABSL_FLAG(std::vector<std::string>, transport, {},
          "URLs to listen on, by commas; without it, every one that works");

namespace skiff::bench {
namespace {

using transport::EpollReactor;

constexpr int kConnections = 64;

std::unique_ptr<EpollReactor> MakeReactor(bool polling) {
  transport::EpollReactorOptions options;
  if (polling) options.spin = absl::InfiniteDuration();
  auto reactor = EpollReactor::Create(options);
  if (!reactor.ok()) Die(reactor.status().ToString());
  return *std::move(reactor);
}

Pair MustConnect(EpollReactor* client, EpollReactor* server,
                 const std::string& url, const Workload& workload) {
  auto pair = ConnectPair(client, server, url, workload);
  if (!pair.ok()) Die(pair.status().ToString());
  return *std::move(pair);
}

// Runs an end in its reactor.
class Runner : public transport::Poller {
 public:
  Runner(EpollReactor* reactor, End* end) : reactor_(reactor), end_(end) {}

  void Start(bool polling) {
    polling_ = polling;
    if (polling) {
      reactor_->AddPoller(this, /*busy=*/true);
      return;
    }
    const absl::Status status =
        end_->RunByEvents(reactor_, [this] { return Poll(); });
    if (!status.ok()) Die(status.ToString());
  }
  void Stop() {
    if (polling_) reactor_->RemovePoller(this);
  }

  int Poll() override { return end_->Poll(); }

 protected:
  EpollReactor* const reactor_;
  End* const end_;

 private:
  bool polling_ = false;
};

// The connecting end, which the benchmark counts.
class Driver final : public Runner {
 public:
  Driver(EpollReactor* reactor, End* end, benchmark::State* state)
      : Runner(reactor, end), state_(state) {}

  int Poll() override {
    const int count = Runner::Poll();
    if (end_->closed()) Die("the peer has gone");
    while (!done_ && end_->completed() >= counted_) {
      ++counted_;
      if (state_->KeepRunning()) continue;
      done_ = true;
      end_->Finish();
      reactor_->Stop();
    }
    return done_ ? 0 : count;
  }

 private:
  benchmark::State* const state_;
  uint64_t counted_ = 1;  // The first one starts the clock.
  bool done_ = false;
};

void Run(benchmark::State& state, const std::string& url,
         const Workload& workload, bool polling) {
  auto home = MakeReactor(polling);
  auto away = MakeReactor(polling);
  Pair pair = MustConnect(home.get(), away.get(), url, workload);
  std::thread thread([&] {
    Runner server(away.get(), pair.server.get());
    server.Start(polling);
    away->Run();
    server.Stop();
    pair.server.reset();
  });
  const double cpu = CpuSeconds();
  Driver driver(home.get(), pair.client.get(), &state);
  driver.Start(polling);
  home->Run();
  driver.Stop();
  const double used = CpuSeconds() - cpu;
  while (!pair.client->idle() && !pair.client->closed()) {
    pair.client->Poll();
    home->Poll();
  }
  away->Stop();
  thread.join();
  pair.client.reset();
  const auto operations = static_cast<double>(state.iterations());
  state.counters["cpu_us_per_op"] = 1e6 * used / operations;
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()));
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) *
                          workload.size);
}

// A connection made and ended, both ends on one thread.
void SetUp(benchmark::State& state, const std::string& url) {
  auto reactor = MakeReactor(/*polling=*/true);
  auto acceptor = Acceptor::Listen(reactor.get(), reactor.get(), url);
  if (!acceptor.ok()) Die(acceptor.status().ToString());
  EpollReactor* const reactors[] = {reactor.get()};
  for (auto _ : state) {
    Connector connector(reactor.get(), (*acceptor)->url(), {});
    if (!TurnUntil(reactors,
                   [&] { return connector.done() && (*acceptor)->ready(); })) {
      Die(absl::StrCat(url, ": no connection"));
    }
    auto client = connector.Take();
    if (!client.ok()) Die(client.status().ToString());
    const auto server = (*acceptor)->Take();
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()));
}

// What malloc() has given out, and the pages of mapped files and devices, such
// as those of queues. All resident memory would not do: it contains what was
// freed before, which is used first.
double MemoryKib() {
  const struct mallinfo2 heap = mallinfo2();
  std::FILE* const file = std::fopen("/proc/self/statm", "re");
  unsigned long mapped = 0;  // NOLINT(google-runtime-int): fscanf's.
  if (file == nullptr || std::fscanf(file, "%*u %*u %lu", &mapped) != 1) {
    Die("cannot read /proc/self/statm");
  }
  std::fclose(file);
  return static_cast<double>(heap.uordblks + heap.hblkhd) / 1024 +
         static_cast<double>(mapped) *
             static_cast<double>(sysconf(_SC_PAGESIZE)) / 1024;
}

// Memory of an end, with its queues of 256 receives and a few sends, and the
// two pages that it works on. What the kernel or a device holds is not seen.
void Memory(benchmark::State& state, const std::string& url) {
  for (auto _ : state) {
    auto reactor = MakeReactor(/*polling=*/true);
    std::vector<Pair> pairs;
    pairs.push_back(MustConnect(reactor.get(), reactor.get(), url, {}));
    const double before = MemoryKib();
    for (int i = 0; i < kConnections; ++i) {
      pairs.push_back(MustConnect(reactor.get(), reactor.get(), url, {}));
    }
    state.counters["kib_per_end"] = (MemoryKib() - before) / (2 * kConnections);
    pairs.clear();
  }
}

void Register(benchmark::State& state, const std::string& url) {
  auto reactor = MakeReactor(/*polling=*/true);
  const Pair pair = MustConnect(reactor.get(), reactor.get(), url, {});
  auto* const end = dynamic_cast<RdmaEnd*>(pair.client.get());
  const auto size = static_cast<size_t>(state.range(0));
  std::vector<char> memory(size, 1);
  double registering = 0;
  double deregistering = 0;
  for (auto _ : state) {
    const double begin = Now();
    auto region = end->endpoint()->domain()->Register(
        memory.data(), size,
        transport::Access::kRemoteRead | transport::Access::kRemoteWrite);
    const double made = Now();
    if (!region.ok()) Die(region.status().ToString());
    region->reset();
    registering += made - begin;
    deregistering += Now() - made;
  }
  const auto count = static_cast<double>(state.iterations());
  state.counters["register_us"] = 1e6 * registering / count;
  state.counters["deregister_us"] = 1e6 * deregistering / count;
}

// What a registration that is known already costs.
void CachedRegistration(benchmark::State& state, const std::string& url) {
  auto reactor = MakeReactor(/*polling=*/true);
  const Pair pair = MustConnect(reactor.get(), reactor.get(), url, {});
  auto* const end = dynamic_cast<RdmaEnd*>(pair.client.get());
  std::vector<char> memory(static_cast<size_t>(state.range(0)), 1);
  transport::RegistrationCache cache(end->endpoint()->domain(), {});
  for (auto _ : state) {
    auto handle =
        cache.Get(memory.data(), memory.size(), transport::Access::kLocal);
    if (!handle.ok()) Die(handle.status().ToString());
    benchmark::DoNotOptimize(handle->region());
  }
  if (cache.statistics().misses != 1) Die("the cache missed");
}

const char* NameOf(Workload::Kind kind) {
  switch (kind) {
    case Workload::Kind::kSend:
      return "Send";
    case Workload::Kind::kWrite:
      return "Write";
    case Workload::Kind::kRead:
      return "Read";
  }
  return "";
}

void Add(const std::string& url, const Workload& workload, bool polling) {
  const bool trip = workload.ping_pong;
  benchmark::RegisterBenchmark(
      absl::StrCat(
          url, "/", NameOf(workload.kind), trip ? "RoundTrip" : "Rate", "/",
          polling ? "polling" : "events", "/size:", workload.size,
          trip ? std::string() : absl::StrCat("/depth:", workload.depth))
          .c_str(),
      [url, workload, polling](benchmark::State& state) {
        Run(state, url, workload, polling);
      })
      ->UseRealTime();
}

void AddWorkloads(const std::string& url, bool rdma) {
  using Kind = Workload::Kind;
  Workload workload;
  workload.inline_bytes = 128;
  for (const bool polling : {true, false}) {
    for (const Kind kind : {Kind::kSend, Kind::kWrite, Kind::kRead}) {
      if (!rdma && kind != Kind::kSend) continue;
      workload.kind = kind;
      for (const uint32_t size : {64u, 4096u, 65536u}) {
        workload.size = size;
        workload.ping_pong = true;
        workload.depth = 1;
        if (kind == Kind::kSend || (kind == Kind::kWrite && polling)) {
          Add(url, workload, polling);
        }
        workload.ping_pong = false;
        for (const uint32_t depth : {1u, 16u, 128u}) {
          workload.depth = depth;
          Add(url, workload, polling);
        }
      }
    }
  }
}

void AddTransport(const std::string& url) {
  const bool rdma = TransportOf(url)->capabilities().rdma;
  AddWorkloads(url, rdma);
  benchmark::RegisterBenchmark(
      absl::StrCat(url, "/ConnectionSetUp").c_str(),
      [url](benchmark::State& state) { SetUp(state, url); })
      ->UseRealTime();
  benchmark::RegisterBenchmark(
      absl::StrCat(url, "/ConnectionMemory").c_str(),
      [url](benchmark::State& state) { Memory(state, url); })
      ->Iterations(1);
  if (!rdma) return;
  benchmark::RegisterBenchmark(
      absl::StrCat(url, "/Registration").c_str(),
      [url](benchmark::State& state) { Register(state, url); })
      ->RangeMultiplier(16)
      ->Range(4096, 16 << 20)
      ->UseRealTime();
  benchmark::RegisterBenchmark(
      absl::StrCat(url, "/CachedRegistration").c_str(),
      [url](benchmark::State& state) { CachedRegistration(state, url); })
      ->Arg(65536);
}

int Main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  absl::ParseCommandLine(argc, argv);
  std::vector<std::string> urls = absl::GetFlag(FLAGS_transport);
  if (urls.empty()) urls = UsableTransports();
  for (const std::string& url : urls) AddTransport(url);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

}  // namespace
}  // namespace skiff::bench

int main(int argc, char** argv) { return skiff::bench::Main(argc, argv); }
