#ifndef SKIFF_TOOLS_CLIENTS_LIBISCSI_SEND_H_
#define SKIFF_TOOLS_CLIENTS_LIBISCSI_SEND_H_

#include "tools/clients/libiscsi/export.h"
#include "tools/clients/libiscsi/types.h"

// libiscsi has each command up to four times: with a callback or waiting, with
// iovecs or without.
namespace skiff::libiscsi {

// Where data come from or go to, beside what the task has.
struct Data {
  iscsi_data out = {};
  iovec* iov = nullptr;
  int niov = 0;
};

// Sends a task that was just made; null, with an error, and the task is freed.
scsi_task* Send(iscsi_context* iscsi, int lun, scsi_task* task, Data data,
                iscsi_command_cb cb, void* private_data);
// Waits for it, too.
scsi_task* SendAndWait(iscsi_context* iscsi, int lun, scsi_task* task,
                       Data data);

inline iscsi_data NoData() { return {}; }
inline iscsi_data OutData(unsigned char* data, uint32_t size) {
  return {size, data};
}

}  // namespace skiff::libiscsi

// NOLINTBEGIN(bugprone-macro-parentheses): parameters of functions.
#define SKIFF_FACE_UNWRAP(...) __VA_ARGS__

// `params`: those after the LUN, in parentheses, with a comma before each;
// `make` makes the task, and `out` are the data that go with it.
#define SKIFF_FACE_COMMAND(name, params, make, out)                       \
  FACE scsi_task* iscsi_##name##_task(                                    \
      iscsi_context* iscsi, int lun SKIFF_FACE_UNWRAP params,             \
      iscsi_command_cb cb, void* private_data) {                          \
    return Send(iscsi, lun, make, {out, nullptr, 0}, cb, private_data);   \
  }                                                                       \
  FACE scsi_task* iscsi_##name##_sync(iscsi_context* iscsi,               \
                                      int lun SKIFF_FACE_UNWRAP params) { \
    return SendAndWait(iscsi, lun, make, {out, nullptr, 0});              \
  }

// With its variants for iovecs.
#define SKIFF_FACE_COMMAND_IOV(name, params, make, out)                     \
  SKIFF_FACE_COMMAND(name, params, make, out)                               \
  FACE scsi_task* iscsi_##name##_iov_task(                                  \
      iscsi_context* iscsi, int lun SKIFF_FACE_UNWRAP params,               \
      iscsi_command_cb cb, void* private_data, iovec* iov, int niov) {      \
    return Send(iscsi, lun, make, {out, iov, niov}, cb, private_data);      \
  }                                                                         \
  FACE scsi_task* iscsi_##name##_iov_sync(iscsi_context* iscsi,             \
                                          int lun SKIFF_FACE_UNWRAP params, \
                                          iovec* iov, int niov) {           \
    return SendAndWait(iscsi, lun, make, {out, iov, niov});                 \
  }
// NOLINTEND(bugprone-macro-parentheses)

#endif  // SKIFF_TOOLS_CLIENTS_LIBISCSI_SEND_H_
