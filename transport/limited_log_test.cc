#include "transport/limited_log.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/sim/sim_reactor.h"
#include "testing/sim/sim_world.h"
#include "transport/log/log_event.h"

namespace skiff::transport {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class LimitedLogTest : public ::testing::Test {
 protected:
  void Open(const LogLimits& limits = LogLimits()) {
    log_ = std::make_unique<LimitedLog>(
        reactor_,
        [this](LogLevel, absl::string_view line) { lines_.emplace_back(line); },
        limits);
  }
  // Two kinds.
  void Ignore(absl::string_view peer, absl::string_view message = "ignored") {
    log_->Log(LogLevel::kWarning, peer, message);
  }
  void Refuse(absl::string_view peer) {
    log_->Log(LogLevel::kWarning, peer, "refused");
  }

  skiff::testing::SimWorld world_{1};
  skiff::testing::SimReactor* const reactor_ = world_.AddReactor("here");
  std::vector<std::string> lines_;
  std::unique_ptr<LimitedLog> log_;
};

TEST_F(LimitedLogTest, AFloodIsAFewLinesAndItsSize) {
  Open();
  for (int i = 0; i < 100000; ++i) Ignore("10.0.0.1", absl::StrCat("PDU ", i));
  EXPECT_EQ(lines_.size(), 10u);
  EXPECT_EQ(lines_.back(), "PDU 9");
  lines_.clear();
  world_.RunFor(absl::Seconds(11));
  EXPECT_THAT(lines_, ElementsAre("99990 more were not logged like: PDU 10"));
  world_.RunFor(absl::Hours(1));
  EXPECT_EQ(lines_.size(), 1u) << "told twice";
}

TEST_F(LimitedLogTest, OnlyWhatIsWrittenIsFormatted) {
  Open();
  int formatted = 0;
  for (int i = 0; i < 1000; ++i) {
    log_->Log(LogLevel::kWarning, "10.0.0.1", [&] {
      ++formatted;
      return absl::StrCat("PDU ", i);
    });
  }
  EXPECT_EQ(lines_.size(), 10u);
  EXPECT_EQ(formatted, 11) << "the lines, and an example of the rest";
}

TEST_F(LimitedLogTest, ALineThatMayBeLoggedTellsWhatWasNot) {
  Open({.burst = 1, .interval = absl::Seconds(10)});
  for (int i = 0; i < 4; ++i) Ignore("10.0.0.1");
  // Just before the timer does.
  world_.At(world_.now() + absl::Seconds(10),
            [this] { Ignore("10.0.0.1", "again"); });
  world_.RunFor(absl::Seconds(20));
  EXPECT_THAT(
      lines_,
      ElementsAre("ignored",
                  "again (3 more like this were not logged before it)"));
}

TEST_F(LimitedLogTest, KindsAndPeersDoNotDrownEachOther) {
  Open({.burst = 2, .total_burst = 100});
  for (int i = 0; i < 1000; ++i) Ignore("10.0.0.1");
  lines_.clear();
  Refuse("10.0.0.1");
  Ignore("10.0.0.2");
  EXPECT_THAT(lines_, ElementsAre("refused", "ignored"));
}

TEST_F(LimitedLogTest, ManyPeersTogetherHaveALimit) {
  Open({.burst = 2, .total_burst = 50});
  for (int i = 0; i < 1000; ++i) Ignore(absl::StrCat("fe80::", i));
  EXPECT_EQ(lines_.size(), 50u);
  lines_.clear();
  Refuse("fe80::7");
  EXPECT_THAT(lines_, ElementsAre("refused"));
}

TEST_F(LimitedLogTest, MorePeersThanAreToldApartAreOne) {
  Open({.burst = 2, .total_burst = 1000000, .peers = 8});
  for (int i = 0; i < 1000; ++i) Ignore(absl::StrCat("fe80::", i));
  EXPECT_LE(lines_.size(), 12u);
  // Those that went silent give their places away.
  world_.RunFor(absl::Hours(1));
  lines_.clear();
  for (int i = 0; i < 4; ++i) {
    Ignore("10.0.0.9");
    Ignore("10.0.0.8");
  }
  EXPECT_EQ(lines_.size(), 4u);
}

// The bucket of all refusals is new and full when that of the peer finds no
// place.
TEST_F(LimitedLogTest, ANewKindWhenThereIsNoPlaceLeft) {
  Open({.burst = 1, .total_burst = 1000000, .peers = 8});
  for (int i = 0; i < 100; ++i) Ignore(absl::StrCat("fe80::", i));
  lines_.clear();
  Refuse("fe80::1");
  EXPECT_THAT(lines_, ElementsAre("refused"));
}

TEST_F(LimitedLogTest, WithoutAnIntervalThereIsNoLimit) {
  Open({.interval = absl::ZeroDuration()});
  for (int i = 0; i < 1000; ++i) Ignore("10.0.0.1");
  EXPECT_EQ(lines_.size(), 1000u);
}

TEST_F(LimitedLogTest, WhatWasNotToldIsToldAtTheEnd) {
  Open({.burst = 1});
  for (int i = 0; i < 3; ++i) Ignore("10.0.0.1");
  lines_.clear();
  log_.reset();
  EXPECT_THAT(lines_, ElementsAre(HasSubstr("2 more were not logged")));
}

// Also those of the example of what was left out.
TEST_F(LimitedLogTest, ASinkOfEventsGetsTheFields) {
  std::vector<std::string> seen;
  const LogSink sink = LogEventSink([&seen](const LogEvent& event) {
    seen.push_back(absl::StrCat(event.message, "|",
                                ValueOf(event, kLogInitiator), "|",
                                event.tells_count));
  });
  LimitedLog log(reactor_, sink, {.burst = 1, .interval = absl::Seconds(10)});
  const auto say = [&log](const std::string& initiator) {
    log.Log(LogLevel::kWarning, "10.0.0.1", [&initiator] {
      return LogText{"said", {{kLogInitiator, initiator}}};
    });
  };
  for (const char* name : {"iqn.a", "iqn.b", "iqn.c"}) say(name);
  world_.At(world_.now() + absl::Seconds(10), [&say] { say("iqn.d"); });
  world_.RunFor(absl::Seconds(11));
  say(std::string(1000, 'x'));
  world_.RunFor(absl::Hours(1));
  log.Log(LogLevel::kInfo, "10.0.0.1", "without");
  EXPECT_THAT(
      seen,
      ElementsAre("said|iqn.a|0",
                  "said (2 more like this were not logged before it)|iqn.d|1",
                  absl::StrCat("1 more were not logged like: said|",
                               std::string(223, 'x'), "|1"),
                  "without||0"));
}

TEST_F(LimitedLogTest, OtherSinksGetTheMessageOfAnEvent) {
  Open();
  log_->Log(LogLevel::kWarning, "10.0.0.1", [] {
    return LogText{"said", {{kLogInitiator, "iqn.a"}}};
  });
  EXPECT_THAT(lines_, ElementsAre("said"));
}

TEST_F(LimitedLogTest, NoSinkIsSilent) {
  log_ = std::make_unique<LimitedLog>(reactor_, nullptr, LogLimits());
  for (int i = 0; i < 100; ++i) Ignore("10.0.0.1");
  log_.reset();
  EXPECT_THAT(lines_, IsEmpty());
}

TEST(PeerHostTest, IsWithoutThePort) {
  EXPECT_EQ(PeerHost("10.0.0.1:3260"), "10.0.0.1");
  EXPECT_EQ(PeerHost("[fe80::1]:3260"), "[fe80::1]");
  EXPECT_EQ(PeerHost("somebody"), "somebody");
}

}  // namespace
}  // namespace skiff::transport
