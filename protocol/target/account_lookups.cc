#include "protocol/target/account_lookups.h"

namespace skiff::protocol {

std::shared_ptr<AccountLookups::Lookup> AccountLookups::Begin() {
  auto lookup = std::make_shared<Lookup>(count_);
  return lookup->place() <= limit_ ? lookup : nullptr;
}

}  // namespace skiff::protocol
