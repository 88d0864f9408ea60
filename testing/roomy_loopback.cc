#include "testing/roomy_loopback.h"

#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "absl/status/status.h"

namespace skiff::testing {
namespace {

constexpr char kSetting[] = "/proc/sys/net/ipv4/tcp_rmem";
// Smallest, first and largest (tcp(7)).
constexpr char kReceiveBuffers[] = "4096 4194304 33554432";
constexpr int kEnough = 4194304;

// As in a child process of one that has entered: it stays there.
bool IsRoomy() {
  std::ifstream setting(kSetting);
  int smallest = 0;
  int first = 0;
  return setting >> smallest >> first && first >= kEnough;
}

absl::Status Failed(const char* what) {
  return absl::ErrnoToStatus(errno, what);
}

// Of a network that is new.
absl::Status SetUp() {
  const int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (any < 0) return Failed("socket");
  ifreq request = {};
  std::strncpy(request.ifr_name, "lo", sizeof(request.ifr_name) - 1);
  request.ifr_flags = IFF_UP;
  absl::Status up = ioctl(any, SIOCSIFFLAGS, &request) == 0
                        ? absl::OkStatus()
                        : Failed("ip link set lo up");
  close(any);
  if (!up.ok()) return up;
  std::ofstream buffers(kSetting);
  buffers << kReceiveBuffers;
  buffers.flush();
  return buffers.good() ? absl::OkStatus() : Failed("sysctl net.ipv4.tcp_rmem");
}

// After an error, the network is the old one.
absl::Status Enter() {
  const int before = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
  if (before < 0) return Failed("/proc/self/ns/net");
  absl::Status entered;
  if (unshare(CLONE_NEWNET) != 0) {
    entered = Failed("unshare(CLONE_NEWNET)");
  } else {
    entered = SetUp();
    if (!entered.ok() && setns(before, CLONE_NEWNET) != 0) {
      std::perror("skiff: no way back to the network of before: setns");
      std::abort();
    }
  }
  close(before);
  return entered;
}

}  // namespace

bool EnterRoomyLoopback() {
  if (IsRoomy()) return true;
  const absl::Status entered = Enter();
  if (entered.ok()) return true;
  std::fprintf(stderr,
               "skiff: no network with larger receive buffers for these tests: "
               "%s; connections of libfabric's sockets provider may stop\n",
               std::string(entered.message()).c_str());
  return false;
}

}  // namespace skiff::testing
