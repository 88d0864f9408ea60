#include "transport/libfabric/fabric/fabric_lookup.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/libfabric/fabric/fabric_info.h"

namespace skiff::transport {
namespace {

BackgroundThreads threads(FabricLookup::kMaxThreads, "lookups");

}  // namespace

absl::StatusOr<std::unique_ptr<FabricLookup>> FabricLookup::Start(
    Reactor* reactor, const Address& address, Callback done) {
  auto options = ParseFabricOptions(address);
  if (!options.ok()) return options.status();
  auto call = Call::Start(
      reactor, &threads,
      [address, options = *std::move(options)] {
        return FabricQuery(address, options, /*listen=*/false);
      },
      std::move(done));
  if (!call.ok()) {
    return absl::Status(call.status().code(),
                        absl::StrCat("connect ", address.ToString(), ": ",
                                     call.status().message()));
  }
  return std::unique_ptr<FabricLookup>(new FabricLookup(*std::move(call)));
}

}  // namespace skiff::transport
