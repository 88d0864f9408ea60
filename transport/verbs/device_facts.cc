#include "transport/verbs/device_facts.h"

#include <arpa/inet.h>
#include <rdma/rdma_cma.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "transport/verbs/verbs_status.h"

namespace skiff::transport {
namespace {

// More than any device offers.
constexpr uint32_t kInlineSearchLimit = 4096;
// Their ibv_device_attr::vendor_id; their names may be any.
constexpr uint32_t kSoftIwarpVendor = 0x626d74;
constexpr uint32_t kSoftRoceVendor = 0xffffff;

bool SupportsInline(ibv_pd* pd, ibv_cq* cq, uint32_t bytes) {
  ibv_qp_init_attr attr = {};
  attr.send_cq = cq;
  attr.recv_cq = cq;
  attr.qp_type = IBV_QPT_RC;
  attr.cap.max_send_wr = 1;
  attr.cap.max_recv_wr = 1;
  attr.cap.max_send_sge = 1;
  attr.cap.max_recv_sge = 1;
  attr.cap.max_inline_data = bytes;
  ibv_qp* qp = ibv_create_qp(pd, &attr);
  if (qp == nullptr) return false;
  ibv_destroy_qp(qp);
  return true;
}

// By bisection, as there is no attribute for it.
uint32_t FindMaxInline(ibv_context* context) {
  ibv_pd* pd = ibv_alloc_pd(context);
  if (pd == nullptr) return 0;
  uint32_t found = 0;
  if (ibv_cq* cq = ibv_create_cq(context, 2, nullptr, nullptr, 0)) {
    uint32_t refused = kInlineSearchLimit;
    while (found + 1 < refused) {
      const uint32_t middle = (found + refused) / 2;
      (SupportsInline(pd, cq, middle) ? found : refused) = middle;
    }
    ibv_destroy_cq(cq);
  }
  ibv_dealloc_pd(pd);
  return found;
}

}  // namespace

absl::StatusOr<DeviceFacts> QueryDevice(ibv_context* context) {
  DeviceFacts facts;
  facts.name = ibv_get_device_name(context->device);
  facts.iwarp = context->device->transport_type == IBV_TRANSPORT_IWARP;
  int error = ibv_query_device(context, &facts.device);
  if (error != 0) {
    return CallError(absl::StrCat("cannot query ", facts.name), error);
  }
  facts.soft_iwarp = facts.iwarp && facts.device.vendor_id == kSoftIwarpVendor;
  facts.soft_roce = !facts.iwarp && facts.device.vendor_id == kSoftRoceVendor;
  for (int port = 1; port <= facts.device.phys_port_cnt; ++port) {
    ibv_port_attr attr = {};
    error = ibv_query_port(context, static_cast<uint8_t>(port), &attr);
    if (error != 0) {
      return CallError(
          absl::StrCat("cannot query ", facts.name, " port ", port), error);
    }
    facts.max_message_bytes =
        std::max<size_t>(facts.max_message_bytes, attr.max_msg_sz);
    facts.ports.push_back(attr);
  }
  facts.max_inline_bytes = FindMaxInline(context);
  return facts;
}

Capabilities ToCapabilities(const DeviceFacts& facts) {
  const ibv_device_attr& device = facts.device;
  const auto count = [](int number) {
    return static_cast<uint32_t>(std::max(number, 0));
  };
  Capabilities caps;
  caps.rdma = true;
  caps.max_message_bytes = facts.max_message_bytes;
  caps.max_transfer_bytes = facts.max_message_bytes;
  caps.max_inline_bytes = facts.max_inline_bytes;
  caps.max_send_sges = count(device.max_sge);
  caps.max_receive_sges = count(device.max_sge);
  // RFC 5040 section 5.2.1: a Read Request names one sink.
  caps.max_read_sges =
      facts.iwarp ? 1
      : device.max_sge_rd > 0
          ? std::min(count(device.max_sge_rd), count(device.max_sge))
          : count(device.max_sge);
  // The connection manager's numbers have eight bits.
  caps.max_read_depth =
      std::min({count(device.max_qp_rd_atom), count(device.max_qp_init_rd_atom),
                uint32_t{RDMA_MAX_RESP_RES - 1}});
  caps.max_send_queue = count(std::min(device.max_qp_wr, device.max_cqe));
  caps.max_receive_queue = caps.max_send_queue;
  caps.max_private_data_bytes = PrivateDataLimit(facts.iwarp);
  caps.remote_key_bits = 32;
  const unsigned int windows =
      IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
  caps.memory_windows = (device.device_cap_flags & windows) != 0;
  // Soft-iWARP's provider neither passes the key on nor tells the receiver.
  caps.send_with_invalidate =
      !facts.soft_iwarp &&
      (caps.memory_windows ||
       (device.device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS) != 0);
  caps.shared_receive_queue = device.max_srq > 0;
  caps.receiver_not_ready_retry = !facts.iwarp;
  caps.read_sink_needs_remote_write = facts.iwarp;
  caps.deregistration_ends_access = true;
  return caps;
}

size_t PrivateDataLimit(bool iwarp) {
  // rdma_connect(3): 56 bytes of RDMA_PS_TCP's 92 are the caller's. MPA takes
  // 512 (RFC 5044 section 7.1) and the connection manager's call 255, but
  // Soft-iWARP counts in eight bits, of which MPA's own data (RFC 6581) take
  // four bytes.
  return iwarp ? 251 : 56;
}

size_t RejectDataLimit(bool iwarp) { return iwarp ? 251 : 148; }

std::string GidAddress(const union ibv_gid& gid) {
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(AF_INET6, gid.raw, text, sizeof(text));
  return text;
}

std::string GidToString(const ibv_gid_entry& entry) {
  const char* type = entry.gid_type == IBV_GID_TYPE_ROCE_V1   ? "RoCE v1 GID "
                     : entry.gid_type == IBV_GID_TYPE_ROCE_V2 ? "RoCE v2 GID "
                                                              : "GID ";
  return absl::StrCat(type, GidAddress(entry.gid), " (index ", entry.gid_index,
                      ")");
}

uint32_t MtuBytes(ibv_mtu mtu) {
  return mtu < IBV_MTU_256 || mtu > IBV_MTU_4096 ? 0 : 128u << mtu;
}

std::string MtuToString(ibv_mtu mtu) {
  const uint32_t bytes = MtuBytes(mtu);
  return bytes == 0 ? "unknown" : absl::StrCat(bytes);
}

}  // namespace skiff::transport
