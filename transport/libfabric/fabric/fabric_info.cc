#include "transport/libfabric/fabric/fabric_info.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "transport/libfabric/fabric/fabric_error.h"
#include "transport/libfabric/shm/shm_peer.h"

namespace skiff::transport {
namespace {

// Beyond what protocols use, and within what every counter here can hold.
constexpr size_t kMaxTransfer = size_t{1} << 30;
constexpr uint64_t kMrModes =
    FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;

// Devices before software, and what is maintained before what is not.
int Rank(const fi_info& info) {
  const absl::string_view provider = info.fabric_attr->prov_name;
  if (absl::StartsWith(provider, "verbs")) return 0;
  if (absl::StartsWith(provider, "tcp")) return 2;
  if (provider == "sockets") return 3;
  // An experimental rewrite of tcp in libfabric 1.17.
  if (absl::StartsWith(provider, "net")) return 4;
  return 1;
}

absl::Status Refused(const Address& address, bool listen, int code) {
  const absl::string_view what = listen ? "cannot listen on " : "connect ";
  return FabricStatus(code, absl::StrCat(what, address.ToString(),
                                         ": fi_getinfo finds nothing"));
}

// By a device, which looks at the key of every packet. The others look at it
// when an operation begins, and place data as they come.
bool DevicePlacesData(const fi_info& info) {
  switch (info.ep_attr->protocol) {
    case FI_PROTO_RDMA_CM_IB_RC:
    case FI_PROTO_IWARP:
      return true;
    case FI_PROTO_RXM:
      return absl::StartsWith(info.fabric_attr->prov_name, "verbs;");
    default:
      return false;
  }
}

}  // namespace

absl::StatusOr<FabricAddressOptions> ParseFabricOptions(
    const Address& address) {
  FabricAddressOptions out;
  for (const auto& [key, value] : address.options) {
    if (key == "provider") {
      out.provider = value;
    } else if (key == "domain") {
      out.domain = value;
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat(address.ToString(), ": option \"", key,
                       "\" is unknown; libfabric has provider= and domain="));
    }
  }
  return out;
}

uint32_t FabricApiVersion() { return FI_VERSION(1, 17); }

InfoPtr FabricHints(const FabricAddressOptions& options, fi_ep_type type,
                    size_t send_queue, size_t receive_queue) {
  InfoPtr hints(fi_allocinfo());
  if (hints == nullptr) return nullptr;
  const bool datagrams = type == FI_EP_RDM;
  hints->caps = FI_RMA | (datagrams ? FI_TAGGED : FI_MSG);
  // Every operation brings its own space for the provider (fi_getinfo(3)).
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = type;
  hints->addr_format = datagrams ? FI_FORMAT_UNSPEC : FI_SOCKADDR;
  hints->tx_attr->size = send_queue;
  hints->rx_attr->size = receive_queue;
  hints->domain_attr->mr_mode = kMrModes;
  if (options.provider == "shm") {
    // With virtual addresses, its READs and WRITEs go straight to the peer's
    // memory, and no key is looked at (smr_rma_fast()).
    hints->domain_attr->mr_mode &= ~FI_MR_VIRT_ADDR;
    // Counting the operations that were served.
    hints->caps |= FI_RMA_EVENT;
  }
  // Listening and accepting may happen on different threads.
  hints->domain_attr->threading = FI_THREAD_SAFE;
  // fi_freeinfo() frees the names with free().
  if (!options.provider.empty()) {
    hints->fabric_attr->prov_name = strdup(options.provider.c_str());
  }
  if (!options.domain.empty()) {
    hints->domain_attr->name = strdup(options.domain.c_str());
  }
  return hints;
}

std::string UnusableBecause(const fi_info& info) {
  const auto mode = static_cast<uint64_t>(info.domain_attr->mr_mode);
  if ((mode & ~kMrModes) != 0) {
    return absl::StrCat(
        "it registers memory in a way that is not supported here (",
        fi_tostr(&info.domain_attr->mr_mode, FI_TYPE_MR_MODE), ")");
  }
  if ((info.mode & ~(FI_CONTEXT | FI_CONTEXT2)) != 0) {
    return absl::StrCat("it asks for a mode that is not supported here (",
                        fi_tostr(&info.mode, FI_TYPE_MODE), ")");
  }
  if (info.ep_attr->rx_ctx_cnt == FI_SHARED_CONTEXT) {
    return "it has shared receive contexts only";
  }
  if (info.ep_attr->msg_prefix_size != 0) return "it wants message prefixes";
  return "";
}

