#include "tools/skiff/doctor/checks.h"

#include "tools/skiff/doctor/check_list.h"

namespace skiff::tools {
namespace {

using Check = void (*)(const DoctorFacts& facts, Findings* out);

constexpr Check kOfMachine[] = {
    CheckDevices,    CheckModules, CheckDeviceFiles, CheckPorts,
    CheckGids,       CheckRdmaMtu, CheckFlowControl, CheckLimits,
    CheckProcessors, CheckClock,
};
constexpr Check kOfWay[] = {
    CheckName, CheckRoute,   CheckPathMtu,
    CheckPort, CheckSession, CheckRdmaIsUsed,
};

}  // namespace

DoctorReport Examine(const DoctorFacts& facts) {
  DoctorReport report;
  for (const Check check : kOfMachine) check(facts, &report.findings);
  if (!facts.way.has_value()) return report;
  for (const Check check : kOfWay) check(facts, &report.findings);
  return report;
}

}  // namespace skiff::tools
