// The transport of this folder, for skiff-bench: linked with
// //bench/skiff_bench:benches, it is a program that measures it.
#include <string>
#include <vector>

#include "bench/transport/linked_transport.h"
#include "inproc_transport.h"

namespace {

const skiff::bench::LinkedTransport kLinked(example::MakeInprocTransport, [] {
  return std::vector<std::string>{"inproc://bench:0"};
});

}  // namespace
