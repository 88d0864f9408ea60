#include "transport/libfabric/shm/shm_peer.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <random>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "transport/log/log.h"
#include "transport/net/scoped_fd.h"

namespace skiff::transport {
namespace {

constexpr absl::string_view kScheme = "fi_shm://";
constexpr absl::string_view kOurs = "skiff-";
constexpr size_t kMaxName = 128;
// Where shm_open(3) keeps them.
constexpr const char* kFolder = "/dev/shm";

// A process's number means something within its namespace only.
uint64_t PidNamespace() {
  struct stat facts = {};
  return stat("/proc/self/ns/pid", &facts) == 0 ? facts.st_ino : 0;
}

std::string PrefixOfNamespace() {
  return absl::StrCat(kOurs, absl::Hex(PidNamespace()), "-");
}

// The process that a file's name tells of; 0 if it does not.
pid_t ProcessOf(absl::string_view name, absl::string_view prefix) {
  pid_t pid = 0;
  if (!absl::ConsumePrefix(&name, prefix) ||
      !absl::SimpleAtoi(name.substr(0, name.find('-')), &pid)) {
    return 0;
  }
  return std::max(pid, 0);
}

// That process has ended.
bool IsOfTheDead(absl::string_view name, absl::string_view prefix) {
  const pid_t pid = ProcessOf(name, prefix);
  return pid != 0 && kill(pid, 0) != 0 && errno == ESRCH;
}

}  // namespace

std::string NewShmName() {
  return absl::StrCat(PrefixOfNamespace(), getpid(), "-",
                      absl::Hex(std::random_device()(), absl::kZeroPad8));
}

std::string ShmName(absl::Span<const uint8_t> address) {
  absl::string_view text(reinterpret_cast<const char*>(address.data()),
                         address.size());
  text = text.substr(0, text.find('\0'));
  if (!absl::StartsWith(text, absl::StrCat(kScheme, kOurs))) return {};
  std::string name(text.substr(kScheme.size()));
  const bool sound = name.size() <= kMaxName &&
                     std::all_of(name.begin(), name.end(), [](unsigned char c) {
                       return absl::ascii_isalnum(c) || c == '-' || c == ':';
                     });
  return sound ? name : std::string();
}

pid_t ShmProcess(absl::Span<const uint8_t> address) {
  return ProcessOf(ShmName(address), PrefixOfNamespace());
}

void RemoveShmOfTheDead() {
  const std::string prefix = PrefixOfNamespace();
  size_t removed = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(kFolder, error), end;
       !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename();
    struct stat facts = {};
    if (IsOfTheDead(name, prefix) && stat(entry->path().c_str(), &facts) == 0 &&
        facts.st_uid == geteuid() && shm_unlink(name.c_str()) == 0) {
      ++removed;
    }
  }
  if (removed == 0) return;
  LogToProcess(LogLevel::kWarning,
               absl::StrCat("removed the shared memory of ", removed,
                            " endpoints, whose processes ended without closing "
                            "them"));
}

absl::Status CheckShmPeer(absl::Span<const uint8_t> address) {
  const std::string name = ShmName(address);
  if (name.empty()) {
    return absl::InvalidArgumentError(
        "the peer's address is not that of an endpoint in shared memory");
  }
  const ScopedFd memory(shm_open(absl::StrCat("/", name).c_str(), O_RDWR, 0));
  if (!memory.valid()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the peer's shared memory ", name,
        " cannot be opened: ", std::strerror(errno),
        "; both ends have to run as one user, with the same /dev/shm"));
  }
  struct stat facts = {};
  if (fstat(memory.get(), &facts) != 0 || facts.st_uid != geteuid()) {
    return absl::PermissionDeniedError(
        absl::StrCat("the peer's shared memory ", name,
                     " belongs to another user; both ends have to run as one"));
  }
  return absl::OkStatus();
}

}  // namespace skiff::transport
