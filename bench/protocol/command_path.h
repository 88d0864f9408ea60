#ifndef SKIFF_BENCH_PROTOCOL_COMMAND_PATH_H_
#define SKIFF_BENCH_PROTOCOL_COMMAND_PATH_H_

#include <chrono>
#include <memory>

#include "bench/protocol/session_pair.h"
#include "protocol/datamover/stream/stream_datamover.h"

namespace skiff::protocol {

// The whole path of a command of iSCSI without sockets: an initiator's session
// and datamover, a target's with a RAM disk, and memcpy for a network.
class CommandPath final : public SessionPair {
 public:
  explicit CommandPath(const Options& options);
  ~CommandPath() override;

 private:
  bool Exchange() override;
  bool Carry(StreamDatamover* from, StreamDatamover* to,
             std::chrono::nanoseconds* sender,
             std::chrono::nanoseconds* receiver);

  StreamBuffers initiator_buffers_;
  StreamBuffers target_buffers_;
  const std::unique_ptr<StreamDatamoverOf<TargetDatamover>> target_mover_;
  const std::unique_ptr<StreamDatamoverOf<InitiatorDatamover>> initiator_mover_;
};

}  // namespace skiff::protocol

#endif  // SKIFF_BENCH_PROTOCOL_COMMAND_PATH_H_
