#include "transport/libfabric/shm_peer.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "transport/net/scoped_fd.h"

namespace skiff::transport {
namespace {

constexpr absl::string_view kScheme = "fi_shm://";
constexpr absl::string_view kOurs = "skiff-";
constexpr size_t kMaxName = 128;

}  // namespace

std::string NewShmName() {
  return absl::StrCat(kOurs, getpid(), "-",
                      absl::Hex(std::random_device()(), absl::kZeroPad8));
}

absl::Status CheckShmPeer(absl::Span<const uint8_t> address) {
  absl::string_view text(reinterpret_cast<const char*>(address.data()),
                         address.size());
  text = text.substr(0, text.find('\0'));
  const bool has_name = absl::StartsWith(text, absl::StrCat(kScheme, kOurs));
  const std::string name(has_name ? text.substr(kScheme.size()) : "");
  if (name.empty() || name.size() > kMaxName ||
      !std::all_of(name.begin(), name.end(), [](unsigned char c) {
        return absl::ascii_isalnum(c) || c == '-' || c == ':';
      })) {
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
