#include "transport/verbs/cm_errors.h"

#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "transport/transport.h"
#include "transport/verbs/verbs_status.h"

namespace skiff::transport {
namespace {

// Reasons of a REJ message (InfiniBand specification, table 99) that are worth
// words.
constexpr int kRejectNoResources = 3;
constexpr int kRejectTimeout = 4;
constexpr int kRejectInvalidServiceId = 8;
constexpr int kRejectStaleConnection = 10;
constexpr int kRejectConsumerDefined = 28;

// The event's status is a negative errno, but of a rejection and on InfiniBand
// it is the reason.
absl::Status Rejected(const CmEvent& event) {
  switch (event.status) {
    case kRejectInvalidServiceId:
      return absl::UnavailableError(
          "connection refused - is a target listening there?");
    case kRejectNoResources:
      return absl::UnavailableError(
          "the peer has no resources left for a connection");
    case kRejectTimeout:
      return absl::DeadlineExceededError("the peer's handshake timed out");
    case kRejectStaleConnection:
      return absl::UnavailableError(
          "the peer still holds a connection of the same number; try again");
    case kRejectConsumerDefined:
    case -ECONNREFUSED:
    case -ECONNRESET:  // Soft-iWARP, of a reply that rejects.
      break;
    default:
      if (event.status < 0) {
        return CallError("the connection failed", -event.status);
      }
      return absl::UnavailableError(absl::StrCat(
          "the peer's connection manager rejected the connection with reason ",
          event.status));
  }
  const bool said_something =
      std::any_of(event.private_data.begin(), event.private_data.end(),
                  [](uint8_t byte) { return byte != 0; });
  // iWARP does not tell a closed port from a program that says no.
  absl::Status status = absl::UnavailableError(
      event.status == kRejectConsumerDefined || said_something
          ? "the peer rejected the connection"
          : "connection refused, or rejected by the peer - is a target "
            "listening there?");
  if (said_something) {
    status.SetPayload(
        kRejectPrivateData,
        absl::Cord(absl::string_view(
            reinterpret_cast<const char*>(event.private_data.data()),
            event.private_data.size())));
  }
  return status;
}

}  // namespace

absl::Status CmEventError(const CmEvent& event) {
  const int error = event.status < 0 ? -event.status : EIO;
  switch (event.type) {
    case RDMA_CM_EVENT_REJECTED:
      return Rejected(event);
    case RDMA_CM_EVENT_ADDR_ERROR:
      return absl::UnavailableError(
          CallError("no RDMA device leads to this address", error).message());
    case RDMA_CM_EVENT_ROUTE_ERROR:
      return absl::UnavailableError(
          CallError("no RDMA path leads to this address", error).message());
    case RDMA_CM_EVENT_UNREACHABLE:
      return absl::UnavailableError(
          "the peer does not answer - is the host up, and does it speak RDMA "
          "at this address?");
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      return absl::UnavailableError("the RDMA device was removed");
    case RDMA_CM_EVENT_DISCONNECTED:
      return absl::UnavailableError("the peer ended the connection");
    default:
      return absl::UnavailableError(
          CallError(absl::StrCat("the connection failed (",
                                 rdma_event_str(event.type), ")"),
                    error)
              .message());
  }
}

SocketAddress ToSocketAddress(const sockaddr* address) {
  SocketAddress copy;
  if (address == nullptr) return copy;
  if (address->sa_family == AF_INET) {
    copy.length = sizeof(sockaddr_in);
  } else if (address->sa_family == AF_INET6) {
    copy.length = sizeof(sockaddr_in6);
  }
  std::memcpy(&copy.storage, address, copy.length);
  return copy;
}

}  // namespace skiff::transport
