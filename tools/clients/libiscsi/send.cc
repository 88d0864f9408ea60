#include "tools/clients/libiscsi/send.h"

#include "tools/clients/libiscsi/context.h"
#include "tools/clients/libiscsi/entry.h"
#include "tools/clients/libiscsi/task.h"

namespace skiff::libiscsi {
namespace {

// 0, or -1 and the task is still the caller's.
int Submit(iscsi_context* iscsi, int lun, scsi_task* task, Data data,
           iscsi_command_cb cb, void* private_data) {
  if (task == nullptr) {
    return iscsi->Fail("these arguments do not fit into the command");
  }
  if (data.iov != nullptr && task->xfer_dir == kTransferIn) {
    scsi_task_set_iov_in(task, data.iov, data.niov);
  } else if (data.iov != nullptr) {
    scsi_task_set_iov_out(task, data.iov, data.niov);
    data.out = {};
  }
  return iscsi->Submit(lun, task, cb, &data.out, private_data);
}

}  // namespace

scsi_task* Send(iscsi_context* iscsi, int lun, scsi_task* task, Data data,
                iscsi_command_cb cb, void* private_data) {
  if (Enter(iscsi) && Submit(iscsi, lun, task, data, cb, private_data) == 0) {
    return task;
  }
  scsi_free_scsi_task(task);
  return nullptr;
}

scsi_task* SendAndWait(iscsi_context* iscsi, int lun, scsi_task* task,
                       Data data) {
  Outcome outcome;
  if (Send(iscsi, lun, task, data, Outcome::Note, &outcome) == nullptr) {
    return nullptr;
  }
  iscsi->TurnUntil(&outcome.finished);
  return task;
}

FACE int iscsi_scsi_command_async(iscsi_context* iscsi, int lun,
                                  scsi_task* task, iscsi_command_cb cb,
                                  iscsi_data* data, void* private_data) {
  if (!Enter(iscsi)) return -1;
  return iscsi->Submit(lun, task, cb, data, private_data);
}

FACE scsi_task* iscsi_scsi_command_sync(iscsi_context* iscsi, int lun,
                                        scsi_task* task, iscsi_data* data) {
  Outcome outcome;
  if (!Enter(iscsi) ||
      iscsi->Submit(lun, task, Outcome::Note, data, &outcome) != 0) {
    return nullptr;
  }
  iscsi->TurnUntil(&outcome.finished);
  return task;
}

FACE int iscsi_scsi_cancel_task(iscsi_context* iscsi, scsi_task* task) {
  if (!Enter(iscsi) || task == nullptr) return -1;
  return iscsi->Cancel(task);
}

FACE void iscsi_scsi_cancel_all_tasks(iscsi_context* iscsi) {
  if (Enter(iscsi)) iscsi->CancelAll();
}

}  // namespace skiff::libiscsi