InfoPtr UsableInfos(InfoPtr list) {
  std::vector<fi_info*> usable;
  for (fi_info* info = list.release(); info != nullptr;) {
    fi_info* next = std::exchange(info->next, nullptr);
    if (UnusableBecause(*info).empty()) {
      usable.push_back(info);
    } else {
      fi_freeinfo(info);
    }
    info = next;
  }
  std::stable_sort(
      usable.begin(), usable.end(),
      [](const fi_info* a, const fi_info* b) { return Rank(*a) < Rank(*b); });
  for (size_t i = 0; i + 1 < usable.size(); ++i)
    usable[i]->next = usable[i + 1];
  return InfoPtr(usable.empty() ? nullptr : usable.front());
}

bool UsesDatagrams(const FabricAddressOptions& options) {
  if (options.provider.empty()) return false;
  // Asking takes milliseconds, and the answer stays.
  static std::mutex mutex;
  static auto* known = new std::map<std::string, bool>;
  std::lock_guard<std::mutex> lock(mutex);
  const auto found = known->find(options.provider);
  if (found != known->end()) return found->second;
  for (const fi_ep_type type : {FI_EP_MSG, FI_EP_RDM}) {
    const InfoPtr hints = FabricHints(options, type, 0, 0);
    fi_info* list = nullptr;
    if (hints != nullptr && fi_getinfo(FabricApiVersion(), nullptr, nullptr, 0,
                                       hints.get(), &list) == 0) {
      fi_freeinfo(list);
      // Only of what there is: names come from addresses.
      known->emplace(options.provider, type == FI_EP_RDM);
      return type == FI_EP_RDM;
    }
  }
  return false;
}

absl::StatusOr<InfoPtr> DatagramQuery(const FabricAddressOptions& options,
                                      const std::string& host) {
  const InfoPtr hints = FabricHints(options, FI_EP_RDM, 0, 0);
  if (hints == nullptr) return absl::ResourceExhaustedError("out of memory");
  std::string node = host;
  if (options.provider == "shm") node = NewShmName();
  fi_info* list = nullptr;
  int result = fi_getinfo(FabricApiVersion(), node.c_str(), nullptr, FI_SOURCE,
                          hints.get(), &list);
  if (result != 0) {
    result =
        fi_getinfo(FabricApiVersion(), nullptr, nullptr, 0, hints.get(), &list);
  }
  const std::string what =
      absl::StrCat("libfabric ", options.provider, " at ", host);
  if (result != 0) {
    return FabricStatus(result, absl::StrCat(what, ": fi_getinfo"));
  }
  const std::string why = UnusableBecause(*list);
  InfoPtr usable = UsableInfos(InfoPtr(list));
  if (usable == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(what, ": ", why));
  }
  return usable;
}

absl::StatusOr<InfoPtr> FabricQuery(const Address& address,
                                    const FabricAddressOptions& options,
                                    bool listen) {
  const InfoPtr hints = FabricHints(options, FI_EP_MSG, 0, 0);
  if (hints == nullptr) return absl::ResourceExhaustedError("out of memory");
  const std::string port = absl::StrCat(address.port);
  fi_info* list = nullptr;
  const int result =
      fi_getinfo(FabricApiVersion(), address.host.c_str(), port.c_str(),
                 listen ? FI_SOURCE : 0, hints.get(), &list);
  if (result != 0) return Refused(address, listen, result);
  std::string why = UnusableBecause(*list);
  InfoPtr usable = UsableInfos(InfoPtr(list));
  if (usable == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat(listen ? "cannot listen on " : "connect ",
                     address.ToString(), ": no usable provider: ", why));
  }
  return usable;
}

bool IsIwarp(const fi_info& info) {
  return info.ep_attr->protocol == FI_PROTO_IWARP;
}

