#ifndef SKIFF_BENCH_TRANSPORT_LINKED_TRANSPORT_H_
#define SKIFF_BENCH_TRANSPORT_LINKED_TRANSPORT_H_

#include <memory>
#include <string>
#include <vector>

#include "transport/transport.h"

namespace skiff::bench {

// A transport that is measured by every program of this folder that it is
// linked into. An object of this type, before main() runs, is all it takes:
//
//   const LinkedTransport kMine(MakeMyTransport, [] {
//     return std::vector<std::string>{"mine://somewhere:0"};
//   });
struct LinkedTransport {
  // Makes the transport, once for the program.
  using Make = std::unique_ptr<transport::Transport> (*)();
  // URLs to listen on (port 0) that are worth a try on this machine.
  using Urls = std::vector<std::string> (*)();

  // Adds itself; has to stay until the program ends.
  LinkedTransport(Make make, Urls urls);

  Make make;
  Urls urls;
};

// In the order in which they were linked.
const std::vector<LinkedTransport>& LinkedTransports();

}  // namespace skiff::bench

#endif  // SKIFF_BENCH_TRANSPORT_LINKED_TRANSPORT_H_
