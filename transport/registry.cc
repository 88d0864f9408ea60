#include "transport/registry.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace skiff::transport {

Registry::~Registry() {
  while (!transports_.empty()) transports_.pop_back();
}

absl::Status Registry::Add(std::unique_ptr<Transport> transport) {
  for (const auto& known : transports_) {
    if (known->scheme() == transport->scheme()) {
      return absl::AlreadyExistsError(absl::StrCat("a transport for scheme \"",
                                                   transport->scheme(),
                                                   "\" is registered already"));
    }
  }
  transports_.push_back(std::move(transport));
  return absl::OkStatus();
}

absl::StatusOr<Transport*> Registry::Find(absl::string_view scheme) const {
  for (const auto& transport : transports_) {
    if (transport->scheme() == scheme) return transport.get();
  }
  if (transports_.empty()) {
    return absl::NotFoundError(
        absl::StrCat("no transport for scheme \"", scheme,
                     "\": none is registered; was this program built without "
                     "transports?"));
  }
  auto name = [](std::string* out,
                 const std::unique_ptr<Transport>& transport) {
    absl::StrAppend(out, transport->scheme());
  };
  return absl::NotFoundError(absl::StrCat(
      "no transport for scheme \"", scheme,
      "\"; this program has: ", absl::StrJoin(transports_, ", ", name)));
}

std::vector<Transport*> Registry::All() const {
  std::vector<Transport*> all;
  all.reserve(transports_.size());
  for (const auto& transport : transports_) all.push_back(transport.get());
  return all;
}

}  // namespace skiff::transport
