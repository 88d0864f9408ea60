#ifndef SKIFF_TOOLS_SKIFF_DOCTOR_CHECKS_H_
#define SKIFF_TOOLS_SKIFF_DOCTOR_CHECKS_H_

#include "tools/skiff/doctor/facts.h"
#include "tools/skiff/doctor/finding.h"

namespace skiff::tools {

// What the facts mean, in the order in which one mends it: the machine first,
// then the way to the target, then the session. A pure function.
DoctorReport Examine(const DoctorFacts& facts);

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_SKIFF_DOCTOR_CHECKS_H_
