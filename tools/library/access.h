#ifndef SKIFF_TOOLS_LIBRARY_ACCESS_H_
#define SKIFF_TOOLS_LIBRARY_ACCESS_H_

#include <skiff/target.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "scsi/target/access_list.h"
#include "scsi/target/access_policy.h"

namespace skiff::library {

// Asks callbacks. They are copied. Null: everybody may do everything.
std::shared_ptr<scsi::AccessPolicy> MakeAccessPolicy(
    const skiff_access_ops& ops);

// Reads an array of rules into `out`. 0, or a remembered error.
int ReadAccessRules(const skiff_access_rule* const* rules, size_t count,
                    std::vector<scsi::AccessRule>* out);

}  // namespace skiff::library

#endif  // SKIFF_TOOLS_LIBRARY_ACCESS_H_
