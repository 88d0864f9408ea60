#ifndef SKIFF_BENCH_PROTOCOL_ISER_COMMAND_PATH_H_
#define SKIFF_BENCH_PROTOCOL_ISER_COMMAND_PATH_H_

#include <memory>

#include "absl/status/status.h"
#include "bench/protocol/memcpy_device.h"
#include "bench/protocol/session_pair.h"
#include "protocol/datamover/iser/iser_datamover.h"
#include "protocol/datamover/iser/iser_memory.h"

namespace skiff::protocol {

// The whole path of a command of iSER without a device: an initiator's session
// and datamover, a target's with a RAM disk, and a MemcpyDevice between them.
// The memory of commands and the disk are registered once, as whole.
class IserCommandPath final : public SessionPair {
 public:
  // The offer is made fit for iSER.
  explicit IserCommandPath(const Options& options);
  ~IserCommandPath() override;

 private:
  bool Exchange() override;
  // Registers what data come from and go to.
  absl::Status UseMemory();
  static absl::Status Connect(
      IserDatamover* mover, std::unique_ptr<transport::RdmaEndpoint> endpoint);

  MemcpyDevice device_;
  const std::unique_ptr<IserMemory> initiator_memory_;
  const std::unique_ptr<IserMemory> target_memory_;
  const std::unique_ptr<IserDatamoverOf<TargetDatamover>> target_mover_;
  const std::unique_ptr<IserDatamoverOf<InitiatorDatamover>> initiator_mover_;
};

}  // namespace skiff::protocol

#endif  // SKIFF_BENCH_PROTOCOL_ISER_COMMAND_PATH_H_
