#ifndef SKIFF_TOOLS_SKIFFD_ACCOUNT_CHECK_H_
#define SKIFF_TOOLS_SKIFFD_ACCOUNT_CHECK_H_

#include <google/protobuf/repeated_ptr_field.h>

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "protocol/auth/chap_algorithm.h"
#include "tools/skiffd/checker.h"
#include "tools/skiffd/config.h"
#include "tools/skiffd/config.pb.h"

namespace skiff::tools::skiffd {

// Reads the secrets of accounts, and checks these by themselves and with each
// other. Nothing that it tells has a secret in it. `target` is the name that a
// target has to initiators, unless an account says another.
std::vector<AccountConfig> CheckAccounts(
    const google::protobuf::RepeatedPtrField<Account>& accounts,
    absl::string_view target, Checker* checker);

// Finds secrets that serve in both directions, among all accounts there are.
void CheckDirections(const std::vector<AccountConfig>& accounts,
                     std::vector<std::string>* problems);

// All of them, unless some are chosen.
std::vector<protocol::ChapAlgorithm> CheckAlgorithms(const Chap& chap,
                                                     Checker* checker);

}  // namespace skiff::tools::skiffd

#endif  // SKIFF_TOOLS_SKIFFD_ACCOUNT_CHECK_H_
