#include "testing/stack/stack_test_util.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "scsi/backend/ram_backend.h"

namespace skiff::protocol {
namespace {

constexpr uint8_t kGood = 0x00;
constexpr uint8_t kCheckCondition = 0x02;
constexpr uint8_t kBusy = 0x08;
constexpr uint8_t kTaskSetFull = 0x28;
constexpr uint8_t kUnitAttention = 0x06;

bool IsBusy(const scsi::Command& command) {
  return command.outcome == scsi::Command::Outcome::kCompleted &&
         (command.status == kBusy || command.status == kTaskSetFull);
}

}  // namespace

bool IsUnitAttention(const scsi::Command& command) {
  return command.outcome == scsi::Command::Outcome::kCompleted &&
         command.status == kCheckCondition && command.sense_length > 2 &&
         (command.sense[2] & 0x0f) == kUnitAttention;
}

std::shared_ptr<scsi::Target> MakeRamTarget(bool thin) {
  std::shared_ptr<scsi::Target> target = scsi::Target::Create(kTargetName);
  scsi::RamBackendOptions ram;
  ram.size_bytes = kBlocks * kBlock;
  ram.block_size = kBlock;
  ram.thin = thin;
  const absl::Status added = target->AddLogicalUnit(
      scsi::MakeRamBackend(ram).value(), scsi::LogicalUnitOptions());
  EXPECT_TRUE(added.ok()) << added;
  return target;
}

VerifiedLoad::VerifiedLoad(scsi::CommandPort* port, testing::SimRandom* random,
                           const Options& options)
    : port_(port),
      random_(random),
      options_(options),
      medium_(kBlocks * kBlock, '\0'),
      commands_(options.commands) {
  for (uint32_t i = 0; i < options.depth; ++i) {
    Slot& slot = slots_.emplace_back();
    slot.load = this;
    slot.index = i;
    slot.buffer = std::make_unique<testing::GuardPages>(
        size_t{options.max_blocks} * kBlock);
    slot.command.context = &slot;
    slot.command.done = [](scsi::Command* command) {
      auto* done = static_cast<Slot*>(command->context);
      done->load->OnDone(done);
    };
  }
}

void VerifiedLoad::Start() {
  for (Slot& slot : slots_) {
    if (started_ < commands_) Submit(&slot);
  }
}

void VerifiedLoad::Submit(Slot* slot) {
  ++started_;
  // Each slot has its own part of the medium.
  const uint64_t share = kBlocks / options_.depth;
  slot->write = random_->Below(2) == 0;
  slot->blocks =
      1 + random_->Below(std::min<uint64_t>(options_.max_blocks, share));
  slot->lba = slot->index * share + random_->Below(share - slot->blocks + 1);
  testing::GuardPages& buffer = *slot->buffer;
  buffer.Use(size_t{slot->blocks} * kBlock, '\xee');
  if (slot->write) {
    for (size_t i = 0; i < buffer.size(); i += 8) {
      const uint64_t word = random_->Next();
      std::memcpy(buffer.data() + i, &word, sizeof(word));
    }
  }
  slot->iov.clear();
  size_t at = 0;
  for (int i = 1; i <= options_.pieces; ++i) {
    const size_t end = i == options_.pieces
                           ? buffer.size()
                           : at + random_->Below(buffer.size() - at + 1);
    slot->iov.push_back({buffer.data() + at, end - at});
    at = end;
  }
  scsi::Command& command = slot->command;
  command.lun = options_.lun;
  SetCdb(slot->write ? scsi::cdb::Write(slot->lba, slot->blocks)
                     : scsi::cdb::Read(slot->lba, slot->blocks),
         &command);
  const auto length = static_cast<uint32_t>(buffer.size());
  command.data_out = slot->write ? slot->iov.data() : nullptr;
  command.data_out_count = slot->write ? options_.pieces : 0;
  command.data_out_length = slot->write ? length : 0;
  command.data_in = slot->write ? nullptr : slot->iov.data();
  command.data_in_count = slot->write ? 0 : options_.pieces;
  command.data_in_length = slot->write ? 0 : length;
  port_->Submit(&command);
}

void VerifiedLoad::OnDone(Slot* slot) {
  const scsi::Command& command = slot->command;
  if (IsUnitAttention(command)) {
    ++unit_attentions_;
    port_->Submit(&slot->command);
    return;
  }
  if (IsBusy(command)) {
    ++busy_;
    port_->Submit(&slot->command);
    return;
  }
  Check(slot);
  ++completed_;
  if (started_ < commands_) Submit(slot);
}

void VerifiedLoad::Check(Slot* slot) {
  const scsi::Command& command = slot->command;
  const size_t offset = slot->lba * kBlock;
  const absl::string_view data = slot->buffer->view();
  if (!slot->buffer->intact()) {
    errors_.push_back(absl::StrCat("memory before the buffer of ", data.size(),
                                   " bytes was written to"));
  }
  if (command.outcome != scsi::Command::Outcome::kCompleted ||
      command.status != kGood || command.underflow || command.overflow) {
    errors_.push_back(absl::StrCat(
        slot->write ? "write" : "read", " of ", slot->blocks, " blocks at ",
        slot->lba, ": outcome ", static_cast<int>(command.outcome), ", status ",
        command.status, ", residual ", command.residual));
    return;
  }
  if (slot->write) {
    medium_.replace(offset, data.size(), data.data(), data.size());
  } else if (absl::string_view(medium_).substr(offset, data.size()) != data) {
    errors_.push_back(
        absl::StrCat("wrong data in ", slot->blocks, " blocks at ", slot->lba));
  }
}

TestCommand::TestCommand(const scsi::Cdb& cdb, uint32_t in,
                         const std::string& out)
    : buffer(out.empty() ? std::string(in, '\xee') : out),
      iov{buffer.data(), buffer.size()} {
  SetCdb(cdb, &command);
  if (out.empty()) {
    command.data_in = &iov;
    command.data_in_count = 1;
    command.data_in_length = in;
  } else {
    command.data_out = &iov;
    command.data_out_count = 1;
    command.data_out_length = static_cast<uint32_t>(out.size());
  }
  command.context = this;
  command.done = [](scsi::Command* c) {
    static_cast<TestCommand*>(c->context)->finished = true;
  };
}

Stack::Stack(std::string address, absl::Duration patience)
    : portal(std::move(address)),
      target(MakeRamTarget()),
      patience_(patience) {}

void Stack::StartServer() {
  server =
      TargetServer::Create(&registry, ServerReactors(), server_options).value();
  EXPECT_TRUE(server->AddTarget(target).ok());
  portal = Listen(portal);
}

std::string Stack::Listen(const std::string& address) {
  std::string bound;
  RunOnServer([&] {
    const auto listening =
        server->Listen(transport::Address::Parse(address).value());
    ASSERT_TRUE(listening.ok()) << listening.status();
    bound = listening->ToString();
  });
  return bound;
}

void Stack::StopServer(absl::Duration grace) {
  if (server == nullptr) return;
  std::atomic<bool> down{false};
  server->Shutdown(grace, [&down] { down = true; });
  EXPECT_TRUE(RunUntil([&down] { return down.load(); }, grace + patience_));
  RunOnServer([this] { server.reset(); });
}

namespace {

// What a call that gives a T to a function says, once it does.
template <typename T, typename Ask>
T Answer(Stack* stack, Ask ask) {
  struct Answered {
    T answer;
    std::atomic<bool> done{false};
  };
  // Shared, since a server with threads of its own may be late.
  const auto answered = std::make_shared<Answered>();
  ask([answered](T answer) {
    answered->answer = std::move(answer);
    answered->done = true;
  });
  EXPECT_TRUE(stack->RunUntil([&answered] { return answered->done.load(); }));
  return answered->done ? std::move(answered->answer) : T();
}

}  // namespace

std::vector<SessionInfo> Stack::Sessions() {
  return Answer<std::vector<SessionInfo>>(
      this, [this](auto done) { server->ListSessions(std::move(done)); });
}

ServerCounts Stack::Counts() {
  return Answer<ServerCounts>(
      this, [this](auto done) { server->ReportCounts(std::move(done)); });
}

void Stack::LeaveHost() {
  left_behind_.push_back(std::move(initiator));
  MoveToNewHost();
}

void Stack::End() {
  initiator.reset();
  left_behind_.clear();
  StopServer();
}

InitiatorOptions Stack::Options() const {
  InitiatorOptions options;
  options.portal = transport::Address::Parse(portal).value();
  options.target_name = kTargetName;
  options.initiator_name = "iqn.2001-04.com.example:host";
  options.isid = {0x80, 1, 2, 3, 0, 1};
  options.reconnect.seed = 1;
  return options;
}

void Stack::Connect(const InitiatorOptions& options) {
  InitiatorOptions logged = options;
  logged.log = [this](absl::string_view line) { log.emplace_back(line); };
  ready_.reset();
  initiator = Initiator::Create(
                  &registry, initiator_reactor(), logged,
                  [this](absl::Status status) { ready_ = std::move(status); })
                  .value();
}

void Stack::LogIn(const InitiatorOptions& options) {
  Connect(options);
  ASSERT_TRUE(RunUntil([this] { return ready_.has_value(); }));
  ASSERT_TRUE(ready_->ok()) << *ready_;
}

void Stack::Run(scsi::Command* command) {
  bool done = false;
  command->context = &done;
  command->done = [](scsi::Command* c) {
    *static_cast<bool*>(c->context) = true;
  };
  initiator->Submit(command);
  EXPECT_FALSE(done) << "never from inside Submit()";
  ASSERT_TRUE(RunUntil([&done] { return done; }));
}

void Stack::RunToGood(TestCommand* command) {
  scsi::Command& c = command->command;
  do {
    Run(&c);
    ASSERT_EQ(c.outcome, scsi::Command::Outcome::kCompleted);
  } while (IsUnitAttention(c));
  EXPECT_EQ(c.status, kGood);
}

void Stack::RunLoad(const VerifiedLoad::Options& options) {
  auto load =
      std::make_unique<VerifiedLoad>(initiator.get(), &random(), options);
  load->Start();
  EXPECT_TRUE(RunUntil([&load] { return load->done(); }))
      << load->completed() << " commands completed";
  for (const std::string& error : load->errors()) ADD_FAILURE() << error;
  if (!load->done()) unfinished_.push_back(std::move(load));
}

absl::Status Stack::Await(
    const std::function<void(absl::AnyInvocable<void(absl::Status)>)>& start) {
  std::optional<absl::Status> status;
  start([&status](absl::Status s) { status = std::move(s); });
  EXPECT_FALSE(status.has_value());
  EXPECT_TRUE(RunUntil([&status] { return status.has_value(); }));
  return status.value_or(absl::UnknownError("no answer"));
}

}  // namespace skiff::protocol
