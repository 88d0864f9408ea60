#ifndef SKIFF_SCSI_INITIATOR_LUN_LOOKUP_H_
#define SKIFF_SCSI_INITIATOR_LUN_LOOKUP_H_

#include <sys/uio.h>

#include <cstdint>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "scsi/initiator/retrying_command.h"

namespace skiff::scsi {

// Finds out how a target writes the number of a logical unit, by REPORT LUNS.
// Numbers up to 255 have one form. Above, the standard's form is flat space
// addressing (SAM-5 section 4.7.7.3), but some targets know theirs only in the
// form in which they list it. Lives on one reactor.
class LunLookup {
 public:
  // Which numbers are worth the question.
  static bool Needed(uint32_t number) { return number > 255; }

  // Asks LUN 0 by `port`. `port` and `reactor` outlive it.
  LunLookup(CommandPort* port, transport::Reactor* reactor,
            const RetryOptions& retry);
  LunLookup(const LunLookup&) = delete;
  LunLookup& operator=(const LunLookup&) = delete;
  ~LunLookup() = default;  // Only when not running.

  // `done` gets Command::lun for `number`: the standard's form where the target
  // does not list it, or does not answer. Once, never from inside the call; it
  // may not destroy this. Only when not running.
  void Start(uint32_t number, absl::AnyInvocable<void(uint64_t lun)> done);
  // Gives up: `done` runs soon, perhaps from inside the call.
  void Stop() { command_.Stop(); }
  bool running() const { return command_.running(); }

 private:
  uint64_t Answer() const;

  const RetryingCommand::Environment environment_;
  RetryingCommand command_;
  uint32_t number_ = 0;
  std::vector<uint8_t> list_;
  iovec room_ = {};
  absl::AnyInvocable<void(uint64_t lun)> done_;
};

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_INITIATOR_LUN_LOOKUP_H_
