#include "bench/transport/linked_transport.h"

namespace skiff::bench {
namespace {

// Never destroyed, and made when it is first used: other objects are made
// before main(), too.
std::vector<LinkedTransport>& Linked() {
  static auto* const kLinked = new std::vector<LinkedTransport>;
  return *kLinked;
}

}  // namespace

LinkedTransport::LinkedTransport(Make make, Urls urls)
    : make(make), urls(urls) {
  Linked().push_back(*this);
}

const std::vector<LinkedTransport>& LinkedTransports() { return Linked(); }

}  // namespace skiff::bench
