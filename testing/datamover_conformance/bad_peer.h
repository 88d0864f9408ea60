#ifndef SKIFF_TESTING_DATAMOVER_CONFORMANCE_BAD_PEER_H_
#define SKIFF_TESTING_DATAMOVER_CONFORMANCE_BAD_PEER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "protocol/codec/pdu.h"
#include "testing/sim/sim_random.h"
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

// Sends one request that nobody asked for, by chance: `send` takes a PDU and
// its data. `cmd_sn` is the next one's, which immediate requests do not use up.
template <typename Send>
void SendOneOfAFlood(testing::SimRandom* random, uint32_t tag, uint32_t cmd_sn,
                     const Send& send) {
  const auto request = [&](auto pdu, const std::string& data) {
    pdu.immediate = true;
    pdu.initiator_task_tag = tag;
    pdu.cmd_sn = cmd_sn;
    send(pdu, data);
  };
  switch (random->Below(3)) {
    case 0:
      return request(NopOutPdu(), std::string(2000, 'n'));
    case 1: {
      TaskManagementRequestPdu manage;
      manage.function = static_cast<uint8_t>(1 + random->Below(5));
      manage.lun = kBadPeersLun;
      return request(manage, "");
    }
    default:
      return request(TextRequestPdu(), std::string("SendTargets=\0", 13));
  }
}

// One over a byte stream, at the portal `streams`, and one over iSER, at the
// portal of `stack`. `number` tells hosts, ports and names apart; which of its
// vices it has is a matter of chance.
std::unique_ptr<BadPeer> MakeBadStreamPeer(SimStack* stack,
                                           const std::string& streams,
                                           uint8_t number);
std::unique_ptr<BadPeer> MakeBadIserPeer(SimStack* stack, uint8_t number);

}  // namespace skiff::protocol

#endif  // SKIFF_TESTING_DATAMOVER_CONFORMANCE_BAD_PEER_H_
