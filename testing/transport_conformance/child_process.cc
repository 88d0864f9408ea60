#include "testing/transport_conformance/child_process.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace skiff::testing {
namespace {

// Tell a child what it is.
constexpr char kLimitedMark[] = "SKIFF_CONFORMANCE_LIMITED_CHILD";
constexpr char kPeerMark[] = "SKIFF_CONFORMANCE_PEER_FD";

std::vector<std::string>& CommandLine() {
  static auto* const kLine = new std::vector<std::string>;
  return *kLine;
}

// See capabilities(7): CAP_IPC_LOCK lifts RLIMIT_MEMLOCK.
bool DropIpcLock() {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};
  if (syscall(SYS_capget, &header, data) != 0) return false;
  const uint32_t bit = uint32_t{1} << CAP_IPC_LOCK;
  data[0].effective &= ~bit;
  data[0].permitted &= ~bit;
  data[0].inheritable &= ~bit;
  return syscall(SYS_capset, &header, data) == 0;
}

bool Limit() {
  const rlimit limit = {kLimitedChildBytes, kLimitedChildBytes};
  return setrlimit(RLIMIT_MEMLOCK, &limit) == 0 && DropIpcLock();
}

// The command line of this program, without its reports, its peer and
// GoogleTest's options.
std::vector<std::string> ChildCommandLine() {
  std::vector<std::string> line;
  bool skip = false;
  for (const std::string& argument : CommandLine()) {
    bool unwanted = skip || absl::StartsWith(argument, "--gtest_");
    skip = false;
    for (const std::string option : {"--junit", "--json"}) {
      if (argument == option) skip = true;
      unwanted = unwanted || argument == option ||
                 absl::StartsWith(argument, option + "=");
    }
    if (!unwanted) line.push_back(argument);
  }
  return line;
}

// Becomes this program anew.
[[noreturn]] void Exec(std::vector<std::string> line, const char* mark,
                       const std::string& value) {
  std::vector<char*> arguments;
  for (std::string& argument : line) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  setenv(mark, value.c_str(), 1);
  // GoogleTest would write over the report of this process.
  for (const char* name :
       {"XML_OUTPUT_FILE", "GTEST_OUTPUT", "TEST_SHARD_STATUS_FILE",
        "TEST_PREMATURE_EXIT_FILE", "TESTBRIDGE_TEST_ONLY"}) {
    unsetenv(name);
  }
  execv("/proc/self/exe", arguments.data());
  _exit(127);
}

std::string ReadAll(int fd) {
  std::string text;
  char buffer[4096];
  ssize_t got = 0;
  while ((got = read(fd, buffer, sizeof(buffer))) > 0) {
    text.append(buffer, static_cast<size_t>(got));
  }
  return text;
}

}  // namespace

void RememberCommandLine(int argc, char** argv) {
  CommandLine().assign(argv, argv + argc);
}

bool InLimitedChild() {
  static const bool kLimited = std::getenv(kLimitedMark) != nullptr && Limit();
  return kLimited;
}

absl::Status RunTestInLimitedChild() {
  if (CommandLine().empty() || std::getenv(kLimitedMark) != nullptr) {
    return absl::FailedPreconditionError(
        "the limit of locked memory could not be set in a child process; this "
        "needs ConformanceMain() as main()");
  }
  const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
  const std::string test =
      absl::StrCat(info->test_suite_name(), ".", info->name());
  std::vector<std::string> line = ChildCommandLine();
  line.push_back(absl::StrCat("--gtest_filter=", test));
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return absl::ErrnoToStatus(errno, "pipe");
  }
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    Exec(std::move(line), kLimitedMark, "1");
  }
  close(ends[1]);
  const std::string output = ReadAll(ends[0]);
  close(ends[0]);
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) {
    return absl::ErrnoToStatus(errno, "running a child process");
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("with a limit of locked memory of ",
                                          kLimitedChildBytes, " bytes:\n",
                                          output));
}

absl::StatusOr<std::unique_ptr<PeerProcess>> PeerProcess::Start() {
  if (CommandLine().empty()) {
    return absl::FailedPreconditionError(
        "a peer process needs ConformanceMain() as main()");
  }
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return absl::ErrnoToStatus(errno, "socketpair");
  }
  const pid_t child = fork();
  if (child == 0) {
    const int own = dup(ends[1]);  // Without close-on-exec.
    Exec(ChildCommandLine(), kPeerMark, std::to_string(own));
  }
  close(ends[1]);
  if (child < 0) {
    close(ends[0]);
    return absl::ErrnoToStatus(errno, "starting a peer process");
  }
  return std::unique_ptr<PeerProcess>(new PeerProcess(child, ends[0]));
}

PeerProcess::~PeerProcess() { Kill(); }

void PeerProcess::Kill() {
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

std::unique_ptr<ControlLink> LinkOfPeerProcess() {
  const char* fd = std::getenv(kPeerMark);
  return fd == nullptr ? nullptr : std::make_unique<ControlLink>(atoi(fd));
}

}  // namespace skiff::testing
