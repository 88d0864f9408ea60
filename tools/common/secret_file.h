#ifndef SKIFF_TOOLS_COMMON_SECRET_FILE_H_
#define SKIFF_TOOLS_COMMON_SECRET_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "protocol/auth/chap_secret.h"

namespace skiff::tools {

// A secret for CHAP, from a file that has nothing else in it; a newline at its
// end is not part of it. Errors name the path and what to do, and have nothing
// of the secret: whoever is not the file's owner may read it or write it, it is
// no regular file, or the secret is too short or too long.
absl::StatusOr<protocol::ChapSecret> ReadSecretFile(const std::string& path);

// The same from the credential `name` that systemd gives to this service: a
// file in $CREDENTIALS_DIRECTORY (systemd.exec(5), LoadCredential=). Errors
// also say that there is no such directory, no such credential, or that `name`
// is none.
absl::StatusOr<protocol::ChapSecret> ReadSecretCredential(
    const std::string& name);

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_COMMON_SECRET_FILE_H_
