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

namespace skiff::testing {
namespace {

// Smallest, first and largest (tcp(7)).
constexpr char kSetting[] = "/proc/sys/net/ipv4/tcp_rmem";
constexpr char kReceiveBuffers[] = "4096 4194304 33554432";
constexpr int kEnough = 4194304;

// As in a child process of one that has entered: it stays there.
bool IsRoomy() {
  std::ifstream setting(kSetting);
  int smallest = 0;
  int first = 0;
  return setting >> smallest >> first && first >= kEnough;
}

// What could not be done, or null.
const char* SetUp() {
  const int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (any < 0) return "socket";
  ifreq request = {};
  std::strncpy(request.ifr_name, "lo", sizeof(request.ifr_name) - 1);
  request.ifr_flags = IFF_UP;
  const int result = ioctl(any, SIOCSIFFLAGS, &request);
  close(any);
  if (result != 0) return "ip link set lo up";
  std::ofstream buffers(kSetting);
  buffers << kReceiveBuffers;
  buffers.flush();
  return buffers.good() ? nullptr : "sysctl net.ipv4.tcp_rmem";
}

// The same; the network is the old one then.
const char* Enter() {
  const int before = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
  if (before < 0) return "/proc/self/ns/net";
  const char* failed = "unshare(CLONE_NEWNET)";
  if (unshare(CLONE_NEWNET) == 0) {
    failed = SetUp();
    const int why = errno;
    if (failed != nullptr && setns(before, CLONE_NEWNET) != 0) {
      std::perror("skiff: no way back to the network of before: setns");
      std::abort();
    }
    errno = why;
  }
  const int why = errno;
  close(before);
  errno = why;
  return failed;
}

}  // namespace

bool EnterRoomyLoopback() {
  if (IsRoomy()) return true;
  const char* const failed = Enter();
  if (failed == nullptr) return true;
  std::fprintf(stderr,
               "skiff: no network with larger receive buffers for these tests: "
               "%s: %s; connections of libfabric's sockets provider may stop\n",
               failed, std::strerror(errno));
  return false;
}

}  // namespace skiff::testing
