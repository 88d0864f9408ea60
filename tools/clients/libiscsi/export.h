#ifndef SKIFF_TOOLS_CLIENTS_LIBISCSI_EXPORT_H_
#define SKIFF_TOOLS_CLIENTS_LIBISCSI_EXPORT_H_

// A function that programs find by libiscsi's name for it. libiscsi.map lets
// out these names alone.
#define FACE extern "C" __attribute__((visibility("default")))

#endif  // SKIFF_TOOLS_CLIENTS_LIBISCSI_EXPORT_H_
