#ifndef SKIFF_TOOLS_SKIFF_BASE_CHOICE_TEXT_H_
#define SKIFF_TOOLS_SKIFF_BASE_CHOICE_TEXT_H_

#include <string>

#include "transport/auto/choice_report.h"

namespace skiff::tools {

// Why no transport connected, a sentence for each that was asked for, and what
// to do; the report's own text has each device. Empty when one did.
std::string BriefFailure(const transport::ChoiceReport& report);

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_SKIFF_BASE_CHOICE_TEXT_H_
