#include "tools/skiffd/descriptors.h"

#include <dirent.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace skiff::tools::skiffd {
namespace {

// Files, rings and events of disks and reactors, generously; and what libraries
// open now and then. A disk has a file, and for each reactor one more, a ring
// and an event.
constexpr uint64_t kPerLun = 1;
constexpr uint64_t kPerLunAndReactor = 3;
constexpr uint64_t kPerReactor = 32;
constexpr uint64_t kOther = 64;

}  // namespace

absl::StatusOr<uint64_t> RaiseDescriptorLimit() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return absl::ErrnoToStatus(errno, "cannot read the limit on open files");
  }
  if (limit.rlim_cur == limit.rlim_max) return limit.rlim_cur;
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return absl::ErrnoToStatus(
        errno, absl::StrCat("cannot raise the limit on open files to ",
                            limit.rlim_max));
  }
  return limit.rlim_cur;
}

uint64_t OpenDescriptors() {
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir("/proc/self/fd"),
                                                closedir);
  if (dir == nullptr) return 0;
  uint64_t count = 0;
  while (const dirent* entry = readdir(dir.get())) {
    if (entry->d_name[0] != '.') ++count;
  }
  return count - 1;  // Without `dir`.
}

uint32_t ConnectionsThatFit(const DescriptorNeeds& needs) {
  const uint64_t taken =
      needs.open + needs.luns * (kPerLun + kPerLunAndReactor * needs.reactors) +
      needs.reactors * kPerReactor + kOther;
  uint64_t room = needs.limit > taken ? needs.limit - taken : 0;
  room -= std::min(needs.in_login, room / 4);
  return static_cast<uint32_t>(std::clamp<uint64_t>(room, 1, kMostConnections));
}

std::string ChosenConnections(uint32_t fit, uint64_t limit) {
  if (fit == kMostConnections) {
    return absl::StrCat("max_connections is ", fit);
  }
  return absl::StrCat("max_connections is ", fit, ", for which the limit of ",
                      limit, " open files has room");
}

std::string TooManyConnections(uint32_t configured, uint32_t fit,
                               uint64_t limit) {
  return absl::StrCat("max_connections is ", configured, ", but the limit of ",
                      limit, " open files has room for about ", fit,
                      "; raise it (ulimit -Hn, or LimitNOFILE= of systemd)");
}

}  // namespace skiff::tools::skiffd
