#include "protocol/target/departures.h"

#include <set>
#include <string>
#include <utility>

#include "gtest/gtest.h"

namespace skiff::protocol {
namespace {

class DeparturesTest : public ::testing::Test {
 protected:
  // Adds `name` to `told_`, with "!" if some were left behind.
  void Await(std::set<TargetNode::ConnectionId> connections, char name) {
    departures_.Await(std::move(connections),
                      [this, name](Departures::Outcome outcome) {
                        told_ += name;
                        if (outcome == Departures::Outcome::kLeftBehind) {
                          told_ += '!';
                        }
                      });
  }

  Departures departures_;
  std::string told_;
};

TEST_F(DeparturesTest, NothingIsNotWaitedFor) {
  Await({}, 'a');
  EXPECT_EQ(told_, "a");
}

TEST_F(DeparturesTest, TheLastOneTellsAllWhoWait) {
  Await({1, 2}, 'a');
  Await({2}, 'b');
  Await({2, 3}, 'c');
  departures_.Gone(7);
  departures_.Gone(1);
  EXPECT_EQ(told_, "");
  departures_.Gone(2);
  EXPECT_EQ(told_, "ab");
  departures_.Gone(3);
  departures_.Gone(3);
  EXPECT_EQ(told_, "abc");
}

TEST_F(DeparturesTest, WhoIsToldMayWaitAgain) {
  departures_.Await({1}, [this](Departures::Outcome) { Await({1, 2}, 'b'); });
  departures_.Gone(1);
  EXPECT_EQ(told_, "");
  departures_.Gone(2);
  EXPECT_EQ(told_, "") << "the first had not come back";
  departures_.Gone(1);
  EXPECT_EQ(told_, "b");
}

TEST_F(DeparturesTest, NobodyWaitsForWhatIsLeftBehind) {
  Await({1}, 'a');
  departures_.LeaveBehind();
  Await({1}, 'b');
  Await({}, 'c');
  departures_.Gone(1);
  EXPECT_EQ(told_, "a!b!c");
}

}  // namespace
}  // namespace skiff::protocol
