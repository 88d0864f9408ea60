#include "protocol/datamover/iser/iser_operation.h"

#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace skiff::protocol {
namespace {

using State = IserOperation::State;
using transport::OperationKind;

class IserOperationTest : public ::testing::Test {
 protected:
  IserOperation* Take() {
    return pool_.Take(OperationKind::kWrite, IserWork::kPut, 7);
  }

  IserOperationPool pool_;
};

TEST_F(IserOperationTest, QueuesInOrder) {
  IserOperationQueue queue;
  EXPECT_TRUE(queue.empty());
  for (int round = 0; round < 2; ++round) {
    IserOperation* const first = Take();
    IserOperation* const second = Take();
    queue.PushBack(first);
    queue.PushBack(second);
    EXPECT_EQ(queue.front(), first);
    queue.PopFront();
    EXPECT_EQ(queue.front(), second);
    queue.PopFront();
    EXPECT_TRUE(queue.empty());
  }
  queue.PushBack(Take());
  queue.Clear();
  EXPECT_TRUE(queue.empty());
}

TEST_F(IserOperationTest, DoesNotMoveThem) {
  std::vector<IserOperation*> taken;
  std::set<uint32_t> indices;
  for (int i = 0; i < 100; ++i) {
    IserOperation* const operation = Take();
    operation->offset = static_cast<size_t>(i);
    operation->state = State::kPosted;
    taken.push_back(operation);
    indices.insert(operation->id.index);
  }
  EXPECT_EQ(indices.size(), 100u);
  for (size_t i = 0; i < taken.size(); ++i) {
    EXPECT_EQ(taken[i]->offset, i);
    EXPECT_EQ(pool_.FindPosted(taken[i]->id), taken[i]);
  }
}

TEST_F(IserOperationTest, FindsWhatIsPosted) {
  EXPECT_EQ(pool_.FindPosted({0, 0}), nullptr);
  IserOperation* const operation = Take();
  const transport::OperationId id = operation->id;
  EXPECT_EQ(pool_.FindPosted(id), nullptr);
  operation->state = State::kPosted;
  EXPECT_EQ(pool_.FindPosted(id), operation);
  EXPECT_EQ(pool_.FindPosted({id.index, id.generation + 1}), nullptr);
  EXPECT_EQ(pool_.FindPosted({~0u, 0}), nullptr);
  pool_.GiveBack(operation);
  EXPECT_EQ(pool_.FindPosted(id), nullptr);
  // Its place is used again: a late completion does not meet the next one.
  ASSERT_EQ(Take(), operation);
  operation->state = State::kPosted;
  EXPECT_EQ(pool_.FindPosted(id), nullptr);
  EXPECT_EQ(pool_.FindPosted(operation->id), operation);
}

TEST_F(IserOperationTest, EndsAllThatAreInUse) {
  IserOperation* const queued = Take();
  IserOperation* const given_back = Take();
  IserOperation* const posted = Take();
  posted->state = State::kPosted;
  pool_.GiveBack(given_back);
  std::set<IserOperation*> ended;
  pool_.EndAll([&](IserOperation* operation) {
    ended.insert(operation);
    pool_.GiveBack(operation);
  });
  EXPECT_EQ(ended, (std::set<IserOperation*>{queued, posted}));
  pool_.EndAll([](IserOperation*) { FAIL() << "none is left"; });
}

}  // namespace
}  // namespace skiff::protocol
