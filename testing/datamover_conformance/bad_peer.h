#ifndef SKIFF_TESTING_DATAMOVER_CONFORMANCE_BAD_PEER_H_
#define SKIFF_TESTING_DATAMOVER_CONFORMANCE_BAD_PEER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "testing/stack/end_to_end_test_util.h"

namespace skiff::protocol {

// One initiator that misbehaves, on a host of its own.
class BadPeer {
 public:
  virtual ~BadPeer() = default;
  // The next of what it does.
  virtual void Act() = 0;
};

// What of the disk they use.
inline constexpr uint64_t kBadPeersLun = uint64_t{2} << 48;

// One over a byte stream, at the portal `streams`, and one over iSER, at the
// portal of `stack`. `number` tells hosts, ports and names apart; which of its
// vices it has is a matter of chance.
std::unique_ptr<BadPeer> MakeBadStreamPeer(SimStack* stack,
                                           const std::string& streams,
                                           uint8_t number);
std::unique_ptr<BadPeer> MakeBadIserPeer(SimStack* stack, uint8_t number);

}  // namespace skiff::protocol

#endif  // SKIFF_TESTING_DATAMOVER_CONFORMANCE_BAD_PEER_H_
