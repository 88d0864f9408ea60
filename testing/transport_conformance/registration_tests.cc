// Memory registration.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "testing/transport_conformance/child_process.h"
#include "testing/transport_conformance/conformance_pair.h"

namespace skiff::testing {
namespace {

using transport::Access;
using transport::CompletionStatus;
using transport::RemoteBuffer;

constexpr Access kRemoteAll = Access::kRemoteRead | Access::kRemoteWrite;

class RegistrationTest : public ConformancePair {
 protected:
  // The connecting side is always of this process.
  LocalHost& local() { return dynamic_cast<LocalHost&>(client_host()); }
  transport::MemoryDomain* domain() {
    return local().endpoint(client().number())->domain();
  }
  void ExpectWorks(EndHandle& from, const MemoryHandle& source,
                   const RemoteBuffer& target, const char* what) {
    Succeed(from, from.Write({source.All()}, target), what);
  }
  void TakeMemoryFromWriter(bool destroy);
};

// The client's WRITEs are at another point in each round when the server takes
// its memory back, with or without the end of the endpoint: from then on it has
// the server's own bytes.
void RegistrationTest::TakeMemoryFromWriter(bool destroy) {
  constexpr int kRounds = 5;
  absl::Duration under_way = absl::Microseconds(20);
  for (int round = 0; round < kRounds && !HasFailure(); ++round) {
    SCOPED_TRACE(::testing::Message() << under_way << " after the first post");
    auto [writer, owner] = ConnectAnother();
    ASSERT_NE(owner.host(), nullptr);
    const MemoryHandle source = writer.Memory(scale().largest);
    const MemoryHandle target = owner.Memory(scale().largest, kRemoteAll);
    const RemoteBuffer remote = target.Remote();
    source.Fill(1);
    std::vector<Posted> posted;
    for (int i = 0; i < 4; ++i) {
      posted.push_back(writer.Write({source.All()}, remote));
    }
    world().RunUntil([] { return false; }, under_way);
    under_way *= 4;
    // In either order.
    const bool first = round % 2 == 0;
    if (destroy && first) owner.Destroy();
    server_host().Deregister(target.id);
    if (destroy && !first) owner.Destroy();
    target.Fill(2);
    for (const Posted& one : posted) {
      const Arrived arrived = Await(writer, one, "WRITE to a vanishing region");
      if (destroy || !expected().refusals_are_named) continue;
      EXPECT_TRUE(arrived.status == CompletionStatus::kOk ||
                  arrived.status == CompletionStatus::kRemoteAccess ||
                  arrived.status == CompletionStatus::kFlushed)
          << "status " << static_cast<int>(arrived.status);
    }
    Quiet();
    ExpectBytes(target, 0, target.size, 2);
  }
}

SKIFF_CONFORMANCE_SUITE(RegistrationTest, RdmaFactories);

TEST_P(RegistrationTest, TwoRegionsOfOnePage) {
  Connect();
  // The server writes into the client's memory here.
  const MemoryHandle source = server().Memory(100);
  source.Fill(1);
  const MemoryHandle page = client().Memory(4096, Access::kLocal);
  char* memory = local().data(page.id);
  const auto first = domain()->Register(memory + 100, 100, kRemoteAll);
  const auto second = domain()->Register(memory + 200, 100, kRemoteAll);
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ((*first)->data(), memory + 100);
  EXPECT_EQ((*first)->size(), 100u);
  ExpectWorks(server(), source,
              {(*first)->remote_base(), (*first)->remote_key()},
              "WRITE to a part of a page");
  Fence(server(), {(*first)->remote_base(), (*first)->remote_key()});
  ExpectBytes(page, 100, 100, 1);
  ExpectUntouched(page, 0, 100);
  ExpectUntouched(page, 200, 4096 - 200);
  // Over the border: the neighbour's permission is another one.
  ExpectRefused(
      server(),
      server().Write({source.Part(0, 2)},
                     {(*first)->remote_base() + 99, (*first)->remote_key()}),
      "WRITE over the end of a part of a page");
  ExpectUntouched(page, 200, 4096 - 200);
}

TEST_P(RegistrationTest, OverlappingRegions) {
  Connect();
  const MemoryHandle source = server().Memory(64);
  const MemoryHandle page = client().Memory(4096, Access::kLocal);
  char* memory = local().data(page.id);
  auto first = domain()->Register(memory, 4096, kRemoteAll);
  auto second = domain()->Register(memory, 4096, kRemoteAll);
  ASSERT_TRUE(first.ok() && second.ok()) << first.status() << second.status();
  EXPECT_NE((*first)->remote_key().value, (*second)->remote_key().value)
      << "two regions have one key";
  first->reset();
  source.Fill(2);
  ExpectWorks(server(), source,
              {(*second)->remote_base(), (*second)->remote_key()},
              "WRITE to memory of which another region is gone");
  Fence(server(), {(*second)->remote_base(), (*second)->remote_key()});
  ExpectBytes(page, 0, 64, 2);
}

TEST_P(RegistrationTest, KeysAreUniqueAndAsWideAsDeclared) {
  Connect();
  const int bits = client().capabilities().remote_key_bits;
  const MemoryHandle memory = client().Memory(64 << 10);
  std::vector<std::unique_ptr<transport::MemoryRegion>> regions;
  std::set<uint64_t> keys;
  const int count = std::min(500, scale().operations);
  for (int i = 0; i < count; ++i) {
    auto region =
        domain()->Register(local().data(memory.id) + i * 100, 100, kRemoteAll);
    ASSERT_TRUE(region.ok()) << "region " << i << ": " << region.status();
    const uint64_t key = (*region)->remote_key().value;
    EXPECT_TRUE(keys.insert(key).second)
        << "region " << i << " has a key twice";
    if (bits < 64) {
      EXPECT_EQ(key >> bits, 0u)
          << "the key " << key << " is wider than " << bits << " bits";
    }
    regions.push_back(*std::move(region));
  }
}

TEST_P(RegistrationTest, NothingCannotBeRegistered) {
  Connect();
  char byte = 0;
  for (const auto& [data, size] :
       {std::pair<void*, size_t>(nullptr, 100), {&byte, 0}}) {
    const auto region = domain()->Register(data, size, Access::kLocal);
    EXPECT_EQ(region.status().code(), absl::StatusCode::kInvalidArgument)
        << size << " bytes at " << data << ": " << region.status();
    EXPECT_GT(region.status().message().size(), 10u) << region.status();
  }
}

TEST_P(RegistrationTest, MemoryThatDoesNotExistIsRefused) {
  Connect();
  if (!expected().registration_checks_memory) {
    NotSupported("checking memory when it is registered");
    return;
  }
  // Nothing is ever mapped at the first page.
  const auto region =
      domain()->Register(reinterpret_cast<void*>(4096), 4096, Access::kLocal);
  EXPECT_FALSE(region.ok()) << "a page that is not mapped was registered";
}

TEST_P(RegistrationTest, DeregisteredWhileThePeerWrites) {
  if (!expected().capabilities.deregistration_ends_access) {
    NotSupported("deregistration that ends the WRITEs under way");
    return;
  }
  TakeMemoryFromWriter(/*destroy=*/false);
}

TEST_P(RegistrationTest, DeregisteredBehindItsEndpoint) {
  TakeMemoryFromWriter(/*destroy=*/true);
}

TEST_P(RegistrationTest, RegionOutlivesItsEndpoint) {
  Connect();
  const MemoryHandle memory = client().Memory(100, kRemoteAll);
  client().Disconnect();
  AwaitEnd(client());
  client().Destroy();
  EXPECT_EQ(local().region(memory.id)->size(), 100u);
  client_host().Deregister(memory.id);
}

// An embedding program may fork: memory that the child touches, or that is
// copied because of it, has to stay the memory that the device knows.
TEST_P(RegistrationTest, SurvivesAFork) {
  Connect();
  constexpr size_t kBytes = 3 * 4096 + 100;
  const MemoryHandle source = client().Memory(kBytes);
  const MemoryHandle sink = client().Memory(kBytes, kRemoteAll);
  const MemoryHandle far = server().Memory(kBytes, kRemoteAll);
  source.Fill(1);
  int hold[2];
  ASSERT_EQ(pipe(hold), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    // Holds its copy of all memory until the parent is done.
    close(hold[1]);
    char byte;
    const ssize_t got = read(hold[0], &byte, 1);
    _exit(got == 0 ? 0 : 1);
  }
  close(hold[0]);
  // The first touch after the fork copies the page, here or in the child.
  source.Fill(2);
  sink.Fill(3);
  Succeed(client(), client().Write({source.All()}, far.Remote()),
          "WRITE after a fork");
  Fence(client(), far.Remote());
  ExpectBytes(far, 0, kBytes, 2);
  far.Fill(4);
  Succeed(server(), server().Write({far.All()}, sink.Remote()),
          "WRITE into memory of a process that has forked");
  Fence(server(), sink.Remote());
  ExpectBytes(sink, 0, kBytes, 4);
  close(hold[1]);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
      << "the child could not exit in order";
}

TEST_P(RegistrationTest, LockedMemoryLimit) {
  if (!expected().registration_locks_memory) {
    NotSupported("a limit of locked memory: registration locks none");
    return;
  }
  if (!InLimitedChild()) {
    const absl::Status status = RunTestInLimitedChild();
    EXPECT_TRUE(status.ok()) << status.message();
    return;
  }
  Connect();
  std::vector<MemoryHandle> memory;
  const MemoryHandle big = client().Unregistered(64 << 20);
  const auto region =
      domain()->Register(local().data(big.id), big.size, Access::kLocal);
  ASSERT_FALSE(region.ok())
      << "64 MiB were locked with a limit of " << kLimitedChildBytes;
  EXPECT_EQ(region.status().code(), absl::StatusCode::kResourceExhausted)
      << region.status();
  const std::string text(region.status().message());
  EXPECT_TRUE(text.find("ulimit -l") != std::string::npos ||
              text.find("MEMLOCK") != std::string::npos)
      << "the message has to name the limit: " << text;
  // The rest goes on.
  const MemoryHandle source = client().Memory(100);
  const MemoryHandle sink = server().Memory(100);
  const Posted receive = server().Receive({sink.All()});
  Succeed(client(), client().Send({source.All()}), "SEND after the limit");
  Succeed(server(), receive, "RECEIVE after the limit");
}

}  // namespace
}  // namespace skiff::testing
