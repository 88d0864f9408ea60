#ifndef SKIFF_TOOLS_CLIENTS_LIBISCSI_SENSE_H_
#define SKIFF_TOOLS_CLIENTS_LIBISCSI_SENSE_H_

#include <string>

#include "tools/clients/libiscsi/types.h"

namespace skiff::libiscsi {

// At least 18 bytes, of the fixed or the descriptor format (SPC-4 section 4.5).
scsi_sense ParseSense(const unsigned char* bytes);
// In libiscsi's words, which programs show.
std::string DescribeSense(const scsi_sense& sense);

}  // namespace skiff::libiscsi

#endif  // SKIFF_TOOLS_CLIENTS_LIBISCSI_SENSE_H_
