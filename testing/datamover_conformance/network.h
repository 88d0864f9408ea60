#ifndef SKIFF_TESTING_DATAMOVER_CONFORMANCE_NETWORK_H_
#define SKIFF_TESTING_DATAMOVER_CONFORMANCE_NETWORK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "testing/stack/stack_test_util.h"
#include "transport/reactor/epoll_reactor.h"

namespace skiff::protocol {

struct StackOptions {
  uint64_t seed = 1;
  int server_reactors = 1;
  transport::EpollReactorOptions reactors;  // Where time is real.
};

// What the scripts of this folder run over. The SCSI outcome is the same.
struct Network {
  std::string name;
  std::string data_model;  // "iSCSI" or "iSER".
  std::string transport;
  // What the name of the device begins with. Byte streams: "".
  std::string device;
  // An initiator asks for InitialR2T=Yes whatever it was told
  // (docs/iser.md#a-write).
  bool initial_r2t = false;
  std::function<std::unique_ptr<Stack>(const StackOptions&)> make_stack;

  bool rdma() const { return data_model == "iSER"; }
  std::unique_ptr<Stack> MakeStack(uint64_t seed,
                                   int server_reactors = 1) const {
    return make_stack({seed, server_reactors, {}});
  }
};

inline void PrintTo(const Network& network, std::ostream* out) {
  *out << network.name;
}

// Those of this program, and how often, with other chances each time, scripts
// are run that depend on chance. One of the libraries :simulated_networks,
// :loopback_networks and :guest_networks has them.
std::vector<Network> Networks();
uint64_t NumberOfSeeds();

// Those with RDMA.
inline std::vector<Network> RdmaNetworks() {
  std::vector<Network> networks = Networks();
  std::erase_if(networks,
                [](const Network& network) { return !network.rdma(); });
  return networks;
}

struct NetworkName {
  template <typename Info>
  std::string operator()(const Info& info) const {
    return info.param.name;
  }
};

}  // namespace skiff::protocol

#endif  // SKIFF_TESTING_DATAMOVER_CONFORMANCE_NETWORK_H_
