#ifndef SKIFF_TOOLS_SKIFFD_MANAGEMENT_LISTS_H_
#define SKIFF_TOOLS_SKIFFD_MANAGEMENT_LISTS_H_

#include <string>

#include "absl/strings/string_view.h"
#include "protocol/target/target_server.h"
#include "scsi/target/command_counts.h"
#include "tools/management/management.pb.h"
#include "tools/skiffd/daemon.h"
#include "transport/transport.h"

namespace skiff::tools::skiffd {

// What runs, in the words of management.proto.

// The text, with U+FFFD for bytes that are no UTF-8: peers say what they like.
std::string ValidUtf8(absl::string_view text);

// Of a session, or a LUN.
management::v1::Commands CommandsOf(const scsi::CommandCounts& counts);
management::v1::Session SessionOf(const protocol::SessionInfo& info);
management::v1::Lun LunOf(const Daemon::ServedLun& lun);
management::v1::Device DeviceOf(const std::string& transport,
                                const transport::DeviceReport& report);

}  // namespace skiff::tools::skiffd

#endif  // SKIFF_TOOLS_SKIFFD_MANAGEMENT_LISTS_H_
