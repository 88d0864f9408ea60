#include "transport/registry.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace skiff::transport {

Registry::~Registry() {
  while (!backends_.empty()) backends_.pop_back();
}

absl::Status Registry::Add(std::unique_ptr<Backend> backend) {
  for (const auto& known : backends_) {
    if (known->scheme() == backend->scheme()) {
      return absl::AlreadyExistsError(
          absl::StrCat("a transport backend for scheme \"", backend->scheme(),
                       "\" is registered already"));
    }
  }
  backends_.push_back(std::move(backend));
  return absl::OkStatus();
}

absl::StatusOr<Backend*> Registry::Find(absl::string_view scheme) const {
  for (const auto& backend : backends_) {
    if (backend->scheme() == scheme) return backend.get();
  }
  if (backends_.empty()) {
    return absl::NotFoundError(
        absl::StrCat("no transport backend for scheme \"", scheme,
                     "\": none is registered; was this program built without "
                     "backends?"));
  }
  auto name = [](std::string* out, const std::unique_ptr<Backend>& backend) {
    absl::StrAppend(out, backend->scheme());
  };
  return absl::NotFoundError(absl::StrCat(
      "no transport backend for scheme \"", scheme,
      "\"; this program has: ", absl::StrJoin(backends_, ", ", name)));
}

std::vector<Backend*> Registry::All() const {
  std::vector<Backend*> all;
  all.reserve(backends_.size());
  for (const auto& backend : backends_) all.push_back(backend.get());
  return all;
}

}  // namespace skiff::transport
