#include "transport/verbs/rdma_core.h"

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "transport/system/system_library.h"

namespace skiff::transport {
namespace {

// Much of what the headers have are inline functions that call the device's
// driver. These are the others, with the versions that the headers are about.
#define SKIFF_IBVERBS(X)                                                       \
  X(void, ibv_ack_async_event, "IBVERBS_1.1", (ibv_async_event * event),       \
    (event))                                                                   \
  X(void, ibv_ack_cq_events, "IBVERBS_1.1",                                    \
    (ibv_cq * cq, unsigned int nevents), (cq, nevents))                        \
  X(ibv_pd*, ibv_alloc_pd, "IBVERBS_1.1", (ibv_context * context), (context))  \
  X(int, ibv_close_device, "IBVERBS_1.1", (ibv_context * context), (context))  \
  X(ibv_comp_channel*, ibv_create_comp_channel, "IBVERBS_1.0",                 \
    (ibv_context * context), (context))                                        \
  X(ibv_cq*, ibv_create_cq, "IBVERBS_1.1",                                     \
    (ibv_context * context, int cqe, void* cq_context,                         \
     ibv_comp_channel* channel, int comp_vector),                              \
    (context, cqe, cq_context, channel, comp_vector))                          \
  X(ibv_qp*, ibv_create_qp, "IBVERBS_1.1",                                     \
    (ibv_pd * pd, ibv_qp_init_attr * qp_init_attr), (pd, qp_init_attr))        \
  X(ibv_srq*, ibv_create_srq, "IBVERBS_1.1",                                   \
    (ibv_pd * pd, ibv_srq_init_attr * srq_init_attr), (pd, srq_init_attr))     \
  X(int, ibv_dealloc_pd, "IBVERBS_1.1", (ibv_pd * pd), (pd))                   \
  X(int, ibv_dereg_mr, "IBVERBS_1.1", (ibv_mr * mr), (mr))                     \
  X(int, ibv_destroy_comp_channel, "IBVERBS_1.0",                              \
    (ibv_comp_channel * channel), (channel))                                   \
  X(int, ibv_destroy_cq, "IBVERBS_1.1", (ibv_cq * cq), (cq))                   \
  X(int, ibv_destroy_qp, "IBVERBS_1.1", (ibv_qp * qp), (qp))                   \
  X(int, ibv_destroy_srq, "IBVERBS_1.1", (ibv_srq * srq), (srq))               \
  X(const char*, ibv_event_type_str, "IBVERBS_1.1", (ibv_event_type event),    \
    (event))                                                                   \
  X(int, ibv_fork_init, "IBVERBS_1.1", (), ())                                 \
  X(void, ibv_free_device_list, "IBVERBS_1.1", (ibv_device * *list), (list))   \
  X(int, ibv_get_async_event, "IBVERBS_1.1",                                   \
    (ibv_context * context, ibv_async_event * event), (context, event))        \
  X(int, ibv_get_cq_event, "IBVERBS_1.1",                                      \
    (ibv_comp_channel * channel, ibv_cq * *cq, void** cq_context),             \
    (channel, cq, cq_context))                                                 \
  X(int, ibv_get_device_index, "IBVERBS_1.9", (ibv_device * device), (device)) \
  X(ibv_device**, ibv_get_device_list, "IBVERBS_1.1", (int* num_devices),      \
    (num_devices))                                                             \
  X(const char*, ibv_get_device_name, "IBVERBS_1.1", (ibv_device * device),    \
    (device))                                                                  \
  X(ibv_fork_status, ibv_is_fork_initialized, "IBVERBS_1.13", (), ())          \
  X(int, ibv_modify_qp, "IBVERBS_1.1",                                         \
    (ibv_qp * qp, ibv_qp_attr * attr, int attr_mask), (qp, attr, attr_mask))   \
  X(ibv_context*, ibv_open_device, "IBVERBS_1.1", (ibv_device * device),       \
    (device))                                                                  \
  X(const char*, ibv_port_state_str, "IBVERBS_1.1",                            \
    (ibv_port_state port_state), (port_state))                                 \
  X(int, ibv_query_device, "IBVERBS_1.1",                                      \
    (ibv_context * context, ibv_device_attr * device_attr),                    \
    (context, device_attr))                                                    \
  X(int, _ibv_query_gid_ex, "IBVERBS_1.11",                                    \
    (ibv_context * context, uint32_t port_num, uint32_t gid_index,             \
     ibv_gid_entry * entry, uint32_t flags, size_t entry_size),                \
    (context, port_num, gid_index, entry, flags, entry_size))                  \
  X(ssize_t, _ibv_query_gid_table, "IBVERBS_1.11",                             \
    (ibv_context * context, ibv_gid_entry * entries, size_t max_entries,       \
     uint32_t flags, size_t entry_size),                                       \
    (context, entries, max_entries, flags, entry_size))                        \
  X(int, ibv_query_port, "IBVERBS_1.1",                                        \
    (ibv_context * context, uint8_t port_num,                                  \
     _compat_ibv_port_attr * port_attr),                                       \
    (context, port_num, port_attr))                                            \
  X(int, ibv_query_qp, "IBVERBS_1.1",                                          \
    (ibv_qp * qp, ibv_qp_attr * attr, int attr_mask,                           \
     ibv_qp_init_attr* init_attr),                                             \
    (qp, attr, attr_mask, init_attr))                                          \
  X(ibv_mr*, ibv_reg_mr, "IBVERBS_1.1",                                        \
    (ibv_pd * pd, void* addr, size_t length, int access),                      \
    (pd, addr, length, access))                                                \
  X(ibv_mr*, ibv_reg_mr_iova2, "IBVERBS_1.8",                                  \
    (ibv_pd * pd, void* addr, size_t length, uint64_t iova,                    \
     unsigned int access),                                                     \
    (pd, addr, length, iova, access))                                          \
  X(const char*, ibv_wc_status_str, "IBVERBS_1.1", (ibv_wc_status status),     \
    (status))

#define SKIFF_RDMACM(X)                                                       \
  X(int, rdma_accept, "RDMACM_1.0",                                           \
    (rdma_cm_id * id, rdma_conn_param * conn_param), (id, conn_param))        \
  X(int, rdma_ack_cm_event, "RDMACM_1.0", (rdma_cm_event * event), (event))   \
  X(int, rdma_bind_addr, "RDMACM_1.0", (rdma_cm_id * id, sockaddr * addr),    \
    (id, addr))                                                               \
  X(int, rdma_connect, "RDMACM_1.0",                                          \
    (rdma_cm_id * id, rdma_conn_param * conn_param), (id, conn_param))        \
  X(rdma_event_channel*, rdma_create_event_channel, "RDMACM_1.0", (), ())     \
  X(int, rdma_create_id, "RDMACM_1.0",                                        \
    (rdma_event_channel * channel, rdma_cm_id * *id, void* context,           \
     rdma_port_space ps),                                                     \
    (channel, id, context, ps))                                               \
  X(void, rdma_destroy_event_channel, "RDMACM_1.0",                           \
    (rdma_event_channel * channel), (channel))                                \
  X(int, rdma_destroy_id, "RDMACM_1.0", (rdma_cm_id * id), (id))              \
  X(int, rdma_disconnect, "RDMACM_1.0", (rdma_cm_id * id), (id))              \
  X(int, rdma_establish, "RDMACM_1.2", (rdma_cm_id * id), (id))               \
  X(const char*, rdma_event_str, "RDMACM_1.0", (rdma_cm_event_type event),    \
    (event))                                                                  \
  X(void, rdma_free_devices, "RDMACM_1.0", (ibv_context * *list), (list))     \
  X(int, rdma_get_cm_event, "RDMACM_1.0",                                     \
    (rdma_event_channel * channel, rdma_cm_event * *event), (channel, event)) \
  X(ibv_context**, rdma_get_devices, "RDMACM_1.0", (int* num_devices),        \
    (num_devices))                                                            \
  X(__be16, rdma_get_src_port, "RDMACM_1.0", (rdma_cm_id * id), (id))         \
  X(int, rdma_init_qp_attr, "RDMACM_1.2",                                     \
    (rdma_cm_id * id, ibv_qp_attr * qp_attr, int* qp_attr_mask),              \
    (id, qp_attr, qp_attr_mask))                                              \
  X(int, rdma_listen, "RDMACM_1.0", (rdma_cm_id * id, int backlog),           \
    (id, backlog))                                                            \
  X(int, rdma_migrate_id, "RDMACM_1.0",                                       \
    (rdma_cm_id * id, rdma_event_channel * channel), (id, channel))           \
  X(int, rdma_notify, "RDMACM_1.0", (rdma_cm_id * id, ibv_event_type event),  \
    (id, event))                                                              \
  X(int, rdma_reject, "RDMACM_1.0",                                           \
    (rdma_cm_id * id, const void* private_data, uint8_t private_data_len),    \
    (id, private_data, private_data_len))                                     \
  X(int, rdma_resolve_addr, "RDMACM_1.0",                                     \
    (rdma_cm_id * id, sockaddr * src_addr, sockaddr * dst_addr,               \
     int timeout_ms),                                                         \
    (id, src_addr, dst_addr, timeout_ms))                                     \
  X(int, rdma_resolve_route, "RDMACM_1.0", (rdma_cm_id * id, int timeout_ms), \
    (id, timeout_ms))

SKIFF_IBVERBS(SKIFF_LIBRARY_POINTER)
SKIFF_RDMACM(SKIFF_LIBRARY_POINTER)

const SystemLibrary::Function kIbverbs[] = {
    SKIFF_IBVERBS(SKIFF_LIBRARY_FUNCTION)};
const SystemLibrary::Function kRdmacm[] = {
    SKIFF_RDMACM(SKIFF_LIBRARY_FUNCTION)};

constinit SystemLibrary ibverbs("libibverbs.so.1", "libibverbs1", kIbverbs);
constinit SystemLibrary rdmacm("librdmacm.so.1", "librdmacm1", kRdmacm);

}  // namespace

absl::Status LoadRdmaCore() {
  absl::Status status = ibverbs.Load();
  return status.ok() ? rdmacm.Load() : status;
}

#define SKIFF_IBVERBS_FORWARDER(result, name, version, parameters, arguments) \
  SKIFF_LIBRARY_FORWARDER(ibverbs, result, name, parameters, arguments)
#define SKIFF_RDMACM_FORWARDER(result, name, version, parameters, arguments) \
  SKIFF_LIBRARY_FORWARDER(rdmacm, result, name, parameters, arguments)

SKIFF_IBVERBS(SKIFF_IBVERBS_FORWARDER)
SKIFF_RDMACM(SKIFF_RDMACM_FORWARDER)

}  // namespace skiff::transport
