#ifndef SKIFF_TOOLS_SKIFFD_DESCRIPTORS_H_
#define SKIFF_TOOLS_SKIFFD_DESCRIPTORS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace skiff::tools::skiffd {

// Raises the soft limit on open files of this process to the hard one, which
// anybody may. Returns the limit that it has now.
absl::StatusOr<uint64_t> RaiseDescriptorLimit();

// How many descriptors this process has open.
uint64_t OpenDescriptors();

// What there are descriptors for.
struct DescriptorNeeds {
  uint64_t limit = 0;
  uint64_t open = 0;
  uint64_t luns = 0;  // Not open yet.
  uint64_t reactors = 1;
  uint64_t in_login = 0;  // Connections beyond those that are counted.
};

// Of a target: TSIHs have 16 bits (RFC 7143 section 11.12.6).
inline constexpr uint32_t kMostConnections = 65000;

// How many connections fit, at least one and at most kMostConnections.
uint32_t ConnectionsThatFit(const DescriptorNeeds& needs);

// What the log says of `max_connections`: which was chosen for it, or that the
// configured one is more than fits.
std::string ChosenConnections(uint32_t fit, uint64_t limit);
std::string TooManyConnections(uint32_t configured, uint32_t fit,
                               uint64_t limit);

}  // namespace skiff::tools::skiffd

#endif  // SKIFF_TOOLS_SKIFFD_DESCRIPTORS_H_
