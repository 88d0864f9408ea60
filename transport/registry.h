#ifndef SKIFF_TRANSPORT_REGISTRY_H_
#define SKIFF_TRANSPORT_REGISTRY_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "transport/transport.h"

namespace skiff::transport {

// The transports a program can use, by scheme. A plain object, not a global: an
// embedder builds one, adds Skiff's transports and its own, and passes it on.
// Thread-safe once filled.
class Registry {
 public:
  Registry() = default;
  Registry(Registry&&) = default;
  Registry& operator=(Registry&&) = default;
  // The last transport that was added goes first: it may use the others.
  ~Registry();
  // An error if the scheme is taken.
  absl::Status Add(std::unique_ptr<Transport> transport);
  // An error that lists what is registered when `scheme` is not.
  absl::StatusOr<Transport*> Find(absl::string_view scheme) const;
  // In the order in which they were added. Owned by the registry.
  std::vector<Transport*> All() const;

 private:
  std::vector<std::unique_ptr<Transport>> transports_;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_REGISTRY_H_
