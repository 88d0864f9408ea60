#ifndef SKIFF_TOOLS_SKIFFD_ACCOUNTS_H_
#define SKIFF_TOOLS_SKIFFD_ACCOUNTS_H_

#include <memory>

#include "protocol/target/authenticator.h"
#include "tools/skiffd/config.h"

namespace skiff::tools::skiffd {

// Knows the accounts of a configuration, and answers at once. Null: it has
// none.
std::shared_ptr<protocol::Authenticator> AccountsOf(const DaemonConfig& config);

}  // namespace skiff::tools::skiffd

#endif  // SKIFF_TOOLS_SKIFFD_ACCOUNTS_H_
