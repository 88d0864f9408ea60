#include "tools/common/secret_file.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace skiff::tools {
namespace {

using protocol::ChapSecret;

// The secret, a newline in the manner of any system, and one byte too many.
using Buffer = std::array<char, ChapSecret::kMaxBytes + 3>;

// What others than the owner must not have.
constexpr mode_t kOfAFile = S_IRWXG | S_IRWXO;
// A credential can be root's, with an access control list that lets the
// service's user read it. The list's mask shows as the group's rights (acl(5)).
constexpr mode_t kOfACredential = S_IWGRP | S_IXGRP | S_IRWXO;

absl::Status CheckFile(int fd, const std::string& path, mode_t forbidden) {
  struct stat info;
  if (fstat(fd, &info) != 0) return absl::ErrnoToStatus(errno, path);
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is no file"));
  }
  if ((info.st_mode & forbidden) != 0) {
    return absl::PermissionDeniedError(
        absl::StrCat(path,
                     ": others than its owner have rights to it; "
                     "run `chmod 600 ",
                     path, "`"));
  }
  if (info.st_uid != 0 && info.st_uid != geteuid()) {
    return absl::PermissionDeniedError(
        absl::StrCat(path, ": belongs to user ", info.st_uid,
                     "; it has to be root's, or "
                     "that of who runs this program"));
  }
  return absl::OkStatus();
}

absl::StatusOr<absl::string_view> ReadAll(int fd, const std::string& path,
                                          Buffer* buffer) {
  size_t size = 0;
  while (size < buffer->size()) {
    const ssize_t got = read(fd, buffer->data() + size, buffer->size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return absl::ErrnoToStatus(errno, path);
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  absl::string_view text(buffer->data(), size);
  if (absl::ConsumeSuffix(&text, "\n")) absl::ConsumeSuffix(&text, "\r");
  return text;
}

absl::StatusOr<ChapSecret> Read(const std::string& path, mode_t forbidden) {
  // Whatever is there, it is not waited for.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return absl::ErrnoToStatus(errno, path);
  const absl::Cleanup closer = [fd] { close(fd); };
  const absl::Status safe = CheckFile(fd, path, forbidden);
  if (!safe.ok()) return safe;
  Buffer buffer;
  const absl::Cleanup wiper = [&buffer] {
    OPENSSL_cleanse(buffer.data(), buffer.size());
  };
  const absl::StatusOr<absl::string_view> text = ReadAll(fd, path, &buffer);
  if (!text.ok()) return text.status();
  ChapSecret secret(*text);
  const absl::Status good = CheckChapSecret(secret);
  if (!good.ok()) {
    return absl::Status(good.code(), absl::StrCat(path, ": ", good.message()));
  }
  return secret;
}

}  // namespace

absl::StatusOr<ChapSecret> ReadSecretFile(const std::string& path) {
  return Read(path, kOfAFile);
}

absl::StatusOr<ChapSecret> ReadSecretCredential(const std::string& name) {
  if (name.empty() || name == "." || name == ".." ||
      absl::StrContains(name, '/')) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", name,
                     "' is no name of a credential; write the name that "
                     "LoadCredential= gives it, without a directory"));
  }
  const char* const directory = std::getenv("CREDENTIALS_DIRECTORY");
  if (directory == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        "credential ", name,
        ": CREDENTIALS_DIRECTORY is not set, as systemd does for a service "
        "that has credentials; start this by a unit with LoadCredential=",
        name, ":FILE, or name a file instead"));
  }
  const std::string path = absl::StrCat(directory, "/", name);
  absl::StatusOr<ChapSecret> secret = Read(path, kOfACredential);
  if (!absl::IsNotFound(secret.status())) return secret;
  return absl::NotFoundError(absl::StrCat(
      "credential ", name, ": is not in ", directory, "; add LoadCredential=",
      name, ":FILE to the unit, and restart the service"));
}

}  // namespace skiff::tools
