#include "tools/skiffd/management_check.h"

#include <grp.h>
#include <pwd.h>
#include <sys/un.h>

#include <cstddef>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tools/management/default_socket.h"
#include "tools/skiffd/config.pb.h"
#include "tools/skiffd/settings.h"

namespace skiff::tools::skiffd {
namespace {

// unix(7), with the NUL at its end.
constexpr size_t kMaxSocketPath = sizeof(sockaddr_un::sun_path) - 1;

// Octal, and no more than permissions. -1: it is not.
int64_t ModeOf(const std::string& text) {
  if (text.empty() || text.size() > 4) return -1;
  int64_t mode = 0;
  for (const char c : text) {
    if (c < '0' || c > '7') return -1;
    mode = mode * 8 + (c - '0');
  }
  return mode <= 0777 ? mode : -1;
}

// Of a name, or of a number as it is. -1: there is none.
int64_t UserOf(const std::string& name) {
  const passwd* const entry = getpwnam(name.c_str());
  if (entry != nullptr) return entry->pw_uid;
  uint32_t number = 0;
  return absl::SimpleAtoi(name, &number) ? int64_t{number} : -1;
}

int64_t GroupOf(const std::string& name) {
  const group* const entry = getgrnam(name.c_str());
  if (entry != nullptr) return entry->gr_gid;
  uint32_t number = 0;
  return absl::SimpleAtoi(name, &number) ? int64_t{number} : -1;
}

}  // namespace

ManagementConfig CheckManagement(const Config& config, Checker* checker) {
  ManagementConfig out;
  if (!config.has_management()) return out;
  const Management& given = config.management();
  out.where = checker->Where(given);
  out.socket = given.has_socket() ? given.socket() : management::kDefaultSocket;
  if (!absl::StartsWith(out.socket, "/") ||
      out.socket.find('\0') != std::string::npos) {
    checker->Problem(given, Management::kSocketFieldNumber,
                     absl::StrCat("'", out.socket,
                                  "' is not the path of a socket: write such "
                                  "as ",
                                  management::kDefaultSocket));
  } else if (out.socket.size() > kMaxSocketPath) {
    checker->Problem(
        given, Management::kSocketFieldNumber,
        absl::StrCat("'", out.socket, "': a socket's path has ", kMaxSocketPath,
                     " bytes at most; name a shorter one"));
  }
  const std::string mode =
      given.has_mode() ? given.mode() : kDefaultManagementMode;
  const int64_t bits = ModeOf(mode);
  if (bits < 0) {
    checker->Problem(
        given, Management::kModeFieldNumber,
        absl::StrCat("'", mode, "' is not a mode: write such as \"0660\""));
  } else {
    out.mode = static_cast<uint32_t>(bits);
  }
  out.user = given.user();
  out.group = given.group();
  if (given.has_user() && (out.uid = UserOf(out.user)) < 0) {
    checker->Problem(given, Management::kUserFieldNumber,
                     absl::StrCat("there is no user '", out.user, "'"));
  }
  if (given.has_group() && (out.gid = GroupOf(out.group)) < 0) {
    checker->Problem(given, Management::kGroupFieldNumber,
                     absl::StrCat("there is no group '", out.group, "'"));
  }
  return out;
}

}  // namespace skiff::tools::skiffd
