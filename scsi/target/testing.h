#ifndef SKIFF_SCSI_TARGET_TESTING_H_
#define SKIFF_SCSI_TARGET_TESTING_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "scsi/sense.h"
#include "scsi/target/target.h"
#include "transport/reactor/epoll_reactor.h"

namespace skiff::scsi::testing {

using Bytes = std::vector<uint8_t>;

// A command and what came of it. Keep it until it was released.
struct TestCommand {
  TestCommand() = default;
  // Data-in room and data-out are as long as given.
  TestCommand(const Bytes& cdb, const Bytes& data_out, uint32_t data_in_room,
              uint64_t lun = 0);
  TestCommand(const TestCommand&) = delete;
  TestCommand& operator=(const TestCommand&) = delete;

  Task task;
  Bytes data_out;
  Bytes data_in;

  bool completed = false;
  bool aborted = false;
  bool responded = false;  // Aborted with a response.
  bool released = false;

  ScsiStatus status() const { return task.status; }
  std::optional<SenseData> sense() const;
  AdditionalSense code() const;
  // The data-in that came, by the lengths in the task.
  Bytes received() const;
};

// What a command came to, in a line: "GOOD", "BUSY", or sense data in words.
std::string Outcome(const TestCommand& command);

// Of an iSCSI initiator port at the first port of "iqn.2026-01.example:t".
NexusIdentity IdentityOf(const std::string& initiator_port);

// Who is let in, and what they may do, as a test says.
class TestPolicy : public AccessPolicy {
 public:
  absl::Status admission = absl::OkStatus();
  AccessClasses granted;
  AccessVerdict verdict = AccessVerdict::kAllowed;
  // What was asked about, as it came.
  std::vector<NexusIdentity> admitted;
  std::vector<AccessClass> decided;

  absl::Status Admit(const NexusIdentity& nexus) override {
    admitted.push_back(nexus);
    return admission;
  }
  AccessClasses Grant(const NexusIdentity& /*nexus*/,
                      uint64_t /*lun*/) override {
    return granted;
  }
  AccessVerdict Decide(const NexusIdentity& /*nexus*/, uint64_t /*lun*/,
                       AccessClass access) override {
    decided.push_back(access);
    return verdict;
  }
};

// A target port that a test scripts. Transfers finish when the test says so, or
// at once.
class FakeTargetPort : public TargetPort {
 public:
  // When false, tasks stay with the port until ReleaseCompleted().
  bool auto_release = true;
  // When false, Data-Out waits for FinishTransfers().
  bool immediate_data_out = true;

  void set_nexus(Nexus* nexus) { nexus_ = nexus; }

  TransferResult ReceiveDataOut(Task* task, uint32_t offset, uint8_t* to,
                                uint32_t length) override;
  void SendDataIn(Task* task, uint32_t offset, const uint8_t* from,
                  uint32_t length) override;
  void Complete(Task* task, uint32_t offset, const uint8_t* from,
                uint32_t length) override;
  void Aborted(Task* task, bool respond) override;
  void CancelTransfers(Task* task) override;
  void AsyncEvent(uint64_t lun, const uint8_t* sense, size_t length) override;
  uint64_t DataInTaken() const override {
    return data_in_taken += taken_between_looks;
  }
  void EndNexus(absl::string_view why) override { ends.emplace_back(why); }

  // Performs the transfers that wait, and those that follow. Returns how many.
  int FinishTransfers();
  // Performs the one that waits longest.
  void FinishTransfer();
  // Performs those that were cancelled.
  void FinishCancelled();
  size_t waiting_transfers() const { return transfers_.size(); }
  void ReleaseCompleted();

  struct Event {
    uint64_t lun;
    SenseData sense;
  };
  std::vector<Event> events;
  int cancels = 0;
  // What a test says has been taken, and what more each time that somebody
  // looks.
  mutable uint64_t data_in_taken = 0;
  uint64_t taken_between_looks = 0;
  // Why the nexus was to be ended.
  std::vector<std::string> ends;

 private:
  struct Transfer {
    Task* task;
    uint8_t* to;          // Data-Out.
    const uint8_t* from;  // Data-In.
    uint32_t offset;
    uint32_t length;
    bool ok;
  };
  static TestCommand& CommandOf(Task* task);
  void Ended(Task* task);
  void Release(Task* task);

  Nexus* nexus_ = nullptr;
  std::deque<Transfer> transfers_;
  std::vector<Task*> unreleased_;
};

// A reactor that a test turns by hand, with a worker.
class TestReactor {
 public:
  explicit TestReactor(const WorkerOptions& options = SmallPool());
  transport::EpollReactor* reactor() { return reactor_.get(); }
  Worker* worker() { return worker_.get(); }
  void Turn() { reactor_->Poll(); }

  static WorkerOptions SmallPool() {
    return {.buffer_pool_bytes = 4u << 20, .buffer_bytes = 256u << 10};
  }

 private:
  std::unique_ptr<transport::EpollReactor> reactor_;
  std::unique_ptr<Worker> worker_;
};

// A nexus with its port. Closes the nexus when it goes.
class TestNexus {
 public:
  TestNexus(Target* target, TestReactor* reactor,
            const std::string& initiator = "iqn.2026-01.example:i,i,0x1")
      : TestNexus(target, reactor, IdentityOf(initiator)) {}
  TestNexus(Target* target, TestReactor* reactor,
            const NexusIdentity& identity);
  ~TestNexus();

  // Submits, turns the reactor and transfers until the command ended.
  void Run(TestCommand* command);
  void Submit(TestCommand* command);
  // Turns the reactor and finishes transfers, until nothing happens any more.
  void Settle();
  // TEST UNIT READY until no unit attention is left.
  void ClearUnitAttentions(uint64_t lun = 0);
  TaskManagementResult Manage(TaskManagement function, uint64_t lun = 0,
                              Task* task = nullptr);
  void Close();
  // The test has closed the nexus itself.
  void Abandon() { nexus_.reset(); }

  FakeTargetPort port;
  Nexus* nexus() { return nexus_.get(); }
  TestReactor* reactor() { return reactor_; }

 private:
  TestReactor* const reactor_;
  std::unique_ptr<Nexus> nexus_;
};

// A target with one logical unit, LUN 0, and one nexus without pending unit
// attentions.
class TestTarget {
 public:
  explicit TestTarget(std::shared_ptr<Backend> backend,
                      const LogicalUnitOptions& options = {},
                      const WorkerOptions& worker = TestReactor::SmallPool());

  // Runs the command on LUN 0 and returns what came of it.
  std::unique_ptr<TestCommand> Run(const Bytes& cdb, const Bytes& data_out = {},
                                   uint32_t data_in_room = 0);

  Target* target() { return target_.get(); }
  TestReactor& reactor() { return reactor_; }
  TestNexus& nexus() { return *nexus_; }
  FakeTargetPort& port() { return nexus_->port; }

 private:
  std::unique_ptr<Target> target_;
  TestReactor reactor_;
  std::unique_ptr<TestNexus> nexus_;
};

// CDB builders for what many tests need.
Bytes Cdb10(uint8_t opcode, uint32_t lba, uint16_t blocks, uint8_t flags = 0);
Bytes Cdb16(uint8_t opcode, uint64_t lba, uint32_t blocks, uint8_t flags = 0);
Bytes Pattern(size_t length, uint8_t seed);

}  // namespace skiff::scsi::testing

#endif  // SKIFF_SCSI_TARGET_TESTING_H_
