#ifndef SKIFF_TOOLS_CLIENTS_LIBISCSI_INQUIRY_H_
#define SKIFF_TOOLS_CLIENTS_LIBISCSI_INQUIRY_H_

#include "tools/clients/libiscsi/bytes.h"
#include "tools/clients/libiscsi/types.h"

namespace skiff::libiscsi {

// INQUIRY's answer, standard data or a VPD page, as libiscsi's struct of it in
// memory of the task. Null for pages that libiscsi has none for.
void* UnmarshallInquiry(scsi_task* task, const Answer& answer, bool vpd,
                        int page_code);

}  // namespace skiff::libiscsi

#endif  // SKIFF_TOOLS_CLIENTS_LIBISCSI_INQUIRY_H_
