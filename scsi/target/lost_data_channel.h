#ifndef SKIFF_SCSI_TARGET_LOST_DATA_CHANNEL_H_
#define SKIFF_SCSI_TARGET_LOST_DATA_CHANNEL_H_

#include "scsi/backend/backend.h"

namespace skiff::scsi {

// Stands for the channel of a medium that may have lost data: every operation
// fails as a medium error does. Initiators give such a command up, and do not
// look for another path, on which the medium would be the same; what they read
// would be old data in place of what was acknowledged to them. INQUIRY, READ
// CAPACITY, TEST UNIT READY and others that need no medium still work.
class LostDataChannel final : public BackendChannel {
 public:
  bool Submit(IoRequest* request) override {
    request->status = request->op == IoRequest::Op::kRead
                          ? IoStatus::kReadError
                          : IoStatus::kWriteError;
    request->error_offset = request->offset;
    request->reason =
        "data that were acknowledged may be lost since a flush failed, which "
        "an operator has to clear";
    return true;
  }
};

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_TARGET_LOST_DATA_CHANNEL_H_
