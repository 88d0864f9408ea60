#ifndef SKIFF_TOOLS_SKIFF_DOCTOR_FINDING_H_
#define SKIFF_TOOLS_SKIFF_DOCTOR_FINDING_H_

#include <cstdint>
#include <string>
#include <vector>

// What `skiff doctor` tells.

namespace skiff::tools {

enum class Severity : uint8_t {
  kFine,
  kNote,     // Could be better, or could not be seen.
  kWarning,  // Costs speed or safety.
  kError,    // There is no session.
};

// "fine", "note", "warning", "error".
const char* SeverityName(Severity severity);

// Of one thing that was looked at.
struct Finding {
  Severity severity = Severity::kFine;
  std::string check;  // "locked-memory", for programs.
  std::string seen;   // For people: one line.
  std::string why;    // It matters; empty where all is fine.
  std::string fix;    // A command, or what to do; empty where all is fine.
};

struct DoctorReport {
  std::vector<Finding> findings;
  Severity worst() const;
};

std::string ToText(const DoctorReport& report);
std::string ToJson(const DoctorReport& report);

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_SKIFF_DOCTOR_FINDING_H_
