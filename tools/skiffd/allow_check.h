#ifndef SKIFF_TOOLS_SKIFFD_ALLOW_CHECK_H_
#define SKIFF_TOOLS_SKIFFD_ALLOW_CHECK_H_

#include "tools/skiffd/checker.h"
#include "tools/skiffd/config.h"
#include "tools/skiffd/config.pb.h"

namespace skiff::tools::skiffd {

// Reads who may use a target, whose accounts and LUNs `out` has already. Tells
// of what is wrong with each rule, and of rules that can never count.
void CheckAllow(const Target& target, Checker* checker, TargetConfig* out);

// Tells of targets that everybody may use, where others than this machine may
// reach them and nobody said that this is meant.
void CheckOpen(const DaemonConfig& checked, const Config& config,
               Checker* checker);

}  // namespace skiff::tools::skiffd

#endif  // SKIFF_TOOLS_SKIFFD_ALLOW_CHECK_H_
