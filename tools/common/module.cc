#include "tools/common/module.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"
#include "transport/system/system_library.h"

namespace skiff::tools {

absl::StatusOr<void*> LoadModule(const char* file, const char* symbol,
                                 const char* package) {
  const transport::KeptSignals signals;
  void* const module = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  void* const function = module == nullptr ? nullptr : dlsym(module, symbol);
  if (function != nullptr) return function;
  const char* const why = dlerror();
  return absl::NotFoundError(absl::StrCat(
      "cannot load ", file, ": ", why == nullptr ? "unknown error" : why,
      "; it is in Debian's package ", package,
      ", or where tools/install puts it: below the program's ../lib/skiff"));
}

}  // namespace skiff::tools
