#ifndef SKIFF_TOOLS_SKIFF_DOCTOR_WAY_FACTS_H_
#define SKIFF_TOOLS_SKIFF_DOCTOR_WAY_FACTS_H_

#include <string>

#include "tools/skiff/doctor/facts.h"

namespace skiff::tools {

// Looks up `way->host`, at the route, and at what arrives; adds the interface
// to `facts`. Takes some seconds where nobody answers.
void LookAtWay(WayFact* way, DoctorFacts* facts);

// Connects by TCP, for `no_tcp`: empty if that works.
std::string TryTcp(const WayFact& way);

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_SKIFF_DOCTOR_WAY_FACTS_H_
