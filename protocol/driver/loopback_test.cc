// Initiator and target on one machine: iSCSI over TCP, and iSER over
// libfabric's providers that need no device. The server's reactors have threads
// of their own, the initiator's is turned by the test.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "protocol/driver/end_to_end_test_util.h"
#include "scsi/backend/file_backend.h"
#include "scsi/backend/file_test_util.h"
#include "transport/epoll_reactor.h"
#include "transport/libfabric/libfabric_backend.h"
#include "transport/reactor_threads.h"
#include "transport/tcp/tcp_backend.h"

namespace skiff::protocol {
namespace {

struct Network {
  const char* name;
  const char* data_model;
  const char* portal;
  std::unique_ptr<transport::Backend> (*make_backend)();
  // What the name of the device begins with: the provider. Byte streams: "".
  const char* device = "";
};

// A target with one logical unit in a new file.
std::shared_ptr<scsi::Target> MakeFileTarget(const std::string& path) {
  std::shared_ptr<scsi::Target> target = scsi::Target::Create(kTargetName);
  scsi::FileBackendOptions file;
  file.path = path;
  file.size_bytes = kBlocks * kBlock;
  file.block_size = kBlock;
  const absl::Status added = target->AddLogicalUnit(
      scsi::MakeFileBackend(file).value(), scsi::LogicalUnitOptions());
  EXPECT_TRUE(added.ok()) << added;
  return target;
}

class LoopbackStack {
 public:
  explicit LoopbackStack(const Network& network,
                         std::shared_ptr<scsi::Target> target = MakeRamTarget(),
                         const TargetServerOptions& options = {},
                         const transport::EpollReactorOptions& reactors = {})
      : target_(std::move(target)), server_options_(options) {
    EXPECT_TRUE(registry.Add(network.make_backend()).ok());
    transport::ReactorThreadsOptions threads;
    threads.count = 2;
    threads.reactor = reactors;
    threads_ = transport::ReactorThreads::Start(threads).value();
    reactor = transport::EpollReactor::Create(threads.reactor).value();
    portal = transport::Address::Parse(network.portal).value();
    StartServer();
  }
  ~LoopbackStack() {
    initiator.reset();
    StopServer();
  }

  void StartServer() {
    server_ =
        TargetServer::Create(&registry, threads_->reactors(), server_options_)
            .value();
    EXPECT_TRUE(server_->AddTarget(target_).ok());
    threads_->RunOn(0, [this] {
      const auto bound = server_->Listen(portal);
      ASSERT_TRUE(bound.ok()) << bound.status();
      portal = *bound;
    });
  }
  void StopServer() {
    std::atomic<bool> down{false};
    server_->Shutdown(absl::ZeroDuration(), [&down] { down = true; });
    Turn([&down] { return down.load(); });
    threads_->RunOn(0, [this] { server_.reset(); });
  }

