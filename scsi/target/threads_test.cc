// Two reactors on two threads: what crosses them must not race (run with
// ThreadSanitizer), and what is atomic must be so.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "scsi/backend/ram_backend.h"
#include "scsi/endian.h"
#include "scsi/target/testing.h"

namespace skiff::scsi {
namespace {

using testing::Bytes;
using testing::Cdb10;
using testing::Cdb16;
using testing::TestCommand;
using testing::TestReactor;

constexpr uint32_t kBlock = 512;

// A port that keeps its tasks busy from its reactor's turns: Data-Out arrives
// one turn later, a finished command is submitted again until the port stops.
class BusyPort : public TargetPort {
 public:
  // Prepares a command's next round; false: it is not submitted again.
  using Next = std::function<bool(TestCommand*)>;

  BusyPort(Target* target, TestReactor* reactor, const std::string& name)
      : reactor_(reactor->reactor()) {
    auto nexus =
        target->OpenNexus(reactor->worker(), this, testing::IdentityOf(name));
    EXPECT_TRUE(nexus.ok()) << nexus.status();
    nexus_ = *std::move(nexus);
  }

  void Start(TestCommand* command, Next* next) {
    command->task.port_context = command;
    next_ = next;
    ++outstanding_;
    nexus_->Submit(&command->task);
  }
  void Close() {
    nexus_->Close([this] { closed_ = true; });
  }
  bool closed() const { return closed_; }
  void Destroy() { nexus_.reset(); }
  int outstanding() const { return outstanding_; }
  int aborted() const { return aborted_; }
  Nexus* nexus() { return nexus_.get(); }

  TransferResult ReceiveDataOut(Task* task, uint32_t offset, uint8_t* to,
                                uint32_t length) override {
    reactor_->Post([this, task, offset, to, length] {
      const auto* command = static_cast<TestCommand*>(task->port_context);
      std::memcpy(to, command->data_out.data() + offset, length);
      nexus_->OnDataOut(task, true);
    });
    return TransferResult::kPending;
  }
  void SendDataIn(Task* task, uint32_t, const uint8_t*, uint32_t) override {
    reactor_->Post([this, task] { nexus_->OnDataInSent(task, true); });
  }
  void Complete(Task* task, uint32_t offset, const uint8_t* from,
                uint32_t length) override {
    auto* command = static_cast<TestCommand*>(task->port_context);
    if (length > 0) std::memcpy(command->data_in.data() + offset, from, length);
    Again(command);
  }
  void Aborted(Task* task, bool) override {
    ++aborted_;
    Again(static_cast<TestCommand*>(task->port_context));
  }
  void CancelTransfers(Task*) override {}
  void AsyncEvent(uint64_t, const uint8_t*, size_t) override {}
  uint64_t DataInTaken() const override { return 0; }
  void EndNexus(absl::string_view) override {}

 private:
  void Again(TestCommand* command) {
    nexus_->Release(&command->task);
    if (!(*next_)(command)) {
      --outstanding_;
      return;
    }
    // In a turn of its own, so that tasks of one nexus do not recurse.
    reactor_->Post([this, command] { nexus_->Submit(&command->task); });
  }

  transport::EpollReactor* const reactor_;
  std::unique_ptr<Nexus> nexus_;
  Next* next_ = nullptr;
  int outstanding_ = 0;
  int aborted_ = 0;
  bool closed_ = false;
};

class ThreadsTest : public ::testing::Test {
 protected:
  ThreadsTest() : target_(Target::Create("iqn.2026-01.example:t")) {
    RamBackendOptions options;
    options.size_bytes = 1 << 20;
    options.thin = true;
    auto backend = MakeRamBackend(options);
    EXPECT_TRUE(backend.ok());
    backend_ = *std::move(backend);
    EXPECT_TRUE(target_->AddLogicalUnit(backend_, {}).ok());
  }

