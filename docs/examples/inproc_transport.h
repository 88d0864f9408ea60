#ifndef SKIFF_DOCS_EXAMPLES_INPROC_TRANSPORT_H_
#define SKIFF_DOCS_EXAMPLES_INPROC_TRANSPORT_H_

#include <memory>

#include "transport/transport.h"

namespace example {

// A transport of byte streams within this process, as a skeleton for your own:
// docs/transport-author-guide.md walks through it. Its addresses are
// `inproc://NAME:PORT`. Who is to meet uses the same transport object.
// Thread-safe.
std::unique_ptr<skiff::transport::Transport> MakeInprocTransport();

}  // namespace example

#endif  // SKIFF_DOCS_EXAMPLES_INPROC_TRANSPORT_H_
