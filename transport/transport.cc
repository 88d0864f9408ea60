#include "transport/transport.h"

#include <unistd.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"

namespace skiff::transport {

absl::StatusOr<std::unique_ptr<ByteStream>> Transport::Adopt(
    Reactor* /*reactor*/, int descriptor,
    // NOLINTNEXTLINE(performance-unnecessary-value-param): others take it over.
    std::string /*unread*/) {
  close(descriptor);
  return absl::UnimplementedError(absl::StrCat(
      "connections of ", scheme(), " can't go on in another process"));
}

absl::Status CheckConnect(const Address& address,
                          const ConnectOptions& options) {
  if (address.port == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot connect to ", address.ToString(),
                     ": port 0 is for listening only"));
  }
  if (options.timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot connect to ", address.ToString(), ": the timeout ",
                     absl::FormatDuration(options.timeout), " leaves no time"));
  }
  return absl::OkStatus();
}

absl::Status CheckListen(const Address& address, const ListenOptions& options) {
  if (options.backlog < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot listen on ", address.ToString(), ": backlog ",
                     options.backlog, " is less than 1"));
  }
  return absl::OkStatus();
}

absl::StatusOr<EndpointResources> ResourcesOf(MemoryDomain& domain,
                                              ConnectOptions* options) {
  if (options->resources == nullptr) return EndpointResources();
  auto chosen = options->resources(domain);
  if (chosen.ok() && chosen->receive_queue != 0) {
    options->receive_queue = chosen->receive_queue;
  }
  return chosen;
}

absl::StatusOr<std::vector<uint8_t>> PrepareEndpoint(
    RdmaEndpoint& endpoint, const ConnectOptions& options) {
  if (options.prepare != nullptr) {
    absl::Status status = options.prepare(endpoint);
    if (!status.ok()) return status;
  }
  if (options.private_data_of == nullptr) return options.private_data;
  std::vector<uint8_t> data = options.private_data_of(endpoint);
  const size_t limit = endpoint.domain()->capabilities().max_private_data_bytes;
  if (data.size() > limit) {
    return absl::InvalidArgumentError(
        absl::StrCat(endpoint.domain()->name(), ": ", data.size(),
                     " bytes of private data exceed the limit of ", limit));
  }
  return data;
}

}  // namespace skiff::transport
