#ifndef SKIFF_TESTING_TRANSPORT_CONFORMANCE_REPORT_H_
#define SKIFF_TESTING_TRANSPORT_CONFORMANCE_REPORT_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace skiff::testing {

// What came out of one test.
struct ConformanceResult {
  enum class Outcome : uint8_t { kPassed, kFailed, kNotSupported };

  std::string suite;      // "MessageTest"
  std::string name;       // "KeepTheirOrder"
  std::string transport;  // "sim_iwarp"
  Outcome outcome = Outcome::kPassed;
  int64_t milliseconds = 0;
  std::vector<std::string> failures;  // With the place in the source.
  std::string not_supported;          // What is declared not to be there.
};

// Collects the results while the tests run, and reports them.
class ConformanceReport final : public ::testing::EmptyTestEventListener {
 public:
  void OnTestEnd(const ::testing::TestInfo& info) override;

  const std::vector<ConformanceResult>& results() const { return results_; }
  int Count(ConformanceResult::Outcome outcome) const;

  // For people: the groups of each transport, what failed and why, what is not
  // supported, and the totals.
  void WriteText(std::ostream& out) const;
  // JUnit's XML; what is not supported counts as skipped, with its reason.
  void WriteJunit(std::ostream& out) const;
  void WriteJson(std::ostream& out) const;

 private:
  std::vector<ConformanceResult> results_;
};

}  // namespace skiff::testing

#endif  // SKIFF_TESTING_TRANSPORT_CONFORMANCE_REPORT_H_
