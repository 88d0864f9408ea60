// What libiscsi 1.19 needs to survive more than one login over iSER in a
// process, for LD_PRELOAD. Its faults are worked around here, beside the
// library, and not in Skiff; later versions have some of them corrected.

#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>

namespace {

constexpr int kSecondsToEnd = 5;
constexpr size_t kPage = 4096;
constexpr size_t kDataBuffer = 256 << 10;  // DATA_BUFFER_SIZE

// The function of that name that this library hides.
template <typename Function>
Function* Hidden(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

// librdmacm's connections that are not destroyed yet, and libiscsi's contexts
// that they are of.
std::map<const void*, const void*>& Connections() {
  static auto* connections = new std::map<const void*, const void*>;
  return *connections;
}

bool IsConnected(const void* context) {
  for (const auto& connection : Connections()) {
    if (connection.second == context) {
      return true;
    }
  }
  return false;
}

}  // namespace

// Their names are those of what they replace.
// NOLINTBEGIN(readability-identifier-naming)
extern "C" {

// iscsi_init_iser_transport() takes the memory of its connection for zero.
// The buffers of iser_reg_mr() begin at a page: Soft-iWARP sends other bytes
// than these of up to 32 that lie on two pages, when they are the answer to an
// RDMA Read Request (siw_try_1seg()).
void* malloc(size_t size) {
  if (size < kDataBuffer) {
    return calloc(1, size);
  }
  void* memory = nullptr;
  return posix_memalign(&memory, kPage, size) == 0 ? memset(memory, 0, size)
                                                   : nullptr;
}

// iser_free_iser_conn_res() cancels cm_thread() and frees what that still uses.
// The thread ends by itself when it hears that the connection is disconnected,
// and not between an event and its acknowledgement, for which rdma_destroy_id()
// would wait.
int pthread_cancel(pthread_t th) {
  timespec until{};
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += kSecondsToEnd;
  if (pthread_timedjoin_np(th, nullptr, &until) == 0) {
    return 0;
  }
  // It never connected, and so waits for events still.
  const int result = Hidden<int(pthread_t)>("pthread_cancel")(th);
  pthread_join(th, nullptr);
  return result;
}

int rdma_create_id(void* channel, void** id, void* context, int port_space) {
  const int result = Hidden<int(void*, void**, void*, int)>("rdma_create_id")(
      channel, id, context, port_space);
  if (result == 0) {
    Connections()[*id] = context;
  }
  return result;
}

int rdma_destroy_id(void* id) {
  Connections().erase(id);
  return Hidden<int(void*)>("rdma_destroy_id")(id);
}

// iscsi_destroy_context() disconnects contexts with a file descriptor only,
// which those of iSER do not have: it frees the connection while cm_thread()
// goes on. That posts the semaphore of the next connection at this place, which
// then fails (iscsi_iser_connect(), "Conn disconnected event"), or uses what is
// not there any more.
int iscsi_destroy_context(void* context) {
  if (IsConnected(context)) {
    Hidden<int(void*)>("iscsi_disconnect")(context);
  }
  return Hidden<int(void*)>("iscsi_destroy_context")(context);
}

// event_loop() waits for a second and says then that nothing happened, by which
// iscsi_iser_service() fails ("revents is not POLLIN"). In a guest, a login may
// take longer.
int poll(pollfd* fds, nfds_t nfds, int timeout) {
  return Hidden<int(pollfd*, nfds_t, int)>("poll")(fds, nfds,
                                                   timeout > 0 ? -1 : timeout);
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
