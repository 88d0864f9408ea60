#include "protocol/datamover/iser/iser_channel.h"

#include <memory>
#include <new>
#include <vector>

#include "gtest/gtest.h"
#include "protocol/codec/pdu.h"
#include "testing/sim/sim_memory.h"
#include "testing/sim/sim_rdma.h"
#include "testing/sim/sim_world.h"

namespace skiff::protocol {
namespace {

class FakeHandler : public IserChannel::Handler {
 public:
  void OnMessage(const IserMessage& /*message*/,
                 const transport::RemoteKey* /*invalidated*/) override {}
  void OnBadMessage(const absl::Status& /*why*/) override {}
  void OnDone(TaskSlot task, IserWork /*work*/, bool ok) override {
    EXPECT_FALSE(ok);
    done.push_back(task);
    if (done.size() == 1) throw std::bad_alloc();
  }
  void OnBroken(const absl::Status& why) override { ADD_FAILURE() << why; }
  uint32_t TagOf(TaskSlot task) const override { return task; }

  std::vector<TaskSlot> done;
};

// Who is told of the end of an operation may have no memory for that.
TEST(IserChannelTest, EndsWhatIsLeftWhenItIsTerminatedAgain) {
  testing::SimWorld world(1);
  const auto domain = std::make_shared<testing::SimDomain>(
      &world, "host", testing::SimRdmaOptions::InfiniBand().capabilities,
      false);
  const auto memory = IserMemory::Create(domain.get(), {}).value();
  FakeHandler handler;
  IserChannel channel(memory.get(), {}, &handler);
  ASSERT_TRUE(channel.Reserve(4, 4).ok());
  for (const TaskSlot task : {3, 4, 5}) {
    IserOutgoing message;
    message.task = task;
    ASSERT_TRUE(channel.Send(NopInPdu(), message));
  }
  EXPECT_THROW(channel.Terminate(), std::bad_alloc);
  EXPECT_TRUE(channel.terminated());
  channel.Terminate();
  EXPECT_EQ(handler.done, (std::vector<TaskSlot>{3, 4, 5}));
  EXPECT_EQ(channel.BuffersOf(memory.get()), 0u) << "others may have them";
}

}  // namespace
}  // namespace skiff::protocol
