#ifndef SKIFF_TRANSPORT_LIBFABRIC_FABRIC_FABRIC_INFO_H_
#define SKIFF_TRANSPORT_LIBFABRIC_FABRIC_FABRIC_INFO_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "transport/address.h"
#include "transport/libfabric/fabric/fid.h"
#include "transport/transport.h"

namespace skiff::transport {

// The options of a libfabric:// address.
struct FabricAddressOptions {
  std::string provider;  // Empty: the best that there is.
  std::string domain;    // Empty: the one that the address belongs to.
};
absl::StatusOr<FabricAddressOptions> ParseFabricOptions(const Address& address);

// The libfabric interface that this transport is written for.
uint32_t FabricApiVersion();

// What this transport asks of a provider: messages and one-sided operations
// over `type`, with the memory registration modes that it can deal with.
// `send_queue` and `receive_queue` 0: the provider's defaults.
InfoPtr FabricHints(const FabricAddressOptions& options, fi_ep_type type,
                    size_t send_queue, size_t receive_queue);

// Whether the provider that `options` name has reliable datagrams (FI_EP_RDM)
// and no connections of its own. Without a name: connections.
bool UsesDatagrams(const FabricAddressOptions& options);
// fi_getinfo(3) for an unconnected endpoint at `host`, a numeric address of
// this machine, or of the provider's one device if it has no such addresses.
// Does not ask name services.
absl::StatusOr<InfoPtr> DatagramQuery(const FabricAddressOptions& options,
                                      const std::string& host);

// fi_getinfo(3), for an address to connect to, or (`listen`) to bind. May block
// on name service and address resolution. The best info comes first, and every
// one is usable by this transport.
absl::StatusOr<InfoPtr> FabricQuery(const Address& address,
                                    const FabricAddressOptions& options,
                                    bool listen);

// The infos of `list` that this transport can use, best first.
InfoPtr UsableInfos(InfoPtr list);
// Why this transport cannot use `info`; empty if it can.
std::string UnusableBecause(const fi_info& info);

// More scatter/gather entries are not offered.
inline constexpr size_t kMaxFabricSges = 16;

bool IsIwarp(const fi_info& info);
// Linux' siw, which needs some care.
bool IsSoftIwarp(const fi_info& info);
// Whether the provider makes one-sided operations out of sockets.
bool IsEmulated(const fi_info& info);
// As far as `info` tells; see FabricDomain for the rest.
Capabilities FabricCapabilities(const fi_info& info);

// "libfabric tcp on lo".
std::string FabricName(const fi_info& info);
// Numeric host:port of a socket address, or libfabric's form of any other.
std::string FabricAddressText(uint32_t format, const void* address,
                              size_t length);

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_FABRIC_FABRIC_INFO_H_
