#include "transport/net/resolver.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace skiff::transport {
namespace {

BackgroundThreads threads(NameLookup::kMaxThreads, "lookups");

}  // namespace

absl::StatusOr<std::unique_ptr<NameLookup>> NameLookup::Start(
    Reactor* reactor, const std::string& host, uint16_t port, Callback done) {
  if (auto literal = ParseLiteral(host, port)) {
    return std::unique_ptr<NameLookup>(new NameLookup(Call::Completed(
        reactor, std::vector<SocketAddress>{*literal}, std::move(done))));
  }
  auto call = Call::Start(
      reactor, &threads, [host, port] { return Resolve(host, port); },
      std::move(done));
  if (!call.ok()) {
    return absl::Status(
        call.status().code(),
        absl::StrCat("cannot resolve \"", host, "\": ", call.status().message(),
                     ", or use a numeric address"));
  }
  return std::unique_ptr<NameLookup>(new NameLookup(*std::move(call)));
}

}  // namespace skiff::transport
