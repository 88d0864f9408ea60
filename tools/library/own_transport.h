#ifndef SKIFF_TOOLS_LIBRARY_OWN_TRANSPORT_H_
#define SKIFF_TOOLS_LIBRARY_OWN_TRANSPORT_H_

#include <skiff/common.h>

#include <memory>

#include "absl/base/config.h"
#include "transport/transport.h"

namespace skiff::library {

/// The name as text; of this header only.
#define SKIFF_OWN_TRANSPORT_TEXT_(name) #name
/// The same of what the name is defined as.
#define SKIFF_OWN_TRANSPORT_TEXT(name) SKIFF_OWN_TRANSPORT_TEXT_(name)
// What a transport is compiled with. A library with another one refuses it: the
// interface of transports is C++, and compatible as source only.
inline constexpr char kTransportInterface[] =
    "Skiff " SKIFF_VERSION
    ", absl::" SKIFF_OWN_TRANSPORT_TEXT(ABSL_OPTION_INLINE_NAMESPACE_NAME)
#ifdef _GLIBCXX_DEBUG
        ", _GLIBCXX_DEBUG"
#endif
    ;
#undef SKIFF_OWN_TRANSPORT_TEXT
#undef SKIFF_OWN_TRANSPORT_TEXT_

// For skiff_context_options::transports: a transport that every context made
// with it has, one object for each.
//
//   const skiff_own_transport own = OwnTransport<MakeMyTransport>();
//   options.transports = &own;
//   options.transport_count = 1;
//
// `kMake` runs in skiff_context_create(); null says that it cannot be made. The
// transport is destroyed after everything that the context has connected.
template <std::unique_ptr<transport::Transport> (*kMake)()>
skiff_own_transport OwnTransport() {
  return {kTransportInterface,
          [](void* /*user*/) noexcept -> void* { return kMake().release(); },
          nullptr};
}

}  // namespace skiff::library

#endif  // SKIFF_TOOLS_LIBRARY_OWN_TRANSPORT_H_
