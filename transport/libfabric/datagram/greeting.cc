#include "transport/libfabric/datagram/greeting.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "transport/libfabric/shm/shm_peer.h"
#include "transport/transport.h"

namespace skiff::transport {
namespace {

// The machine since its last boot; zeros if it does not say. random(4),
// proc(5): /proc/sys/kernel/random/boot_id.
std::array<uint8_t, 16> ThisHost() {
  std::array<uint8_t, 16> out = {};
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string text;
  std::getline(file, text);
  text.erase(std::remove(text.begin(), text.end(), '-'), text.end());
  if (text.size() != 2 * out.size()) return out;
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<uint8_t>(
        std::strtoul(text.substr(2 * i, 2).c_str(), nullptr, 16));
  }
  return out;
}

}  // namespace

void Introduce(const FabricDomain& domain, absl::Span<const uint8_t> address,
               HandshakeMessage* message) {
  message->host = ThisHost();
  const ShmRegionList* const readable = domain.readable();
  if (readable != nullptr && readable->descriptor() >= 0) {
    message->region_list = static_cast<uint32_t>(readable->descriptor());
  }
  message->text = domain.provider();
  message->address.assign(address.begin(), address.end());
}

absl::Status CheckGreeting(const FabricDomain& domain,
                           const HandshakeMessage& message) {
  if (message.text != domain.provider()) {
    return absl::InvalidArgumentError(
        absl::StrCat(domain.name(), ": the peer uses the provider ",
                     message.text, "; both ends need the same one"));
  }
  if (!domain.local_only()) return absl::OkStatus();
  if (message.host != ThisHost()) {
    return absl::InvalidArgumentError(
        absl::StrCat(domain.name(),
                     ": the peer is on another machine, which the "
                     "provider does not reach; use provider=tcp"));
  }
  return CheckShmPeer(message.address);
}

absl::Status WhyRejected(const FabricDomain& domain,
                         const HandshakeMessage& message) {
  absl::Status why = absl::UnavailableError(
      absl::StrCat(domain.name(), ": the peer rejected the connection",
                   message.text.empty() ? "" : ": ", message.text));
  if (!message.private_data.empty()) {
    why.SetPayload(
        kRejectPrivateData,
        absl::Cord(absl::string_view(
            reinterpret_cast<const char*>(message.private_data.data()),
            message.private_data.size())));
  }
  return why;
}

}  // namespace skiff::transport
