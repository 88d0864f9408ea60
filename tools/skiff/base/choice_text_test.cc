#include "tools/skiff/base/choice_text.h"

#include <string>

#include "gtest/gtest.h"

namespace skiff::tools {
namespace {

using transport::ChoiceEntry;
using transport::ChoiceOutcome;
using transport::ChoiceReport;
using transport::RdmaPolicy;

ChoiceEntry Entry(const std::string& scheme, ChoiceOutcome outcome,
                  const std::string& reason) {
  ChoiceEntry entry;
  entry.scheme = scheme;
  entry.rdma = scheme != "tcp";
  entry.outcome = outcome;
  entry.reason = reason;
  return entry;
}

TEST(ChoiceTextTest, OneReasonForEachTransport) {
  ChoiceReport report;
  report.address = "auto://peer:3260?rdma=require";
  report.policy = RdmaPolicy::kRequire;
  report.entries = {Entry("verbs", ChoiceOutcome::kSkipped, "no device")};
  for (int i = 0; i < 50; ++i) {
    report.entries.push_back(
        Entry("libfabric", ChoiceOutcome::kSkipped, "it emulates RDMA"));
    report.entries.push_back(Entry("tcp", ChoiceOutcome::kSkipped, "no RDMA"));
  }
  EXPECT_EQ(BriefFailure(report),
            "cannot connect to auto://peer:3260?rdma=require by RDMA: verbs: "
            "no device; libfabric: it emulates RDMA. `skiff transports` tells "
            "of each device, -v of each attempt");
}

TEST(ChoiceTextTest, WhatWasTriedComesFirst) {
  ChoiceReport report;
  report.address = "auto://peer:3260";
  report.entries = {Entry("verbs", ChoiceOutcome::kSkipped, "link down"),
                    Entry("verbs", ChoiceOutcome::kFailed, "no route"),
                    Entry("verbs", ChoiceOutcome::kSkipped, "no link"),
                    Entry("tcp", ChoiceOutcome::kFailed, "refused")};
  EXPECT_EQ(BriefFailure(report),
            "cannot connect to auto://peer:3260: verbs: no route; tcp: "
            "refused. `skiff transports` tells of each device, -v of each "
            "attempt");
}

TEST(ChoiceTextTest, NothingWhereThereIsNoFailure) {
  ChoiceReport report;
  report.entries = {Entry("tcp", ChoiceOutcome::kSucceeded, "")};
  EXPECT_EQ(BriefFailure(report), "");
  report.entries = {Entry("tcp", ChoiceOutcome::kFailed, "in use")};
  report.listening = true;
  EXPECT_EQ(BriefFailure(report), "");
}

}  // namespace
}  // namespace skiff::tools
