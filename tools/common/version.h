#ifndef SKIFF_TOOLS_COMMON_VERSION_H_
#define SKIFF_TOOLS_COMMON_VERSION_H_

namespace skiff::tools {

// What `--version` says. LogicalUnitOptions::revision is the same by default.
inline constexpr char kVersion[] = "1.0";

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_COMMON_VERSION_H_
