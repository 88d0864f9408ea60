// The parts of an initiator's session: window, task table, lists, completions.

#include <vector>

#include "gtest/gtest.h"
#include "protocol/session/callback_queue.h"
#include "protocol/session/command_list.h"
#include "protocol/session/command_window.h"
#include "protocol/session/initiator_task_table.h"

namespace skiff::protocol {
namespace {

TEST(CommandWindowTest, IsClosedUntilTheTargetOpensIt) {
  CommandWindow window(10);
  EXPECT_FALSE(window.open());
  EXPECT_TRUE(window.Update(10, 11));
  EXPECT_TRUE(window.open());
  EXPECT_EQ(window.Take(), 10u);
  EXPECT_EQ(window.Take(), 11u);
  EXPECT_FALSE(window.open());
}

TEST(CommandWindowTest, NeverShrinks) {
  CommandWindow window(10);
  EXPECT_TRUE(window.Update(10, 20));
  EXPECT_TRUE(window.Update(10, 15));
  EXPECT_EQ(window.max_cmd_sn(), 20u);
  window.Take();
  window.Take();
  EXPECT_TRUE(window.Update(12, 20));
  EXPECT_TRUE(window.Update(11, 20));
  EXPECT_EQ(window.exp_cmd_sn(), 12u);
}

TEST(CommandWindowTest, IgnoresWhatContradictsItself) {
  CommandWindow window(10);
  EXPECT_TRUE(window.Update(10, 12));
  // MaxCmdSN < ExpCmdSN - 1: both are ignored, even an absurd ExpCmdSN.
  EXPECT_TRUE(window.Update(500, 498));
  EXPECT_EQ(window.exp_cmd_sn(), 10u);
  EXPECT_EQ(window.max_cmd_sn(), 12u);
  // A closed window is fine.
  EXPECT_TRUE(window.Update(10, 9));
}

TEST(CommandWindowTest, RefusesAcknowledgementsOfWhatWasNotSent) {
  CommandWindow window(10);
  EXPECT_TRUE(window.Update(10, 20));
  window.Take();
  EXPECT_TRUE(window.Update(11, 20));
  EXPECT_FALSE(window.Update(12, 20));
  EXPECT_EQ(window.exp_cmd_sn(), 11u);
}

TEST(CommandWindowTest, Wraps) {
  CommandWindow window(0xfffffffe);
  EXPECT_TRUE(window.Update(0xfffffffe, 1));
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(window.open());
    window.Take();
  }
  EXPECT_FALSE(window.open());
  EXPECT_EQ(window.cmd_sn(), 2u);
  EXPECT_TRUE(window.Update(2, 2));
  EXPECT_TRUE(window.open());
}

TEST(InitiatorTaskTableTest, ATagServesOnce) {
  InitiatorTaskTable table(2);
  scsi::Command command;
  const TaskSlot slot = table.Take(&command);
  const uint32_t tag = table[slot].tag;
  EXPECT_EQ(table.Find(tag), slot);
  table.Release(slot);
  EXPECT_EQ(table.Find(tag), kNoTask);
  EXPECT_EQ(table.Take(&command), slot);
  EXPECT_NE(table[slot].tag, tag);
  EXPECT_EQ(table.Find(tag), kNoTask);
}

TEST(InitiatorTaskTableTest, TagsAreNeverTheReservedOne) {
  InitiatorTaskTable table(1);
  scsi::Command command;
  for (int i = 0; i < 70000; ++i) {
    const TaskSlot slot = table.Take(&command);
    ASSERT_NE(table[slot].tag, kReservedTag);
    ASSERT_EQ(table.Find(table[slot].tag), slot);
    table.Release(slot);
  }
}

TEST(InitiatorTaskTableTest, KeepsTheOrderOfIssue) {
  InitiatorTaskTable table(4);
  scsi::Command command;
  const TaskSlot a = table.Take(&command);
  const TaskSlot b = table.Take(&command);
  const TaskSlot c = table.Take(&command);
  table.Release(b);
  const TaskSlot d = table.Take(&command);
  EXPECT_EQ(table.size(), 3u);
  EXPECT_EQ(table.oldest(), a);
  EXPECT_EQ(table[a].next, c);
  EXPECT_EQ(table[c].next, d);
  EXPECT_EQ(table[d].next, kNoTask);
  table.Release(a);
  table.Release(d);
  EXPECT_EQ(table.oldest(), c);
  EXPECT_EQ(table[c].next, kNoTask);
  table.Release(c);
  EXPECT_TRUE(table.empty());
}

TEST(CommandListTest, QueuesRemovesAndPrepends) {
  scsi::Command commands[4];
  CommandList list;
  CommandList front;
  for (scsi::Command& command : commands) list.PushBack(&command);
  EXPECT_TRUE(list.Remove(&commands[3]));
  EXPECT_TRUE(list.Remove(&commands[1]));
  EXPECT_FALSE(list.Remove(&commands[1]));
  front.PushBack(&commands[3]);
  front.PushBack(&commands[1]);
  list.Prepend(&front);
  EXPECT_TRUE(front.empty());
  EXPECT_EQ(list.size(), 4u);
  for (scsi::Command* expected :
       {&commands[3], &commands[1], &commands[0], &commands[2]}) {
    EXPECT_EQ(list.PopFront(), expected);
  }
  EXPECT_TRUE(list.empty());
  front.PushBack(&commands[0]);
  list.Prepend(&front);
  list.PushBack(&commands[1]);
  EXPECT_EQ(list.PopFront(), &commands[0]);
  EXPECT_EQ(list.PopFront(), &commands[1]);
}

TEST(CallbackQueueTest, ToleratesItsOwnDestruction) {
  auto* queue = new CallbackQueue();
  int ran = 0;
  queue->Add([&] {
    ++ran;
    delete queue;
  });
  queue->Add([&] { ++ran; });
  EXPECT_FALSE(queue->Run());
  EXPECT_EQ(ran, 1);
}

TEST(CallbackQueueTest, LeavesWhatIsAddedMeanwhileForTheNextRun) {
  CallbackQueue queue;
  int ran = 0;
  queue.Add([&] {
    ++ran;
    queue.Add([&] { ++ran; });
    queue.Run();  // Nested: returns at once.
    EXPECT_EQ(ran, 1);
  });
  EXPECT_TRUE(queue.Run());
  EXPECT_EQ(ran, 1);
  EXPECT_FALSE(queue.empty());
  EXPECT_TRUE(queue.Run());
  EXPECT_EQ(ran, 2);
  EXPECT_TRUE(queue.empty());
}

}  // namespace
}  // namespace skiff::protocol
