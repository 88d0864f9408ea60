#ifndef SKIFF_TOOLS_SKIFFCTL_TABLES_H_
#define SKIFF_TOOLS_SKIFFCTL_TABLES_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tools/management/management.pb.h"

namespace skiff::tools::skiffctl {

// Rows of cells, headings first, in columns as wide as they have to be. Lines
// end in a newline. What could deceive is escaped (Printable()).
std::string Table(const std::vector<std::vector<std::string>>& rows);

// For people: these may change.
std::string TableOf(const management::v1::ListSessionsReply& reply);
std::string TableOf(const management::v1::ListTargetsReply& reply);
std::string TableOf(const management::v1::ListLunsReply& reply);
std::string TableOf(const management::v1::ListPortalsReply& reply);
std::string TableOf(const management::v1::ListDevicesReply& reply);
std::string TableOf(const management::v1::GetStatusReply& reply);

// What LUNs did in the time between two looks, the busiest first: at most
// `rows` of them.
std::string TopTable(const management::v1::ListLunsReply& before,
                     const management::v1::ListLunsReply& after,
                     absl::Duration between, size_t rows);

}  // namespace skiff::tools::skiffctl

#endif  // SKIFF_TOOLS_SKIFFCTL_TABLES_H_
