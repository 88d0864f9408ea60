// READs over shared memory where the kernel keeps the peer's memory closed.

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "absl/strings/match.h"
#include "transport/libfabric/libfabric_test_util.h"
#include "transport/system/refuse_system_call.h"

namespace skiff::transport {
namespace {

class ShmClosedDeathTest : public LibfabricTest {
 protected:
  // Ends the process with 0 if a READ is done well all the same, after saying
  // what the connection runs on.
  [[noreturn]] void ReadAndExit() {
    ConnectPair();
    if (client_ == nullptr || server_ == nullptr) _exit(1);
    TestBuffer& window =
        Memory(server_.get(), 200000, 'g', Access::kRemoteRead);
    TestBuffer& to = Memory(client_.get(), 100000, '.');
    const Sge target = to.Part(0, 100000);
    client_->PostRead({9, 9}, {&target, 1}, window.Remote(77));
    EXPECT_EQ(Next(client_.get()).status, CompletionStatus::kOk);
    EXPECT_EQ(to.text(), std::string(100000, 'g'));
    const std::string path = client_->path();
    EXPECT_TRUE(absl::EndsWith(path, ", " + client_->slow_reads())) << path;
    std::fprintf(stderr, "runs on %s\n", path.c_str());
    client_.reset();
    server_.reset();
    RunFor(absl::Milliseconds(50));
    _exit(HasFailure() ? 1 : 0);
  }
};

TEST_P(ShmClosedDeathTest, TellsThatTheKernelRefuses) {
  EXPECT_EXIT(
      {
        RefuseSystemCall(SYS_process_vm_readv, EPERM);
        ReadAndExit();
      },
      ::testing::ExitedWithCode(0),
      "runs on libfabric shm [^\n]*, READs go through the provider, which "
      "copies twice: process_vm_readv of process [0-9]+: Operation not "
      "permitted; run both ends");
}

TEST_P(ShmClosedDeathTest, TellsThatThePeerHasNoList) {
  EXPECT_EXIT(
      {
        RefuseSystemCall(SYS_memfd_create, ENOSYS);
        ReadAndExit();
      },
      ::testing::ExitedWithCode(0),
      "warn  peers cannot read [^\n]*memfd_create[^\n]* not implemented\n"
      "runs on libfabric shm [^\n]*, READs go through the provider, which "
      "copies twice: the peer has no list");
}

INSTANTIATE_TEST_SUITE_P(Providers, ShmClosedDeathTest,
                         ::testing::Values("provider=shm"), ProviderName);

class ShmOpenTest : public LibfabricTest {};

TEST_P(ShmOpenTest, TellsHowReadsAreDone) {
  ConnectPair();
  if (HasFatalFailure()) return;
  const bool shm = absl::EndsWith(GetParam(), "=shm");
  for (const RdmaEndpoint* end : {client_.get(), server_.get()}) {
    EXPECT_EQ(absl::EndsWith(end->path(), ", READs by process_vm_readv(2)"),
              shm)
        << end->path();
    EXPECT_EQ(end->slow_reads(), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Providers, ShmOpenTest,
                         ::testing::Values("provider=shm",
                                           "provider=tcp;ofi_rxm",
                                           "provider=tcp"),
                         ProviderName);

}  // namespace
}  // namespace skiff::transport
