#include "scsi/target/testing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "scsi/endian.h"

namespace skiff::scsi::testing {

TestCommand::TestCommand(const Bytes& cdb, const Bytes& data_out,
                         uint32_t data_in_room, uint64_t lun)
    : data_out(data_out), data_in(data_in_room) {
  task.lun = lun;
  task.cdb.fill(0);
  std::copy(cdb.begin(), cdb.end(), task.cdb.begin());
  task.cdb_length = static_cast<uint16_t>(std::max<size_t>(cdb.size(), 16));
  task.data_out_length = static_cast<uint32_t>(data_out.size());
  task.data_in_length = data_in_room;
  task.port_context = this;
}

std::optional<SenseData> TestCommand::sense() const {
  return DecodeSense({task.sense.data(), task.sense_length});
}

AdditionalSense TestCommand::code() const {
  const auto decoded = sense();
  return decoded.has_value() ? decoded->code : AdditionalSense::kNone;
}

Bytes TestCommand::received() const {
  const uint64_t length =
      std::min<uint64_t>(task.data_in_wanted, data_in.size());
  return Bytes(data_in.begin(), data_in.begin() + length);
}

std::string Outcome(const TestCommand& command) {
  if (command.aborted) return command.responded ? "TASK ABORTED" : "aborted";
  if (!command.completed) return "pending";
  switch (command.status()) {
    case ScsiStatus::kGood:
      return "GOOD";
    case ScsiStatus::kCheckCondition: {
      const auto sense = command.sense();
      return sense.has_value() ? DescribeSense(*sense) : "no sense data";
    }
    case ScsiStatus::kBusy:
      return "BUSY";
    case ScsiStatus::kTaskSetFull:
      return "TASK SET FULL";
    case ScsiStatus::kAcaActive:
      return "ACA ACTIVE";
    default:
      return "another status";
  }
}

NexusIdentity IdentityOf(const std::string& initiator_port) {
  return {.protocol = ProtocolIdentifier::kIscsi,
          .initiator = initiator_port.substr(0, initiator_port.find(',')),
          .initiator_port = initiator_port,
          .target_port = "iqn.2026-01.example:t,t,0x1"};
}

TestCommand& FakeTargetPort::CommandOf(Task* task) {
  return *static_cast<TestCommand*>(task->port_context);
}

TransferResult FakeTargetPort::ReceiveDataOut(Task* task, uint32_t offset,
                                              uint8_t* to, uint32_t length) {
  TestCommand& command = CommandOf(task);
  EXPECT_LE(uint64_t{offset} + length, command.data_out.size());
  if (immediate_data_out) {
    std::memcpy(to, command.data_out.data() + offset, length);
    return TransferResult::kDone;
  }
  transfers_.push_back({task, to, nullptr, offset, length, true});
  return TransferResult::kPending;
}

void FakeTargetPort::SendDataIn(Task* task, uint32_t offset,
                                const uint8_t* from, uint32_t length) {
  EXPECT_LE(uint64_t{offset} + length, CommandOf(task).data_in.size());
  transfers_.push_back({task, nullptr, from, offset, length, true});
}

void FakeTargetPort::Complete(Task* task, uint32_t offset, const uint8_t* from,
                              uint32_t length) {
  TestCommand& command = CommandOf(task);
  EXPECT_FALSE(command.completed || command.aborted);
  EXPECT_LE(uint64_t{offset} + length, command.data_in.size());
  // Data of an earlier SendDataIn go first.
  for (Transfer& t : transfers_) {
    if (t.task == task) ADD_FAILURE() << "completed with a transfer under way";
  }
  if (length > 0) std::memcpy(command.data_in.data() + offset, from, length);
  command.completed = true;
  Ended(task);
}

void FakeTargetPort::Aborted(Task* task, bool respond) {
  TestCommand& command = CommandOf(task);
  EXPECT_FALSE(command.completed || command.aborted);
  for (Transfer& t : transfers_) EXPECT_NE(t.task, task);
  command.aborted = true;
  command.responded = respond;
  Ended(task);
}

// Takes no memory where it is released at once.
void FakeTargetPort::Ended(Task* task) {
  if (!auto_release) return unreleased_.push_back(task);
  ReleaseCompleted();
  Release(task);
}

void FakeTargetPort::Release(Task* task) {
  CommandOf(task).released = true;
  nexus_->Release(task);
}

void FakeTargetPort::ReleaseCompleted() {
  for (Task* task : std::exchange(unreleased_, {})) Release(task);
}

void FakeTargetPort::CancelTransfers(Task* task) {
  ++cancels;
  for (Transfer& t : transfers_) {
    if (t.task == task) t.ok = false;
  }
}

void FakeTargetPort::FinishTransfer() {
  const Transfer t = transfers_.front();
  transfers_.pop_front();
  TestCommand& command = CommandOf(t.task);
  if (t.to != nullptr) {
    if (t.ok) std::memcpy(t.to, command.data_out.data() + t.offset, t.length);
    nexus_->OnDataOut(t.task, t.ok);
  } else {
    if (t.ok) std::memcpy(command.data_in.data() + t.offset, t.from, t.length);
    nexus_->OnDataInSent(t.task, t.ok);
  }
}

void FakeTargetPort::FinishCancelled() {
  std::vector<Task*> cancelled;
  for (const Transfer& t : transfers_) {
    if (!t.ok) cancelled.push_back(t.task);
  }
  transfers_.erase(std::remove_if(transfers_.begin(), transfers_.end(),
                                  [](const Transfer& t) { return !t.ok; }),
                   transfers_.end());
  for (Task* task : cancelled) {
    task->receiving ? nexus_->OnDataOut(task, false)
                    : nexus_->OnDataInSent(task, false);
  }
}

int FakeTargetPort::FinishTransfers() {
  int finished = 0;
  for (; !transfers_.empty(); ++finished) FinishTransfer();
  return finished;
}

void FakeTargetPort::AsyncEvent(uint64_t lun, const uint8_t* sense,
                                size_t length) {
  const auto decoded = DecodeSense({sense, length});
  ASSERT_TRUE(decoded.has_value());
  events.push_back({lun, *decoded});
}

TestReactor::TestReactor(const WorkerOptions& options) {
  auto reactor = transport::EpollReactor::Create();
  EXPECT_TRUE(reactor.ok()) << reactor.status();
  reactor_ = *std::move(reactor);
  auto worker = Worker::Create(reactor_.get(), options);
  EXPECT_TRUE(worker.ok()) << worker.status();
  worker_ = *std::move(worker);
}

TestNexus::TestNexus(Target* target, TestReactor* reactor,
                     const NexusIdentity& identity)
    : reactor_(reactor) {
  auto nexus = target->OpenNexus(reactor->worker(), &port, identity);
  EXPECT_TRUE(nexus.ok()) << nexus.status();
  nexus_ = *std::move(nexus);
  port.set_nexus(nexus_.get());
}

TestNexus::~TestNexus() {
  if (nexus_ != nullptr) Close();
}

void TestNexus::Close() {
  bool closed = false;
  nexus_->Close([&] { closed = true; });
  for (int i = 0; i < 1000 && !closed; ++i) {
    port.FinishTransfers();
    reactor_->Turn();
  }
  EXPECT_TRUE(closed);
  port.ReleaseCompleted();
  nexus_.reset();
}

void TestNexus::Submit(TestCommand* command) { nexus_->Submit(&command->task); }

void TestNexus::Run(TestCommand* command) {
  Submit(command);
  for (int i = 0; i < 100000 && !command->completed && !command->aborted; ++i) {
    port.FinishTransfers();
    reactor_->Turn();
  }
  EXPECT_TRUE(command->completed || command->aborted);
}

void TestNexus::Settle() {
  for (int i = 0; i < 8; ++i) {
    if (port.FinishTransfers() > 0) i = 0;
    reactor_->Turn();
  }
}

void TestNexus::ClearUnitAttentions(uint64_t lun) {
  for (size_t i = 0; i < 16; ++i) {
    TestCommand command(Bytes(6), {}, 0, lun);
    Run(&command);
    if (command.status() == ScsiStatus::kGood) return;
  }
  ADD_FAILURE() << "unit attentions do not end";
}

TaskManagementResult TestNexus::Manage(TaskManagement function, uint64_t lun,
                                       Task* task) {
  std::optional<TaskManagementResult> result;
  nexus_->Manage(function, lun, task,
                 [&](TaskManagementResult r) { result = r; });
  for (int i = 0; i < 1000 && !result.has_value(); ++i) {
    port.FinishTransfers();
    reactor_->Turn();
  }
  EXPECT_TRUE(result.has_value());
  return result.value_or(TaskManagementResult::kNotSupported);
}

TestTarget::TestTarget(std::shared_ptr<Backend> backend,
                       const LogicalUnitOptions& options,
                       const WorkerOptions& worker)
    : target_(Target::Create("iqn.2026-01.example:t")), reactor_(worker) {
  const absl::Status added =
      target_->AddLogicalUnit(std::move(backend), options);
  EXPECT_TRUE(added.ok()) << added;
  nexus_ = std::make_unique<TestNexus>(target_.get(), &reactor_);
  nexus_->ClearUnitAttentions();
}

std::unique_ptr<TestCommand> TestTarget::Run(const Bytes& cdb,
                                             const Bytes& data_out,
                                             uint32_t data_in_room) {
  auto command = std::make_unique<TestCommand>(cdb, data_out, data_in_room);
  nexus_->Run(command.get());
  return command;
}

Bytes Cdb10(uint8_t opcode, uint32_t lba, uint16_t blocks, uint8_t flags) {
  Bytes cdb(10);
  cdb[0] = opcode;
  cdb[1] = flags;
  StoreBe32(&cdb[2], lba);
  StoreBe16(&cdb[7], blocks);
  return cdb;
}

Bytes Cdb16(uint8_t opcode, uint64_t lba, uint32_t blocks, uint8_t flags) {
  Bytes cdb(16);
  cdb[0] = opcode;
  cdb[1] = flags;
  StoreBe64(&cdb[2], lba);
  StoreBe32(&cdb[10], blocks);
  return cdb;
}

Bytes Pattern(size_t length, uint8_t seed) {
  Bytes bytes(length);
  uint32_t state = seed * 2654435761u + 1;
  for (uint8_t& byte : bytes) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<uint8_t>(state >> 24);
  }
  return bytes;
}

}  // namespace skiff::scsi::testing
