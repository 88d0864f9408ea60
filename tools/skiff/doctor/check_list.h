#ifndef SKIFF_TOOLS_SKIFF_DOCTOR_CHECK_LIST_H_
#define SKIFF_TOOLS_SKIFF_DOCTOR_CHECK_LIST_H_

#include <vector>

#include "tools/skiff/doctor/facts.h"
#include "tools/skiff/doctor/finding.h"

// The checks that Examine() is made of. Each adds what it finds about one
// thing, or nothing where that thing is not there.

namespace skiff::tools {

using Findings = std::vector<Finding>;

// Of the machine.
void CheckDevices(const DoctorFacts& facts, Findings* out);
void CheckModules(const DoctorFacts& facts, Findings* out);
void CheckDeviceFiles(const DoctorFacts& facts, Findings* out);
void CheckPorts(const DoctorFacts& facts, Findings* out);
void CheckGids(const DoctorFacts& facts, Findings* out);
void CheckRdmaMtu(const DoctorFacts& facts, Findings* out);
void CheckFlowControl(const DoctorFacts& facts, Findings* out);
void CheckLimits(const DoctorFacts& facts, Findings* out);
void CheckProcessors(const DoctorFacts& facts, Findings* out);
void CheckClock(const DoctorFacts& facts, Findings* out);

// Of the way to a target, which is there.
void CheckName(const DoctorFacts& facts, Findings* out);
void CheckRoute(const DoctorFacts& facts, Findings* out);
void CheckPathMtu(const DoctorFacts& facts, Findings* out);
void CheckPort(const DoctorFacts& facts, Findings* out);
void CheckSession(const DoctorFacts& facts, Findings* out);
void CheckRdmaIsUsed(const DoctorFacts& facts, Findings* out);

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_SKIFF_DOCTOR_CHECK_LIST_H_
