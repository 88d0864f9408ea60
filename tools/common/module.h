#ifndef SKIFF_TOOLS_COMMON_MODULE_H_
#define SKIFF_TOOLS_COMMON_MODULE_H_

#include "absl/status/statusor.h"

namespace skiff::tools {

// The function `symbol` of a module: a shared object that belongs to the
// program, and that it loads where a configuration asks for what the module
// does, so that the libraries behind it are in no other process. It is looked
// for where the program's RUNPATH says, and in LD_LIBRARY_PATH; it stays loaded
// to the end. The signals that it blocks or handles stay as they are.
//
// NotFound: it is not there, or can't be loaded; the message says why, and that
// `package` has it.
absl::StatusOr<void*> LoadModule(const char* file, const char* symbol,
                                 const char* package);

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_COMMON_MODULE_H_