  // Turns the initiator's reactor until `done` holds; a minute at most.
  bool Turn(const std::function<bool()>& done) {
    const absl::Time limit =
        transport::EpollReactor::MonotonicNow() + absl::Minutes(1);
    while (!done()) {
      if (transport::EpollReactor::MonotonicNow() > limit) return false;
      if (reactor->Poll() == 0) {
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    }
    return true;
  }

  void LogIn(InitiatorOptions options) {
    options.portal = portal;
    options.target_name = kTargetName;
    std::optional<absl::Status> ready;
    initiator = Initiator::Create(&registry, reactor.get(), options,
                                  [&ready](absl::Status status) {
                                    ready = std::move(status);
                                  })
                    .value();
    ASSERT_TRUE(Turn([&ready] { return ready.has_value(); }));
    ASSERT_TRUE(ready->ok()) << *ready;
  }

  void RunLoad(const VerifiedLoad::Options& options, uint64_t seed) {
    testing::SimRandom random(seed);
    VerifiedLoad load(initiator.get(), &random, options);
    load.Start();
    EXPECT_TRUE(Turn([&load] { return load.done(); }));
    for (const std::string& error : load.errors()) ADD_FAILURE() << error;
  }

  // The target's view of the only session.
  SessionInfo Session() {
    std::vector<SessionInfo> sessions;
    std::atomic<bool> listed{false};
    server_->ListSessions([&](std::vector<SessionInfo> found) {
      sessions = std::move(found);
      listed = true;
    });
    EXPECT_TRUE(Turn([&listed] { return listed.load(); }));
    EXPECT_EQ(sessions.size(), 1u);
    return sessions.empty() ? SessionInfo() : sessions[0];
  }

  transport::Registry registry;
  std::unique_ptr<transport::EpollReactor> reactor;
  transport::Address portal;
  std::unique_ptr<Initiator> initiator;

 private:
  std::shared_ptr<scsi::Target> target_;
  const TargetServerOptions server_options_;
  std::unique_ptr<transport::ReactorThreads> threads_;
  std::unique_ptr<TargetServer> server_;
};

std::unique_ptr<transport::Backend> MakeTcp() {
  return transport::MakeTcpBackend();
}

std::unique_ptr<transport::Backend> MakeLibfabric() {
  return transport::MakeLibfabricBackend();
}

class LoopbackTest : public ::testing::TestWithParam<Network> {
 protected:
  bool rdma() const { return std::string(GetParam().data_model) == "iSER"; }
};

INSTANTIATE_TEST_SUITE_P(
    Networks, LoopbackTest,
    ::testing::Values(
        Network{"Tcp", "iSCSI", "tcp://127.0.0.1:0", &MakeTcp},
        Network{"Libfabric", "iSER", "libfabric://127.0.0.1:0?provider=tcp",
                &MakeLibfabric, "libfabric tcp on"},
        Network{"Sockets", "iSER", "libfabric://127.0.0.1:0?provider=sockets",
                &MakeLibfabric, "libfabric sockets on"},
        // Connections over reliable datagrams.
        Network{"SharedMemory", "iSER", "libfabric://127.0.0.1:0?provider=shm",
                &MakeLibfabric, "libfabric shm on"},
        Network{"Rxm", "iSER", "libfabric://127.0.0.1:0?provider=tcp;ofi_rxm",
                &MakeLibfabric, "libfabric tcp;ofi_rxm on"}),
    [](const auto& info) { return info.param.name; });

TEST_P(LoopbackTest, VerifiesDataAtDepth) {
  for (const bool digests : {false, true}) {
    if (digests && rdma()) break;  // RDMA has its own.
    LoopbackStack stack(GetParam());
    InitiatorOptions options;
    if (digests) {
      options.offer.header_digest = {Digest::kCrc32c};
      options.offer.data_digest = {Digest::kCrc32c};
    }
    stack.LogIn(options);
    EXPECT_EQ(stack.initiator->data_model(), GetParam().data_model);
    const std::string device = stack.initiator->connection().device;
    EXPECT_EQ(device.empty(), !rdma());
    EXPECT_TRUE(absl::StartsWith(device, GetParam().device)) << device;
    VerifiedLoad::Options load_options;
    load_options.depth = 64;
    load_options.max_blocks = 256;
    load_options.commands = 3000;
    stack.RunLoad(load_options, 1);
  }
}

TEST_P(LoopbackTest, OnReactorsThatSpinForAWhile) {
  for (const uint32_t depth : {1, 64}) {
    LoopbackStack stack(GetParam(), MakeRamTarget(), {},
                        {.spin = absl::Milliseconds(1)});
    stack.LogIn(InitiatorOptions());
    // It comes to sleep.
    EXPECT_TRUE(stack.Turn([&stack] {
      return stack.reactor->NextDeadline() >
             transport::EpollReactor::MonotonicNow();
    }));
    VerifiedLoad::Options load_options;
    load_options.depth = depth;
    load_options.commands = 1000;
    stack.RunLoad(load_options, depth);
  }
}

// Of which some sleep, some spin, and some do either in turns.
TEST_P(LoopbackTest, OnAdaptiveReactors) {
  for (const absl::Duration spin :
       {absl::Microseconds(5), absl::Microseconds(100), absl::Seconds(10)}) {
    for (const uint32_t depth : {1, 8}) {
      LoopbackStack stack(GetParam(), MakeRamTarget(), {},
                          {.spin = spin, .adaptive_spin = true});
      stack.LogIn(InitiatorOptions());
      VerifiedLoad::Options load_options;
      load_options.depth = depth;
      load_options.commands = 1000;
      stack.RunLoad(load_options, depth);
      if (spin == absl::Seconds(10)) {
        EXPECT_EQ(stack.reactor->spin(), spin);
      }
    }
  }
}

TEST_P(LoopbackTest, BigSolicitedWritesAndReads) {
  LoopbackStack stack(GetParam());
  InitiatorOptions options;
  options.offer.initial_r2t = true;
  options.offer.immediate_data = false;
  options.offer.max_recv_data_segment_length = 65536;
  stack.LogIn(options);
  VerifiedLoad::Options load_options;
  load_options.depth = 4;
  load_options.max_blocks = 4096;  // 2 MiB.
  load_options.commands = 60;
  load_options.pieces = 100;
  stack.RunLoad(load_options, 2);
}

// A medium in a file has no memory to move data from and to. Commands are
// longer than one of the worker's buffers, and use its halves in turn: the file
// works on the one while the other is on the wire.
TEST_P(LoopbackTest, FileDiskAtDepth) {
  const scsi::TemporaryFile file("loopback");
  TargetServerOptions options;
  options.worker.buffer_bytes = 256u << 10;
  options.worker.buffer_pool_bytes = 2u << 20;  // Fewer than commands.
  LoopbackStack stack(GetParam(), MakeFileTarget(file.path()), options);
  stack.LogIn(InitiatorOptions());
  VerifiedLoad::Options load_options;
  load_options.depth = 16;
  load_options.max_blocks = 1024;  // 512 KiB.
  load_options.commands = 500;
  load_options.pieces = 1;
  stack.RunLoad(load_options, 4);
  const SessionInfo session = stack.Session();
  EXPECT_EQ(session.connection.data_model, GetParam().data_model);
  if (!rdma()) return;
  // A step of a command is an operation of 128 KiB at most.
  const ConnectionCounters& counters = session.connection.counters;
  EXPECT_GT(counters.rdma_writes, counters.rdma_write_bytes / (128u << 10));
  EXPECT_GT(counters.rdma_reads, counters.rdma_read_bytes / (128u << 10));
  EXPECT_GT(counters.rdma_write_bytes, uint64_t{100} * kBlock * 512);
  EXPECT_GT(counters.rdma_read_bytes, uint64_t{100} * kBlock * 512);
  // But immediate data.
  EXPECT_LT(counters.copied_bytes, uint64_t{500} * 8192);
}

TEST_P(LoopbackTest, OutlivesTheServersRestart) {
  LoopbackStack stack(GetParam());
  InitiatorOptions options;
  options.reconnect_delay = absl::Milliseconds(5);
  std::vector<std::string> log;
  options.log = [&log](absl::string_view line) { log.emplace_back(line); };
  stack.LogIn(options);
  testing::SimRandom random(3);
  VerifiedLoad::Options load_options;
  load_options.commands = 3000;
  VerifiedLoad load(stack.initiator.get(), &random, load_options);
  load.Start();
  for (uint64_t restarts = 1; restarts <= 3; ++restarts) {
    // The load may be done before the last restart.
    const uint64_t goal =
        std::min(load.completed() + 300, load_options.commands);
    EXPECT_TRUE(stack.Turn([&load, goal] { return load.completed() >= goal; }))
        << absl::StrJoin(log, "\n");
    stack.StopServer();
    stack.StartServer();
    // Two of them at once would be one to the session.
    EXPECT_TRUE(stack.Turn([&] {
      return stack.initiator->stats().reconnects >= restarts;
    })) << absl::StrJoin(log, "\n");
  }
  EXPECT_TRUE(stack.Turn([&] { return load.done(); }))
      << absl::StrJoin(log, "\n");
  for (const std::string& error : load.errors()) ADD_FAILURE() << error;
}

TEST_P(LoopbackTest, SaysThatNobodyListens) {
  LoopbackStack stack(GetParam());
  stack.LogIn(InitiatorOptions());
  stack.initiator.reset();
  stack.StopServer();
  InitiatorOptions options;
  options.portal = stack.portal;
  options.target_name = kTargetName;
  std::optional<absl::Status> ready;
  auto initiator = Initiator::Create(
      &stack.registry, stack.reactor.get(), options,
      [&ready](absl::Status status) { ready = std::move(status); });
  ASSERT_TRUE(initiator.ok());
  ASSERT_TRUE(stack.Turn([&ready] { return ready.has_value(); }));
  EXPECT_FALSE(ready->ok());
  for (const std::string& part :
       {std::string(kTargetName), stack.portal.ToString(),
        std::string("check that")}) {
    EXPECT_NE(ready->message().find(part), absl::string_view::npos) << *ready;
  }
  stack.StartServer();
}

}  // namespace
}  // namespace skiff::protocol
