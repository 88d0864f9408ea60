#ifndef SKIFF_TOOLS_CLIENTS_LIBISCSI_NAMES_H_
#define SKIFF_TOOLS_CLIENTS_LIBISCSI_NAMES_H_

#include "tools/clients/libiscsi/export.h"

namespace skiff::libiscsi {

// In static memory, never null.
FACE const char* scsi_sense_key_str(int key);
FACE const char* scsi_sense_ascq_str(int ascq);

}  // namespace skiff::libiscsi

#endif  // SKIFF_TOOLS_CLIENTS_LIBISCSI_NAMES_H_
