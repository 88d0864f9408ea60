#ifndef SKIFF_TESTING_STACK_EXCHANGE_TARGET_H_
#define SKIFF_TESTING_STACK_EXCHANGE_TARGET_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "scsi/initiator/command.h"
#include "scsi/target/target.h"

namespace skiff::protocol {

// A SCSI device that no disk is like: one command, whose CDB may be as long as
// iSCSI can carry, and which moves data both ways.
//
// Its CDB says how much it wants to take and to give. It gives bytes that
// depend on every byte of the CDB and of what it took (ExchangeAnswer()).
std::shared_ptr<scsi::Target> MakeExchangeTarget(const std::string& name);

// The command, with a CDB of this length: at least kMinExchangeCdb.
inline constexpr uint8_t kMinExchangeCdb = 10;
void SetExchangeCdb(uint8_t length, uint32_t takes, uint32_t gives,
                    scsi::Command* command);

// The first `size` bytes that the device gives.
std::string ExchangeAnswer(absl::string_view cdb, absl::string_view taken,
                           size_t size);

}  // namespace skiff::protocol

#endif  // SKIFF_TESTING_STACK_EXCHANGE_TARGET_H_
