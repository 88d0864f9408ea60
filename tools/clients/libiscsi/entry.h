#ifndef SKIFF_TOOLS_CLIENTS_LIBISCSI_ENTRY_H_
#define SKIFF_TOOLS_CLIENTS_LIBISCSI_ENTRY_H_

#include "tools/clients/libiscsi/context.h"

namespace skiff::libiscsi {

// A program calls: its thread drives the context from now on. False for null,
// and with an error where the context cannot do anything now.
inline bool Enter(iscsi_context* iscsi) {
  return iscsi != nullptr && iscsi->Enter();
}

}  // namespace skiff::libiscsi

#endif  // SKIFF_TOOLS_CLIENTS_LIBISCSI_ENTRY_H_
