#ifndef SKIFF_TOOLS_CLIENTS_LIBISCSI_MODE_H_
#define SKIFF_TOOLS_CLIENTS_LIBISCSI_MODE_H_

#include "tools/clients/libiscsi/bytes.h"
#include "tools/clients/libiscsi/export.h"
#include "tools/clients/libiscsi/types.h"

namespace skiff::libiscsi {

// MODE SENSE's answer, of 6 or 10 bytes' CDBs, in memory of the task. Null if
// it is cut short.
scsi_mode_sense* UnmarshallModeSense(scsi_task* task, const Answer& answer,
                                     bool six);
// How long the whole answer is.
int ModeSenseSize(const Answer& answer, bool six);

// The parameter list of a MODE SELECT with one page, in memory of the task.
// Null for a page that is not known.
FACE scsi_data* scsi_modesense_dataout_marshall(scsi_task* task,
                                                scsi_mode_page* page,
                                                int is_modeselect6);

}  // namespace skiff::libiscsi

#endif  // SKIFF_TOOLS_CLIENTS_LIBISCSI_MODE_H_
