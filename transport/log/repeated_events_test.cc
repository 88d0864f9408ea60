#include "transport/log/repeated_events.h"

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace skiff::transport {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr absl::Duration kWindow = absl::Seconds(10);

class RepeatedEventsTest : public ::testing::Test {
 protected:
  // Whether it is logged at once.
  bool Logged(absl::string_view message, const std::vector<LogField>& fields,
              LogLevel level = LogLevel::kWarning, bool tells_count = false) {
    return !events_.Hold({level, message, fields, tells_count}, now_, Keep());
  }
  // A login from a port of one host.
  bool LoggedIn(int port, const std::string& initiator = "iqn.a:1") {
    const std::string address = absl::StrCat("10.0.0.2:", port);
    return Logged(absl::StrCat(address, ": ", initiator, " logged in"),
                  {{kLogAddress, address}, {kLogInitiator, initiator}});
  }
  void Pass(absl::Duration time) {
    now_ += time;
    events_.TellDue(now_, Keep());
  }
  std::function<void(const LogEvent&)> Keep() {
    return [this](const LogEvent& event) {
      EXPECT_TRUE(event.tells_count);
      told_.emplace_back(event.message);
      initiators_.emplace_back(ValueOf(event, kLogInitiator));
    };
  }

  absl::Time now_ = absl::UnixEpoch();
  RepeatedEvents events_{kWindow};
  std::vector<std::string> told_;
  std::vector<std::string> initiators_;
};

TEST_F(RepeatedEventsTest, TheFirstIsLoggedAndTheOthersAreCounted) {
  EXPECT_TRUE(LoggedIn(1000));
  EXPECT_EQ(events_.next(), absl::InfiniteFuture());
  EXPECT_FALSE(LoggedIn(1001));
  EXPECT_FALSE(LoggedIn(1002));
  EXPECT_EQ(events_.next(), absl::UnixEpoch() + kWindow);
  Pass(kWindow - absl::Nanoseconds(1));
  EXPECT_THAT(told_, IsEmpty());
  Pass(absl::Nanoseconds(1));
  EXPECT_THAT(told_,
              ElementsAre("10.0.0.2:1002: iqn.a:1 logged in (2 more in 10s)"));
  EXPECT_THAT(initiators_, ElementsAre("iqn.a:1"));
  // It begins anew, and tells nothing twice.
  EXPECT_TRUE(LoggedIn(1003));
  Pass(absl::Hours(1));
  EXPECT_THAT(told_, SizeIs(1));
}

TEST_F(RepeatedEventsTest, TheEndOfTheWindowNeedsNobodyToAskForIt) {
  EXPECT_TRUE(LoggedIn(1));
  EXPECT_FALSE(LoggedIn(2));
  now_ += kWindow;
  EXPECT_TRUE(LoggedIn(3));
  EXPECT_THAT(told_, SizeIs(1));
}

TEST_F(RepeatedEventsTest, WhatDiffersInMoreThanNumbersIsAnotherEvent) {
  EXPECT_TRUE(LoggedIn(1));
  EXPECT_TRUE(LoggedIn(1, "iqn.a:2")) << "another initiator";
  EXPECT_TRUE(Logged("x took 5ms", {{kLogAddress, "10.0.0.2:1"}}));
  EXPECT_FALSE(Logged("x took 0x7", {{kLogAddress, "10.0.0.2:9"}})) << "port";
  EXPECT_TRUE(Logged("x took 5ms", {{kLogAddress, "10.0.0.3:1"}})) << "host";
  EXPECT_TRUE(
      Logged("x took 5ms", {{kLogAddress, "10.0.0.2:1"}}, LogLevel::kInfo))
      << "level";
  EXPECT_TRUE(
      Logged("x took 5ms", {{kLogAddress, "10.0.0.2:1"}, {kLogLun, "1"}}));
  EXPECT_TRUE(
      Logged("x took 5ms", {{kLogAddress, "10.0.0.2:1"}, {kLogLun, "2"}}));
  EXPECT_TRUE(Logged("as user1", {{kLogAddress, "10.0.0.2:1"}}));
  EXPECT_TRUE(Logged("as user2", {{kLogAddress, "10.0.0.2:1"}})) << "a name";
}

// What a peer puts into one field is not taken for another.
TEST_F(RepeatedEventsTest, FieldsDoNotRunIntoEachOther) {
  EXPECT_TRUE(Logged("m", {{kLogInitiator, "a target=1:b"}}));
  EXPECT_TRUE(Logged("m", {{kLogInitiator, "a"}, {kLogTarget, "b"}}));
}

TEST_F(RepeatedEventsTest, SomeAreNeverHeldBack) {
  const std::vector<LogField> fields = {{kLogAddress, "10.0.0.2:1"}};
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(Logged("failed", fields, LogLevel::kError));
    EXPECT_TRUE(Logged("a row of a table", {}));
    EXPECT_TRUE(Logged("9 more were not logged like: x", fields,
                       LogLevel::kWarning, /*tells_count=*/true));
  }
}

TEST_F(RepeatedEventsTest, WithoutAWindowNothingIsHeldBack) {
  RepeatedEvents off(absl::ZeroDuration());
  const std::vector<LogField> fields = {{kLogAddress, "10.0.0.2:1"}};
  const LogEvent event = {LogLevel::kInfo, "again", fields};
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(off.Hold(event, now_, Keep()));
  EXPECT_EQ(off.next(), absl::InfiniteFuture());
}

TEST_F(RepeatedEventsTest, TheOldestIsToldWhereThereAreTooMany) {
  EXPECT_TRUE(LoggedIn(1, "iqn.first"));
  EXPECT_FALSE(LoggedIn(2, "iqn.first"));
  for (size_t i = 1; i < RepeatedEvents::kMaxEvents; ++i) {
    EXPECT_TRUE(LoggedIn(1, absl::StrCat("iqn.n", i)));
  }
  EXPECT_THAT(told_, IsEmpty());
  EXPECT_TRUE(LoggedIn(1, "iqn.last"));
  EXPECT_THAT(told_,
              ElementsAre("10.0.0.2:2: iqn.first logged in (1 more in 1s)"));
}

TEST_F(RepeatedEventsTest, AllIsToldAtTheEnd) {
  for (int i = 0; i < 4; ++i) LoggedIn(i);
  for (int i = 0; i < 3; ++i) LoggedIn(i, "iqn.b");
  now_ += absl::Milliseconds(2500);
  events_.TellAll(now_, Keep());
  EXPECT_THAT(told_, ElementsAre("10.0.0.2:3: iqn.a:1 logged in (3 more in 3s)",
                                 "10.0.0.2:2: iqn.b logged in (2 more in 3s)"));
  EXPECT_EQ(events_.next(), absl::InfiniteFuture());
}

}  // namespace
}  // namespace skiff::transport
