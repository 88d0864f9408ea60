#ifndef SKIFF_TRANSPORT_LIBFABRIC_SHM_SHM_PEER_H_
#define SKIFF_TRANSPORT_LIBFABRIC_SHM_SHM_PEER_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace skiff::transport {

// A name for an endpoint of the shm provider that nobody had before; the
// provider adds a user and a number.
std::string NewShmName();

// The file's name in /dev/shm of an endpoint with this address; empty if it is
// no address of ours.
std::string ShmName(absl::Span<const uint8_t> address);

// The process that the address names, if its PID namespace is ours; else 0.
pid_t ShmProcess(absl::Span<const uint8_t> address);

// Removes the files of our user's endpoints whose processes have ended without
// closing them, and says so on standard error. Processes of other PID
// namespaces (pid_namespaces(7)), of which nothing is known, keep theirs.
void RemoveShmOfTheDead();

// Whether a peer's address names such an endpoint that exists and belongs to
// our user. The provider follows a name that it cannot open, or that an
// endpoint of this process once had, to memory that is not there
// (smr_verify_peer(), smr_map_to_region()).
absl::Status CheckShmPeer(absl::Span<const uint8_t> address);

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_SHM_SHM_PEER_H_
