#include "protocol/connection/iser_capture.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace skiff::protocol {

using transport::PcapngConversation;

namespace {

// The port of `host:port`, which tells connections apart.
uint16_t PortOf(const std::string& address) {
  uint32_t port = 0;
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos ||
      !absl::SimpleAtoi(address.substr(colon + 1), &port)) {
    return 0;
  }
  return static_cast<uint16_t>(port);
}

}  // namespace

std::unique_ptr<IserTrace> MakeIserCapture(const std::string& local,
                                           const std::string& peer,
                                           transport::CaptureSink sink) {
  absl::StatusOr<PcapngConversation> conversation =
      PcapngConversation::Create(local, peer);
  if (!conversation.ok()) {
    // The greater name gets the greater address, so that both ends agree.
    const bool first = local < peer;
    conversation = PcapngConversation::Create(
        absl::StrCat(first ? "192.0.2.1:" : "192.0.2.2:", PortOf(local)),
        absl::StrCat(first ? "192.0.2.2:" : "192.0.2.1:", PortOf(peer)));
  }
  if (!conversation.ok()) return nullptr;
  return std::make_unique<IserTrace>(
      [conversation = *std::move(conversation), sink = std::move(sink)](
          bool sent, absl::string_view pdu, absl::string_view comment) mutable {
        sink(conversation.Data(sent, absl::Now(), pdu, comment));
      });
}

}  // namespace skiff::protocol
