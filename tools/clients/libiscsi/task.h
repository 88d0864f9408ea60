#ifndef SKIFF_TOOLS_CLIENTS_LIBISCSI_TASK_H_
#define SKIFF_TOOLS_CLIENTS_LIBISCSI_TASK_H_

#include <cstddef>

#include "tools/clients/libiscsi/export.h"
#include "tools/clients/libiscsi/types.h"

namespace skiff::libiscsi {

// A task for a CDB, or null without memory. It is freed with
// scsi_free_scsi_task(), which takes null.
FACE scsi_task* scsi_create_task(int cdb_size, unsigned char* cdb, int xfer_dir,
                                 int expxferlen);
FACE void scsi_free_scsi_task(scsi_task* task);
// Zeroed memory that goes with the task.
FACE void* scsi_malloc(scsi_task* task, size_t size);
FACE void scsi_task_set_iov_out(scsi_task* task, iovec* iov, int niov);
FACE void scsi_task_set_iov_in(scsi_task* task, iovec* iov, int niov);

}  // namespace skiff::libiscsi

#endif  // SKIFF_TOOLS_CLIENTS_LIBISCSI_TASK_H_