  // Runs `body` on two threads, each with a reactor and a nexus of its own,
  // which are closed afterwards. Both reactors turn until both bodies ended.
  void OnTwoThreads(
      const std::function<void(int, TestReactor*, BusyPort*)>& body) {
    std::atomic<int> opened{0};
    std::atomic<int> ended{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i) {
      threads.emplace_back([&, i] {
        TestReactor reactor;
        BusyPort port(target_.get(), &reactor, "initiator" + std::to_string(i));
        ++opened;
        while (opened < 2) std::this_thread::yield();
        body(i, &reactor, &port);
        ++ended;
        while (ended < 2) reactor.Turn();
        port.Close();
        while (!port.closed()) reactor.Turn();
        port.Destroy();
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  std::shared_ptr<Backend> backend_;
  std::unique_ptr<Target> target_;
};

// What both threads write to blocks 1 and 2, to compare and to write.
Bytes Covering() {
  Bytes data(4 * kBlock, 1);
  std::fill_n(data.begin() + kBlock, kBlock, 2);
  std::fill_n(data.begin() + 3 * kBlock, kBlock, 2);
  return data;
}

// Each thread increments a counter in block 0 by COMPARE AND WRITE, again
// whenever another was faster, while plain writes go to block 1: no increment
// is lost, and no write starves.
TEST_F(ThreadsTest, CompareAndWriteIsAtomic) {
  constexpr int kIncrements = 300;
  std::atomic<int> writes{0};
  std::atomic<int> covered{0};
  OnTwoThreads([&](int id, TestReactor* reactor, BusyPort* port) {
    int increments = 0;
    uint64_t expected = 0;
    TestCommand swap(Cdb16(0x89, 0, 1), Bytes(2 * kBlock), 0);
    TestCommand write(Cdb10(0x2a, 1 + id, 1), Bytes(kBlock, 1 + id), 0);
    TestCommand cover(Cdb16(0x89, 1, 2), Covering(), 0);
    BusyPort::Next next = [&](TestCommand* command) {
      if (command == &swap) {
        if (command->status() == ScsiStatus::kGood) {
          ++increments;
          ++expected;
        } else if (command->sense()->key == SenseKey::kMiscompare) {
          ++expected;  // The counter never runs behind what is expected.
        }
        StoreBe64(&command->data_out[0], expected);
        StoreBe64(&command->data_out[kBlock], expected + 1);
      } else if (command == &write) {
        ++writes;
      } else if (command->status() == ScsiStatus::kGood) {
        ++covered;
      }
      return increments < kIncrements;
    };
    StoreBe64(&swap.data_out[kBlock], 1);
    port->Start(&swap, &next);
    port->Start(&write, &next);
    port->Start(&cover, &next);
    while (port->outstanding() > 0) reactor->Turn();
  });
  EXPECT_EQ(LoadBe64(backend_->direct_memory()), 2u * kIncrements);
  EXPECT_GT(writes, 0);
  EXPECT_GT(covered, 0);
}

// One thread writes all the time, the other resets the logical unit.
TEST_F(ThreadsTest, ResetsReachTasksOfTheOtherThread) {
  constexpr int kResets = 40;
  std::atomic<bool> stop{false};
  std::atomic<int> aborted{0};
  OnTwoThreads([&](int id, TestReactor* reactor, BusyPort* port) {
    if (id == 0) {
      int done = 0;
      for (int i = 0; i < kResets; ++i) {
        port->nexus()->Manage(
            i % 2 == 0 ? TaskManagement::kLogicalUnitReset
                       : TaskManagement::kTargetReset,
            0, nullptr, [&](TaskManagementResult result) {
              EXPECT_EQ(result, TaskManagementResult::kFunctionComplete);
              ++done;
            });
        while (done <= i) reactor->Turn();
      }
      stop = true;
      return;
    }
    BusyPort::Next next = [&](TestCommand*) { return !stop; };
    std::vector<std::unique_ptr<TestCommand>> commands;
    for (uint32_t i = 0; i < 8; ++i) {
      commands.push_back(std::make_unique<TestCommand>(Cdb10(0x2a, i * 4, 4),
                                                       Bytes(4 * kBlock), 0));
      if (i % 4 == 3) {
        commands.back()->task.attribute = Attribute::kOrdered;
      }
      port->Start(commands.back().get(), &next);
    }
    while (port->outstanding() > 0) reactor->Turn();
    aborted = port->aborted();
  });
  EXPECT_GT(aborted, 0);
}

// Logical units come and go, and modes change, while both threads use them.
TEST_F(ThreadsTest, ChangesReachBusyNexuses) {
  std::atomic<bool> stop{false};
  std::atomic<int> good{0};
  std::atomic<int> attentions{0};
  std::atomic<int> gone{0};
  std::thread changer([&] {
    int removed = 0;
    for (; removed < 50 || good < 100; ++removed) {
      LogicalUnitOptions options;
      options.lun = 1 + removed % 3;
      EXPECT_TRUE(target_->AddLogicalUnit(backend_, options).ok());
      target_->NotifyBackendChanged(options.lun);
      target_->NotifyBackendChanged(0);
      std::this_thread::yield();
      EXPECT_TRUE(target_
                      ->RemoveLogicalUnit(
                          options.lun,
                          [&gone](const std::shared_ptr<Backend>&) { ++gone; })
                      .ok());
    }
    while (gone < removed) std::this_thread::yield();
    stop = true;
  });
  OnTwoThreads([&](int id, TestReactor* reactor, BusyPort* port) {
    BusyPort::Next next = [&](TestCommand* command) {
      if (command->status() == ScsiStatus::kGood) ++good;
      if (command->status() == ScsiStatus::kCheckCondition) ++attentions;
      return !stop;
    };
    std::vector<std::unique_ptr<TestCommand>> commands;
    for (uint64_t lun = 0; lun < 4; ++lun) {
      commands.push_back(std::make_unique<TestCommand>(
          Cdb10(0x2a, 64 * (id + 1), 4), Bytes(4 * kBlock), 0, lun << 48));
      port->Start(commands.back().get(), &next);
    }
    Bytes list(16);
    list[4] = 0x0a;
    list[5] = 10;
    list[6] = 0x22;
    list[7] = 0x10;
    TestCommand select({0x15, 0x10, 0, 0, 16, 0}, list, 0);
    BusyPort::Next toggle = [&](TestCommand* command) {
      if (command == &select) command->data_out[6] ^= 0x04;  // D_SENSE.
      return next(command);
    };
    port->Start(&select, &toggle);
    while (port->outstanding() > 0) reactor->Turn();
  });
  changer.join();
  EXPECT_GT(good, 0);
  EXPECT_GT(attentions, 0);
}

// Nexuses open and close while others reset and write.
TEST_F(ThreadsTest, NexusesComeAndGo) {
  OnTwoThreads([&](int id, TestReactor* reactor, BusyPort*) {
    for (int i = 0; i < 25; ++i) {
      BusyPort passing(target_.get(), reactor, "passing" + std::to_string(id));
      TestCommand write(Cdb10(0x2a, 8 + 8 * id, 4), Bytes(4 * kBlock), 0);
      TestCommand swap(Cdb16(0x89, 0, 1), Bytes(2 * kBlock), 0);
      BusyPort::Next once = [&](TestCommand*) { return false; };
      passing.nexus()->Manage(TaskManagement::kLogicalUnitReset, 0, nullptr,
                              [](TaskManagementResult) {});
      passing.Start(&write, &once);
      passing.Start(&swap, &once);
      for (int turns = 0; turns < i % 4; ++turns) reactor->Turn();
      passing.Close();
      while (!passing.closed() || passing.outstanding() > 0) reactor->Turn();
      passing.Destroy();
    }
  });
}

}  // namespace
}  // namespace skiff::scsi
