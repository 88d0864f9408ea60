#ifndef SKIFF_TOOLS_CLIENTS_LIBISCSI_ENTRY_H_
#define SKIFF_TOOLS_CLIENTS_LIBISCSI_ENTRY_H_

#include "tools/clients/libiscsi/context.h"

namespace skiff::libiscsi {

// A program calls: its thread drives the context from now on. False for null.
inline bool Enter(iscsi_context* iscsi) {
  if (iscsi == nullptr) return false;
  iscsi->Adopt();
  return true;
}

}  // namespace skiff::libiscsi

#endif  // SKIFF_TOOLS_CLIENTS_LIBISCSI_ENTRY_H_
