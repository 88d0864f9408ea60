#include "testing/transport_conformance/report.h"

#include <algorithm>
#include <iomanip>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "testing/transport_conformance/conformance_pair.h"

namespace skiff::testing {
namespace {

using Outcome = ConformanceResult::Outcome;

const char* NameOf(Outcome outcome) {
  switch (outcome) {
    case Outcome::kPassed:
      return "passed";
    case Outcome::kFailed:
      return "failed";
    case Outcome::kNotSupported:
      return "not supported";
  }
  return "";
}

std::string Escaped(const std::string& text) {
  std::string escaped = absl::StrReplaceAll(
      text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
  // XML 1.0 has no other control characters.
  escaped.erase(std::remove_if(escaped.begin(), escaped.end(),
                               [](unsigned char c) {
                                 return c < 0x20 && c != '\n' && c != '\t';
                               }),
                escaped.end());
  return escaped;
}

// "Conformance/MessageTest" -> "MessageTest"
std::string LastPart(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

}  // namespace

void ConformanceReport::OnTestEnd(const ::testing::TestInfo& info) {
  const ::testing::TestResult& result = *info.result();
  ConformanceResult out;
  out.suite = LastPart(info.test_suite_name());
  const std::vector<std::string> name = absl::StrSplit(info.name(), '/');
  out.name = name.front();
  out.transport = name.size() > 1 ? name.back() : "";
  out.milliseconds = result.elapsed_time();
  for (int i = 0; i < result.test_property_count(); ++i) {
    const ::testing::TestProperty& property = result.GetTestProperty(i);
    if (std::string(property.key()) != kNotSupportedProperty) continue;
    out.not_supported = property.value();
    out.outcome = Outcome::kNotSupported;
  }
  if (result.Failed()) out.outcome = Outcome::kFailed;
  for (int i = 0; i < result.total_part_count(); ++i) {
    const ::testing::TestPartResult& part = result.GetTestPartResult(i);
    if (!part.failed()) continue;
    const char* file = part.file_name() == nullptr ? "" : part.file_name();
    out.failures.push_back(
        absl::StrCat(file, ":", part.line_number(), ": ", part.message()));
  }
  results_.push_back(std::move(out));
}

int ConformanceReport::Count(Outcome outcome) const {
  return static_cast<int>(std::count_if(
      results_.begin(), results_.end(),
      [&](const auto& result) { return result.outcome == outcome; }));
}

void ConformanceReport::WriteText(std::ostream& out) const {
  std::map<std::string, std::map<std::string, std::map<Outcome, int>>> groups;
  for (const ConformanceResult& result : results_) {
    ++groups[result.transport][result.suite][result.outcome];
  }
  for (auto& [transport, suites] : groups) {
    out << "\nConformance of " << transport << "\n";
    for (auto& [suite, counts] : suites) {
      out << "  " << std::left << std::setw(24) << suite;
      for (const Outcome outcome :
           {Outcome::kPassed, Outcome::kFailed, Outcome::kNotSupported}) {
        if (counts[outcome] > 0) {
          out << std::right << std::setw(5) << counts[outcome] << " "
              << NameOf(outcome);
        }
      }
      out << "\n";
    }
  }
  const auto list = [&](Outcome outcome, const char* title) {
    if (Count(outcome) > 0) out << "\n" << title << "\n";
    for (const ConformanceResult& result : results_) {
      if (result.outcome != outcome) continue;
      out << "  " << result.transport << " " << result.suite << "."
          << result.name;
      if (outcome == Outcome::kNotSupported)
        out << ": " << result.not_supported;
      out << "\n";
      for (const std::string& failure : result.failures) {
        out << "    " << absl::StrReplaceAll(failure, {{"\n", "\n    "}})
            << "\n";
      }
    }
  };
  list(Outcome::kNotSupported, "Declared not supported:");
  list(Outcome::kFailed, "Failed:");
  out << "\n"
      << Count(Outcome::kPassed) << " passed, " << Count(Outcome::kFailed)
      << " failed, " << Count(Outcome::kNotSupported)
      << " declared not supported\n";
}

void ConformanceReport::WriteJunit(std::ostream& out) const {
  out << "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      << "<testsuites tests=\"" << results_.size() << "\" failures=\""
      << Count(Outcome::kFailed) << "\" skipped=\""
      << Count(Outcome::kNotSupported) << "\">\n"
      << "  <testsuite name=\"transport conformance\" tests=\""
      << results_.size() << "\" failures=\"" << Count(Outcome::kFailed)
      << "\" skipped=\"" << Count(Outcome::kNotSupported) << "\">\n";
  for (const ConformanceResult& result : results_) {
    out << "    <testcase classname=\"" << Escaped(result.transport) << "."
        << Escaped(result.suite) << "\" name=\"" << Escaped(result.name)
        << "\" time=\"" << static_cast<double>(result.milliseconds) / 1000
        << "\">\n";
    for (const std::string& failure : result.failures) {
      out << "      <failure>" << Escaped(failure) << "</failure>\n";
    }
    if (result.outcome == Outcome::kNotSupported) {
      out << "      <skipped message=\"declared not supported: "
          << Escaped(result.not_supported) << "\"/>\n";
    }
    out << "    </testcase>\n";
  }
  out << "  </testsuite>\n</testsuites>\n";
}

void ConformanceReport::WriteJson(std::ostream& out) const {
  nlohmann::json tests = nlohmann::json::array();
  for (const ConformanceResult& result : results_) {
    nlohmann::json test = {{"suite", result.suite},
                           {"name", result.name},
                           {"transport", result.transport},
                           {"outcome", NameOf(result.outcome)},
                           {"milliseconds", result.milliseconds}};
    if (!result.failures.empty()) test["failures"] = result.failures;
    if (!result.not_supported.empty()) {
      test["not_supported"] = result.not_supported;
    }
    tests.push_back(std::move(test));
  }
  const nlohmann::json report = {
      {"passed", Count(Outcome::kPassed)},
      {"failed", Count(Outcome::kFailed)},
      {"not_supported", Count(Outcome::kNotSupported)},
      {"tests", std::move(tests)}};
  out << report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace)
      << "\n";
}

}  // namespace skiff::testing
