#include "scsi/target/give_up_data.h"

namespace skiff::scsi {

bool GiveUpData(TargetPort& port, Task* task) {
  if (!task->receiving || task->terminate || task->late ||
      task->transfers == 0 || task->in_flight != task->transfers) {
    return false;
  }
  task->late = true;
  port.CancelTransfers(task);
  return true;
}

}  // namespace skiff::scsi
