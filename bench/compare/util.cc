#include "bench/compare/util.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace skiff::bench {

void Die(const std::string& message, bool with_errno) {
  const int error = errno;
  std::fprintf(stderr, "%s%s%s\n", message.c_str(), with_errno ? ": " : "",
               with_errno ? std::strerror(error) : "");
  std::exit(1);
}

double Now() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) +
         static_cast<double>(now.tv_nsec) * 1e-9;
}

uint64_t Ticks() {
#if defined(__x86_64__)
  return __rdtsc();
#else
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<uint64_t>(now.tv_nsec);
#endif
}

double CpuSeconds() {
  timespec used = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) +
         static_cast<double>(used.tv_nsec) * 1e-9;
}

void PinToCore(int core) {
  if (core < 0) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  if (sched_setaffinity(0, sizeof(set), &set) != 0) {
    Die("cannot run on core " + std::to_string(core), true);
  }
}

size_t ParseSize(const std::string& text) {
  char* end = nullptr;
  const uint64_t value = std::strtoull(text.c_str(), &end, 10);
  const std::string unit = end;
  if (value > 0 && unit.empty()) return value;
  if (value > 0 && (unit == "k" || unit == "K")) return value << 10;
  if (value > 0 && (unit == "m" || unit == "M")) return value << 20;
  Die("'" + text + "' is no size: write bytes, or a number with k or m");
}

void SetNoDelay(int fd) {
  const int on = 1;
  if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0) {
    Die("cannot set TCP_NODELAY", true);
  }
}

int ConnectTo(const std::string& host, const std::string& port) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
  if (error != 0) {
    Die("cannot look up " + host + ":" + port + ": " + gai_strerror(error));
  }
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || connect(fd, found->ai_addr, found->ai_addrlen) != 0) {
    Die("cannot connect to " + host + ":" + port, true);
  }
  freeaddrinfo(found);
  SetNoDelay(fd);
  return fd;
}

bool SendAll(int fd, std::vector<iovec>* pieces, bool spin) {
  const int flags = MSG_NOSIGNAL | (spin ? MSG_DONTWAIT : 0);
  size_t next = 0;
  while (next < pieces->size()) {
    msghdr message = {};
    message.msg_iov = pieces->data() + next;
    message.msg_iovlen = std::min<size_t>(pieces->size() - next, IOV_MAX);
    const ssize_t sent = sendmsg(fd, &message, flags);
    if (sent < 0) {
      if (errno == EAGAIN || errno == EINTR) continue;
      if (errno == ECONNRESET || errno == EPIPE) return false;
      Die("cannot send", true);
    }
    size_t left = static_cast<size_t>(sent);
    // Pieces that are empty from the start go with the one before them.
    while (next < pieces->size() &&
           (left > 0 || (*pieces)[next].iov_len == 0)) {
      iovec& piece = (*pieces)[next];
      const size_t taken = std::min(left, piece.iov_len);
      piece.iov_base = static_cast<char*>(piece.iov_base) + taken;
      piece.iov_len -= taken;
      left -= taken;
      if (piece.iov_len == 0) ++next;
    }
  }
  pieces->clear();
  return true;
}

bool ReceiveSome(int fd, void* to, size_t capacity, bool spin,
                 size_t* received) {
  while (true) {
    const ssize_t got = recv(fd, to, capacity, spin ? MSG_DONTWAIT : 0);
    if (got > 0) {
      *received = static_cast<size_t>(got);
      return true;
    }
    if (got == 0 || errno == ECONNRESET) return false;
    if (errno != EAGAIN && errno != EINTR) Die("cannot receive", true);
  }
}

}  // namespace skiff::bench
