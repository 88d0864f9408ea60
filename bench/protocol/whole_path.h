#ifndef SKIFF_BENCH_PROTOCOL_WHOLE_PATH_H_
#define SKIFF_BENCH_PROTOCOL_WHOLE_PATH_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "bench/protocol/command_batch.h"
#include "protocol/initiator/initiator.h"
#include "protocol/target/target_server.h"
#include "testing/sim/sim_world.h"
#include "transport/reactor/epoll_reactor.h"
#include "transport/registry.h"

namespace skiff::protocol {

// The whole path of a command of iSER as programs have it: an Initiator and a
// TargetServer with a RAM disk, in one thread. The memory of commands and the
// disk are registered once, as whole.
class WholePath final : public CommandRunner {
 public:
  enum class Network : uint8_t {
    kSimulated,     // Virtual time; devices like those of InfiniBand.
    kLibfabricTcp,  // libfabric's provider `tcp`, loopback, polled.
  };
  struct Options {
    Network network = Network::kSimulated;
    uint32_t queue_depth = 32;
    uint32_t bytes = 4096;  // Of each command.
    bool immediate_data = true;
    // RdmaPolicy::lasting_keys, where there are no memory windows.
    bool lasting_keys = false;
  };

  explicit WholePath(const Options& options);
  ~WholePath() override;

  // CommandRunner:
  bool RunBatch(bool write) override;
  CommandBatch& batch() override { return batch_; }
  ConnectionCounters InitiatorCounters() override {
    return initiator_->connection().counters;
  }
  ConnectionCounters TargetCounters() override;
  const std::string& failure() const override { return failure_; }

  std::string data_model() const { return initiator_->data_model(); }

 private:
  void MakeNetwork(Network network);
  absl::Status StartServer(uint64_t disk_bytes);
  void LogIn(const Options& options);
  // Turns both ends until `done`; false if that takes too long.
  bool TurnUntil(absl::FunctionRef<bool()> done);

  CommandBatch batch_;
  std::unique_ptr<testing::SimWorld> world_;              // One of these
  std::unique_ptr<transport::EpollReactor> own_reactor_;  // is null.
  transport::Reactor* client_reactor_ = nullptr;
  transport::Reactor* server_reactor_ = nullptr;
  transport::Registry registry_;
  transport::Address portal_;
  std::unique_ptr<TargetServer> server_;
  std::unique_ptr<Initiator> initiator_;
  std::string failure_;
};

}  // namespace skiff::protocol

#endif  // SKIFF_BENCH_PROTOCOL_WHOLE_PATH_H_
