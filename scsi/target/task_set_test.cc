#include "scsi/target/task_set.h"

#include <gtest/gtest.h>

namespace skiff::scsi {
namespace {

using Admission = TaskSet::Admission;

struct TestTask : Task {
  explicit TestTask(Attribute a) { attribute = a; }
};
struct Simple : TestTask {
  Simple() : TestTask(Attribute::kSimple) {}
};
struct Ordered : TestTask {
  Ordered() : TestTask(Attribute::kOrdered) {}
};
struct HeadOfQueue : TestTask {
  HeadOfQueue() : TestTask(Attribute::kHeadOfQueue) {}
};
struct Aca : TestTask {
  Aca() : TestTask(Attribute::kAca) {}
};

TEST(TaskSetTest, SimpleTasksRunTogether) {
  TaskSet set(8);
  Simple a, b;
  EXPECT_EQ(set.Accept(&a), Admission::kEnabled);
  EXPECT_EQ(set.Accept(&b), Admission::kEnabled);
  set.Remove(&a);
  set.Remove(&b);
  EXPECT_TRUE(set.empty());
}

TEST(TaskSetTest, AnOrderedTaskWaitsForAllOlderOnes) {
  TaskSet set(8);
  Simple a, b;
  Ordered c;
  set.Accept(&a);
  set.Accept(&b);
  EXPECT_EQ(set.Accept(&c), Admission::kDormant);
  set.Remove(&a);
  EXPECT_EQ(set.NextToEnable(), nullptr);
  set.Remove(&b);
  EXPECT_EQ(set.NextToEnable(), &c);
  EXPECT_EQ(c.phase, Task::Phase::kEnabled);
}

TEST(TaskSetTest, AnOrderedTaskHoldsYoungerOnesBack) {
  TaskSet set(8);
  Ordered a, d;
  Simple b, c;
  EXPECT_EQ(set.Accept(&a), Admission::kEnabled);
  EXPECT_EQ(set.Accept(&b), Admission::kDormant);
  EXPECT_EQ(set.Accept(&c), Admission::kDormant);
  EXPECT_EQ(set.Accept(&d), Admission::kDormant);
  EXPECT_EQ(set.NextToEnable(), nullptr);
  set.Remove(&a);
  EXPECT_EQ(set.NextToEnable(), &b);
  EXPECT_EQ(set.NextToEnable(), &c);
  EXPECT_EQ(set.NextToEnable(), nullptr);
  set.Remove(&b);
  set.Remove(&c);
  EXPECT_EQ(set.NextToEnable(), &d);
}

TEST(TaskSetTest, AHeadOfQueueTaskRunsAtOnceAndHoldsNewOnesBack) {
  TaskSet set(8);
  Simple a, d;
  Ordered b;
  HeadOfQueue c;
  set.Accept(&a);
  set.Accept(&b);
  EXPECT_EQ(set.Accept(&c), Admission::kEnabled);
  EXPECT_EQ(set.Accept(&d), Admission::kDormant);
  set.Remove(&a);
  EXPECT_EQ(set.NextToEnable(), nullptr) << "ordered, with c under way";
  set.Remove(&c);
  EXPECT_EQ(set.NextToEnable(), &b);
  EXPECT_EQ(set.NextToEnable(), nullptr);
  set.Remove(&b);
  EXPECT_EQ(set.NextToEnable(), &d);
}

TEST(TaskSetTest, ASimpleTaskWaitsForHeadOfQueueTasks) {
  TaskSet set(8);
  HeadOfQueue a, b;
  Simple c;
  set.Accept(&a);
  EXPECT_EQ(set.Accept(&b), Admission::kEnabled);
  EXPECT_EQ(set.Accept(&c), Admission::kDormant);
  set.Remove(&a);
  EXPECT_EQ(set.NextToEnable(), nullptr);
  set.Remove(&b);
  EXPECT_EQ(set.NextToEnable(), &c);
}

TEST(TaskSetTest, RemovingADormantTaskKeepsTheOrder) {
  TaskSet set(8);
  Ordered a, b;
  Simple c, d;
  set.Accept(&a);
  set.Accept(&b);
  set.Accept(&c);
  set.Remove(&b);
  set.Remove(&a);
  EXPECT_EQ(set.NextToEnable(), &c);
  EXPECT_EQ(set.Accept(&d), Admission::kEnabled) << "nothing constrains it";
}

TEST(TaskSetTest, IsFullAtItsBoundWithDormantTasksCounted) {
  TaskSet set(2);
  Ordered a, b;
  Simple c;
  HeadOfQueue d;
  set.Accept(&a);
  set.Accept(&b);
  EXPECT_EQ(set.Accept(&c), Admission::kFull);
  EXPECT_EQ(set.Accept(&d), Admission::kFull);
  set.Remove(&b);
  EXPECT_EQ(set.Accept(&c), Admission::kDormant);
}

TEST(TaskSetTest, AnAcaConditionAdmitsOneAcaTaskAtATime) {
  TaskSet set(8);
  Simple a, blocked;
  Ordered b;
  HeadOfQueue c;
  Aca d, e;
  EXPECT_EQ(set.Accept(&d), Admission::kInvalidAca);
  set.Accept(&blocked);
  set.Accept(&b);
  set.set_aca(true);
  EXPECT_EQ(set.Accept(&a), Admission::kAcaActive);
  EXPECT_EQ(set.Accept(&c), Admission::kAcaActive);
  EXPECT_EQ(set.Accept(&d), Admission::kEnabled);
  EXPECT_EQ(set.Accept(&e), Admission::kAcaActive);
  set.Remove(&blocked);
  set.Remove(&d);
  EXPECT_EQ(set.NextToEnable(), nullptr) << "blocked by the condition";
  EXPECT_EQ(set.Accept(&e), Admission::kEnabled);
  set.Remove(&e);
  set.set_aca(false);
  EXPECT_EQ(set.NextToEnable(), &b);
  set.Remove(&b);
  EXPECT_EQ(set.Accept(&a), Admission::kEnabled) << "all constraints are gone";
}

}  // namespace
}  // namespace skiff::scsi