bool IsSoftIwarp(const fi_info& info) {
  if (!IsIwarp(info) || info.nic == nullptr ||
      info.nic->device_attr == nullptr ||
      info.nic->device_attr->vendor_id == nullptr) {
    return false;
  }
  // SIW_VENDOR_ID of the kernel's drivers/infiniband/sw/siw/siw.h.
  return absl::string_view(info.nic->device_attr->vendor_id) == "0x626d74";
}

bool IsEmulated(const fi_info& info) {
  switch (info.ep_attr->protocol) {
    case FI_PROTO_SOCK_TCP:
    case FI_PROTO_XNET:
    case FI_PROTO_UDP:
      return true;
    case FI_PROTO_RXM:
    case FI_PROTO_RXD:
      // On top of what is named first.
      return absl::StartsWith(info.fabric_attr->prov_name, "tcp;") ||
             absl::StartsWith(info.fabric_attr->prov_name, "sockets;") ||
             absl::StartsWith(info.fabric_attr->prov_name, "net;") ||
             absl::StartsWith(info.fabric_attr->prov_name, "udp;");
    default:
      return false;
  }
}

Capabilities FabricCapabilities(const fi_info& info) {
  Capabilities out;
  const fi_tx_attr& tx = *info.tx_attr;
  const fi_rx_attr& rx = *info.rx_attr;
  out.rdma = true;
  out.max_message_bytes = std::min(info.ep_attr->max_msg_size, kMaxTransfer);
  out.max_transfer_bytes = out.max_message_bytes;
  out.max_inline_bytes = tx.inject_size;
  out.max_send_sges =
      static_cast<uint32_t>(std::min(tx.iov_limit, kMaxFabricSges));
  out.max_receive_sges =
      static_cast<uint32_t>(std::min(rx.iov_limit, kMaxFabricSges));
  out.max_read_sges = IsIwarp(info) ? 1 : out.max_send_sges;
  out.max_send_queue = static_cast<uint32_t>(tx.size);
  out.max_receive_queue = static_cast<uint32_t>(rx.size);
  // libfabric does not say; requests beyond what a device can have under way
  // wait in its send queue.
  out.max_read_depth = out.max_send_queue;
  const bool chosen_here = (info.domain_attr->mr_mode & FI_MR_PROV_KEY) == 0;
  const size_t key_bytes = info.domain_attr->mr_key_size;
  out.remote_key_bits = static_cast<uint8_t>(
      8 * std::min<size_t>(key_bytes, chosen_here ? 4 : 8));
  out.receiver_not_ready_retry = !IsIwarp(info);
  out.read_sink_needs_remote_write = IsIwarp(info);
  out.serial_transfers = IsEmulated(info);
  out.deregistration_ends_access = DevicePlacesData(info);
  return out;
}

std::string FabricName(const fi_info& info) {
  return absl::StrCat("libfabric ", info.fabric_attr->prov_name, " on ",
                      info.domain_attr->name);
}

std::string FabricAddressText(uint32_t format, const void* address,
                              size_t length) {
  char text[256] = {};
  // The verbs provider says FI_SOCKADDR_IB of a request's IPv4 address.
  if (format == FI_SOCKADDR || format == FI_SOCKADDR_IN ||
      format == FI_SOCKADDR_IN6 || format == FI_SOCKADDR_IB) {
    const auto* any = static_cast<const sockaddr*>(address);
    if (length >= sizeof(sockaddr_in) && any->sa_family == AF_INET) {
      sockaddr_in in;
      std::memcpy(&in, address, sizeof(in));
      inet_ntop(AF_INET, &in.sin_addr, text, sizeof(text));
      return absl::StrCat(text, ":", ntohs(in.sin_port));
    }
    if (length >= sizeof(sockaddr_in6) && any->sa_family == AF_INET6) {
      sockaddr_in6 in;
      std::memcpy(&in, address, sizeof(in));
      inet_ntop(AF_INET6, &in.sin6_addr, text, sizeof(text));
      return absl::StrCat("[", text, "]:", ntohs(in.sin6_port));
    }
    return "unknown";
  }
  return std::string(static_cast<const char*>(address),
                     strnlen(static_cast<const char*>(address), length));
}

}  // namespace skiff::transport
