#ifndef SKIFF_TOOLS_SKIFF_DOCTOR_MACHINE_FACTS_H_
#define SKIFF_TOOLS_SKIFF_DOCTOR_MACHINE_FACTS_H_

#include <string>

#include "tools/skiff/doctor/facts.h"

namespace skiff::tools {

// Looks at this machine; leaves `machine` and `way` as they are. `root` stands
// before the paths that are read: empty, except in tests.
void ReadMachineFacts(DoctorFacts* facts, const std::string& root = "");

// Looks at a network interface, once.
void ReadInterface(const std::string& name, DoctorFacts* facts,
                   const std::string& root = "");

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_SKIFF_DOCTOR_MACHINE_FACTS_H_
