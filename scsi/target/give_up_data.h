#ifndef SKIFF_SCSI_TARGET_GIVE_UP_DATA_H_
#define SKIFF_SCSI_TARGET_GIVE_UP_DATA_H_

#include "scsi/target/task.h"

namespace skiff::scsi {

// Ends a task of `port` that waits for nothing but its initiator's data, soon.
// False: this one does not.
//
// With a response, unlike an abort: the initiator may be well, and its data
// only late. ABORTED COMMAND tells it to try again (SPC-4 section 4.5.6). Data
// that still come are the port's to drop.
bool GiveUpData(TargetPort& port, Task* task);

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_TARGET_GIVE_UP_DATA_H_
