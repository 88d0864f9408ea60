#include "transport/libfabric/datagram/datagram_life.h"

#include <cstddef>
#include <iterator>
#include <string>

#include "gtest/gtest.h"

namespace skiff::transport {
namespace {

using State = DatagramState;
using Event = DatagramEvent;
using Action = DatagramAction;

constexpr State kStates[] = {State::kIdle,        State::kConnecting,
                             State::kProbing,     State::kEstablished,
                             State::kPeerLeaving, State::kLeaving,
                             State::kEnded};

const char* Name(State state) {
  switch (state) {
    case State::kIdle:
      return "Idle";
    case State::kConnecting:
      return "Connecting";
    case State::kProbing:
      return "Probing";
    case State::kEstablished:
      return "Established";
    case State::kPeerLeaving:
      return "PeerLeaving";
    case State::kLeaving:
      return "Leaving";
    case State::kEnded:
      return "Ended";
  }
  return "?";
}

const char* Name(Action action) {
  switch (action) {
    case Action::kNothing:
      return "";
    case Action::kFail:
      return "fail";
    case Action::kSendRequest:
      return "request";
    case Action::kSendAnswer:
      return "answer";
    case Action::kProbe:
      return "probe";
    case Action::kProbeAgain:
      return "again";
    case Action::kReport:
      return "report";
    case Action::kAwaitMessages:
      return "await";
    case Action::kLookAgain:
      return "look";
    case Action::kLeave:
      return "leave";
    case Action::kGoOnLeaving:
      return "go on";
    case Action::kClose:
      return "close";
    case Action::kHangUp:
      return "hang up";
    case Action::kVanish:
      return "vanish";
  }
  return "?";
}

// What follows in each of kStates: "next/action", or nothing for neither.
struct Row {
  Event event;
  const char* name;
  const char* cells[std::size(kStates)];
};

constexpr Row kTable[] = {
    {Event::kConnect,
     "Connect",
     {"Connecting/request", "", "", "", "", "", ""}},
    {Event::kAccept, "Accept", {"Probing/answer", "", "", "", "", "", ""}},
    {Event::kAnswered,
     "Answered",
     {"Idle/fail", "Probing/probe", "Probing/fail", "Established/fail",
      "PeerLeaving/fail", "", ""}},
    {Event::kRefused,
     "Refused",
     {"Idle/fail", "Connecting/fail", "Probing/fail", "Established/fail",
      "PeerLeaving/fail", "", ""}},
    {Event::kProbed, "Probed", {"", "", "Established/report", "", "", "", ""}},
    {Event::kTimer,
     "Timer",
     {"", "", "Probing/again", "", "PeerLeaving/look", "Ended/close", ""}},
    {Event::kPeerLeaves,
     "PeerLeaves",
     {"", "Connecting/fail", "Probing/fail", "PeerLeaving/await", "",
      "Leaving/go on", ""}},
    {Event::kBothQuiet, "BothQuiet", {"", "", "", "", "", "Ended/close", ""}},
    {Event::kClosing,
     "Closing",
     {"Ended/hang up", "Ended/hang up", "Ended/hang up", "Leaving/leave",
      "Leaving/leave", "Ended/hang up", "Ended/hang up"}},
    {Event::kClosingShared,
     "ClosingShared",
     {"Ended/hang up", "Ended/hang up", "Leaving/leave", "Leaving/leave",
      "Leaving/leave", "Ended/hang up", "Ended/hang up"}},
    {Event::kLost,
     "Lost",
     {"Ended/vanish", "Connecting/fail", "Ended/vanish", "Ended/vanish",
      "Ended/vanish", "Ended/vanish", ""}},
};

TEST(DatagramLifeTest, EveryEventInEveryStateIsAsTheTableSays) {
  // The last of them.
  ASSERT_EQ(std::size(kTable), static_cast<size_t>(Event::kLost) + 1);
  for (const Row& row : kTable) {
    for (size_t i = 0; i < std::size(kStates); ++i) {
      const DatagramStep step = NextStep(kStates[i], row.event);
      std::string found;
      if (step.next != kStates[i] || step.action != Action::kNothing) {
        found = std::string(Name(step.next)) + "/" + Name(step.action);
      }
      EXPECT_EQ(found, row.cells[i])
          << row.name << " while " << Name(kStates[i]);
    }
  }
}

// Whatever comes: one that is over stays so, and tells nobody a second time.
TEST(DatagramLifeTest, TheEndIsTheEnd) {
  for (const Row& row : kTable) {
    const DatagramStep step = NextStep(State::kEnded, row.event);
    EXPECT_EQ(step.next, State::kEnded) << row.name;
    EXPECT_TRUE(step.action == Action::kNothing ||
                step.action == Action::kHangUp)
        << row.name;
  }
}

TEST(DatagramLifeTest, AConnectionFromItsRequestToItsEnd) {
  DatagramLife life;
  EXPECT_TRUE(life.is(State::kIdle));
  EXPECT_EQ(life.Apply(Event::kConnect), Action::kSendRequest);
  EXPECT_EQ(life.Apply(Event::kAnswered), Action::kProbe);
  EXPECT_FALSE(life.up());
  EXPECT_EQ(life.Apply(Event::kProbed), Action::kReport);
  EXPECT_TRUE(life.up());
  EXPECT_EQ(life.Apply(Event::kPeerLeaves), Action::kAwaitMessages);
  EXPECT_TRUE(life.up());
  EXPECT_EQ(life.Apply(Event::kClosing), Action::kLeave);
  EXPECT_FALSE(life.up());
  EXPECT_EQ(life.Apply(Event::kBothQuiet), Action::kClose);
  EXPECT_TRUE(life.is(State::kEnded));
}

}  // namespace
}  // namespace skiff::transport
