#ifndef SKIFF_TRANSPORT_LIBFABRIC_FABRIC_RECEIVE_SINKS_H_
#define SKIFF_TRANSPORT_LIBFABRIC_FABRIC_RECEIVE_SINKS_H_

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "transport/libfabric/fabric/fabric_domain.h"
#include "transport/libfabric/fabric/fabric_work.h"

namespace skiff::transport {

// Room behind RECEIVEs, where FabricDomain::needs_sink(). The shm provider
// reads a long message out of the sender's memory until all of it is there, and
// goes round for ever where the RECEIVE is too short (smr_cma_loop()). So there
// is always room: the domain's sink, or, if all pieces are taken, a copy of the
// last one with as much behind it.
class ReceiveSinks {
 public:
  // RECEIVEs have numbers below `indices`; no message is longer than `longest`.
  ReceiveSinks(const FabricDomain& domain, size_t longest, uint32_t indices)
      : domain_(domain), longest_(longest), indices_(indices) {}

  // Makes room behind `work`, the RECEIVE of that index. Returns how many bytes
  // it has without.
  uint32_t Add(uint32_t index, FabricWork* work);
  // It has its message: what belongs into its last piece goes there.
  void Received(uint32_t index, size_t bytes) {
    if (!last_pieces_.empty()) TakeFromLastPiece(index, bytes);
  }

 private:
  struct LastPiece {
    std::vector<uint8_t> memory;
    iovec real = {};    // Where the first bytes belong; null when unused.
    size_t before = 0;  // Bytes of the pieces before it.
  };

  void TakeFromLastPiece(uint32_t index, size_t bytes);

  const FabricDomain& domain_;
  const size_t longest_;
  const uint32_t indices_;
  // By the index; empty until all pieces of one are taken.
  std::vector<std::unique_ptr<LastPiece>> last_pieces_;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_FABRIC_RECEIVE_SINKS_H_
