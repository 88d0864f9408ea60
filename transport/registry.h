#ifndef SKIFF_TRANSPORT_REGISTRY_H_
#define SKIFF_TRANSPORT_REGISTRY_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "transport/backend.h"

namespace skiff::transport {

// The backends a program can use, by scheme. A plain object, not a global: an
// embedder builds one, adds Skiff's backends and its own, and passes it on.
// Thread-safe once filled.
class Registry {
 public:
  Registry() = default;
  Registry(Registry&&) = default;
  Registry& operator=(Registry&&) = default;
  // The last backend that was added goes first: it may use the others.
  ~Registry();
  // An error if the scheme is taken.
  absl::Status Add(std::unique_ptr<Backend> backend);
  // An error that lists what is registered when `scheme` is not.
  absl::StatusOr<Backend*> Find(absl::string_view scheme) const;
  // In the order in which they were added. Owned by the registry.
  std::vector<Backend*> All() const;

 private:
  std::vector<std::unique_ptr<Backend>> backends_;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_REGISTRY_H_
