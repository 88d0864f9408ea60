#ifndef SKIFF_TOOLS_COMMON_VERSION_H_
#define SKIFF_TOOLS_COMMON_VERSION_H_

namespace skiff::tools {

// What `--version` says, and INQUIRY as the revision of a disk.
inline constexpr char kVersion[] = "1.0";

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_COMMON_VERSION_H_
