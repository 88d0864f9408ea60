#ifndef SKIFF_TOOLS_SKIFFD_TABLES_H_
#define SKIFF_TOOLS_SKIFFD_TABLES_H_

#include <string>
#include <vector>

#include "protocol/target/target_server.h"
#include "scsi/target/target.h"

namespace skiff::tools::skiffd {

// For people, and not for programs: they may change.

// The logical units of a target as lines: what they are, what failed, and what
// initiators did.
std::vector<std::string> LunTable(const scsi::Target& target);

// The sessions as lines of a table, headings first.
std::vector<std::string> SessionTable(
    const std::vector<protocol::SessionInfo>& sessions);
// What the server keeps for them, the same way.
std::vector<std::string> MemoryTable(const protocol::ServerMemory& memory);

}  // namespace skiff::tools::skiffd

#endif  // SKIFF_TOOLS_SKIFFD_TABLES_H_
