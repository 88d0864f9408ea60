#ifndef SKIFF_TOOLS_COMMON_SPIN_H_
#define SKIFF_TOOLS_COMMON_SPIN_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "transport/reactor/epoll_reactor.h"

namespace skiff::tools {

// How long a reactor polls before it sleeps: "never", "always", a duration, or
// "auto" and "auto:DURATION", which are adaptive. Sets `spin` and
// `adaptive_spin`. Errors quote the text and say what is accepted.
absl::Status ParseSpin(absl::string_view text,
                       transport::EpollReactorOptions* out);

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_COMMON_SPIN_H_
