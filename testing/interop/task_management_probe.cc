// Task management between Skiff's initiator and somebody else's target: aborts
// commands that are in flight, then the task set, then resets the logical unit
// and the target; each command has to end exactly once, whatever became of it,
// what was reported as written has to be there, and the session has to live on.
//
//   task_management_probe --portal=tcp://127.0.0.1:3260 --target=iqn --lun=1
//   task_management_probe --portal=verbs://192.0.2.1:3260 --target=iqn
//       --refused="TARGET WARM RESET"
//
// A function that the target does not carry out must leave the commands alone.
// With --read_task_sets, those that hit a task set do so while the target
// reads. Overwrites the first 8 MiB of the logical unit. Exit status 0 when all
// holds.

#include <poll.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "protocol/initiator/initiator.h"
#include "scsi/initiator/cdb.h"
#include "scsi/initiator/command.h"
#include "scsi/lun.h"
#include "transport/reactor/epoll_reactor.h"
#include "transport/registry.h"
#include "transport/tcp/tcp_transport.h"
#include "transport/verbs/verbs_transport.h"

ABSL_FLAG(std::string, portal, "", "scheme://host:port of the target");
ABSL_FLAG(std::string, target, "", "name of the target");
ABSL_FLAG(std::string, initiator_name, "", "ours, if it matters");
ABSL_FLAG(uint32_t, lun, 0, "logical unit, 0 to 16383");
ABSL_FLAG(std::vector<std::string>, refused, {},
          "functions that the target does not carry out");
ABSL_FLAG(std::vector<std::string>, left_out, {},
          "functions that the target cannot be asked for");
ABSL_FLAG(bool, may_be_restored, false,
          "the target answers tasks that it has called aborted");

namespace skiff::testing {
namespace {

using protocol::TaskManagementFunction;
using scsi::Command;

constexpr uint32_t kBlockSize = 512;
// With R2Ts, so that aborts find tasks in every state.
constexpr uint32_t kLongWrite = 256 << 10;
// As immediate data: tgt leaves tasks that wait for data out of task sets, goes
// on with them after it called them aborted, and so loses the session.
constexpr uint32_t kShortWrite = 32 << 10;
constexpr int kCommands = 32;
constexpr absl::Duration kPatience = absl::Seconds(20);
// A lost session says nothing of what a refused function does.
constexpr int kAttempts = 5;

[[noreturn]] void Fail(const std::string& message) {
  std::fprintf(stderr, "task_management_probe: %s\n", message.c_str());
  std::exit(1);
}

void Check(bool condition, const std::string& message) {
  if (!condition) Fail(message);
}

bool Lists(const absl::Flag<std::vector<std::string>>& flag,
           const std::string& what) {
  const std::vector<std::string> all = absl::GetFlag(flag);
  return std::find(all.begin(), all.end(), what) != all.end();
}

// A command with its buffer; counts how often it ended.
struct Slot {
  Command command;
  std::vector<uint8_t> data;
  iovec piece = {};
  int ended = 0;

  bool good() const {
    return command.outcome == Command::Outcome::kCompleted &&
           command.status == 0;
  }
};

class Probe {
 public:
  Probe() {
    absl::StatusOr<std::unique_ptr<transport::EpollReactor>> reactor =
        transport::EpollReactor::Create();
    Check(reactor.ok(), reactor.status().ToString());
    reactor_ = std::move(*reactor);
    Check(registry_.Add(transport::MakeTcpTransport()).ok(),
          "no TCP transport");
    Check(registry_.Add(transport::MakeVerbsTransport()).ok(),
          "no verbs transport");

    absl::StatusOr<transport::Address> portal =
        transport::Address::Parse(absl::GetFlag(FLAGS_portal));
    Check(portal.ok(), portal.status().ToString());
    protocol::InitiatorOptions options;
    options.portal = *portal;
    options.target_name = absl::GetFlag(FLAGS_target);
    const std::string name = absl::GetFlag(FLAGS_initiator_name);
    if (!name.empty()) options.initiator_name = name;
    options.log = [](absl::string_view message) {
      std::fprintf(stderr, "%s\n", std::string(message).c_str());
    };
    lun_ = scsi::EncodeLun(absl::GetFlag(FLAGS_lun));
    absl::StatusOr<std::unique_ptr<protocol::Initiator>> initiator =
        protocol::Initiator::Create(&registry_, reactor_.get(), options,
                                    Keep());
    Check(initiator.ok(), initiator.status().ToString());
    initiator_ = std::move(*initiator);
    Await("login");
  }

  void Run() {
    AwaitReady();
    AbortTasks();
    ManageTaskSet(TaskManagementFunction::kAbortTaskSet, "ABORT TASK SET");
    ManageTaskSet(TaskManagementFunction::kClearTaskSet, "CLEAR TASK SET");
    ManageTaskSet(TaskManagementFunction::kLogicalUnitReset,
                  "LOGICAL UNIT RESET");
    ManageTaskSet(TaskManagementFunction::kTargetWarmReset,
                  "TARGET WARM RESET");
    AwaitReady();
    Ping("the end");
    const uint64_t reconnects = initiator_->stats().reconnects;
    std::printf("the session was restored %d times\n",
                static_cast<int>(reconnects));
    Check(reconnects == 0 || absl::GetFlag(FLAGS_may_be_restored),
          "the session was lost meanwhile");
    initiator_->Logout(Keep());
    Await("logout");
    Check(!initiator_->connected(), "still connected after the logout");
  }

 private:
  // Keeps the status of what is awaited next.
  absl::AnyInvocable<void(absl::Status)> Keep() {
    status_.reset();
    return [this](const absl::Status& status) { status_ = status; };
  }

  void Await(const std::string& what) {
    Turn(what, [this] { return status_.has_value(); });
    Check(status_->ok(), what + ": " + status_->ToString());
  }

  void Ping(const std::string& what) {
    const absl::Time deadline =
        transport::EpollReactor::MonotonicNow() + kPatience;
    do {
      initiator_->Ping(Keep());
      Turn(what + ", ping", [this] { return status_.has_value(); });
    } while (!status_->ok() && absl::GetFlag(FLAGS_may_be_restored) &&
             transport::EpollReactor::MonotonicNow() < deadline);
    Check(status_->ok(), what + ", ping: " + status_->ToString());
  }

  void Turn(const std::string& what, const std::function<bool()>& finished) {
    const absl::Time deadline =
        transport::EpollReactor::MonotonicNow() + kPatience;
    while (!finished()) {
      Check(transport::EpollReactor::MonotonicNow() < deadline,
            what + ": no end");
      pollfd readable = {reactor_->fd(), POLLIN, 0};
      poll(&readable, 1, 1);
      reactor_->Poll();
    }
  }

  static void OnDone(Command* command) {
    ++static_cast<Slot*>(command->context)->ended;
  }

  void Prepare(Slot* slot) const {
    slot->command = Command();
    slot->command.lun = lun_;
    slot->command.done = OnDone;
    slot->command.context = slot;
    slot->ended = 0;
  }

  // READ(16) or WRITE(16) of the slot's own part of the logical unit.
  void PrepareTransfer(Slot* slot, int index, uint32_t bytes,
                       bool write) const {
    Prepare(slot);
    Command& command = slot->command;
    slot->data.resize(bytes);
    slot->piece = {slot->data.data(), bytes};
    const uint32_t blocks = bytes / kBlockSize;
    const uint32_t lba = static_cast<uint32_t>(index) * blocks;
    SetCdb(write ? scsi::cdb::Write(lba, blocks) : scsi::cdb::Read(lba, blocks),
           &command);
    (write ? command.data_out : command.data_in) = &slot->piece;
    (write ? command.data_out_count : command.data_in_count) = 1;
    (write ? command.data_out_length : command.data_in_length) = bytes;
  }

  void AwaitEnds(const std::string& what, const std::vector<Slot>& slots) {
    Turn(what, [&slots] {
      return std::all_of(slots.begin(), slots.end(),
                         [](const Slot& slot) { return slot.ended > 0; });
    });
    // Whatever else the target sends about them follows no later than the
    // answers to these; the first may come out of turn over iSER.
    Ping(what);
    Ping(what);
    for (const Slot& slot : slots) {
      Check(slot.ended == 1, what + ": a command ended twice");
    }
  }

  // TEST UNIT READY until the unit has told all its unit attentions.
  void AwaitReady() {
    for (int attempt = 0; attempt < 8; ++attempt) {
      std::vector<Slot> slots(1);
      Prepare(slots.data());
      SetCdb(scsi::cdb::TestUnitReady(), &slots[0].command);
      initiator_->Submit(&slots[0].command);
      AwaitEnds("TEST UNIT READY", slots);
      if (slots[0].good()) return;
    }
    Fail("the logical unit does not get ready");
  }

  void SubmitWrites(std::vector<Slot>* slots, uint32_t bytes, uint8_t pattern) {
    for (int i = 0; i < kCommands; ++i) {
      Slot& slot = (*slots)[i];
      PrepareTransfer(&slot, i, bytes, true);
      std::fill(slot.data.begin(), slot.data.end(),
                static_cast<uint8_t>(pattern + i));
      initiator_->Submit(&slot.command);
    }
  }

  // What ended GOOD is on the medium; the rest may be, in part.
  void CheckWritten(const std::vector<Slot>& written, uint32_t bytes,
                    const std::string& what) {
    std::vector<Slot> slots(kCommands);
    for (int i = 0; i < kCommands; ++i) {
      PrepareTransfer(&slots[i], i, bytes, false);
      initiator_->Submit(&slots[i].command);
    }
    AwaitEnds(what + ", reading back", slots);
    int good = 0;
    for (int i = 0; i < kCommands; ++i) {
      Check(slots[i].good(), what + ": cannot read back");
      if (!written[i].good()) continue;
      ++good;
      Check(slots[i].data == written[i].data, what + ": wrong data");
    }
    std::printf("%s: %d of %d commands completed\n", what.c_str(), good,
                kCommands);
  }

  // Every other one: half of these as somebody who does not want it any more,
  // and half as somebody who wants to know what the target says.
  void AbortTasks() {
    const std::string what = "ABORT TASK";
    std::vector<Slot> slots(kCommands);
    SubmitWrites(&slots, kLongWrite, 0x10);
    int asked = 0;
    int complete = 0;
    int not_there = 0;
    for (int i = 1; i < kCommands; i += 2) {
      if (i % 4 == 1) {
        initiator_->Abort(&slots[i].command);
        continue;
      }
      ++asked;
      initiator_->Manage(TaskManagementFunction::kAbortTask, lun_,
                         &slots[i].command,
                         [&complete, &not_there](const absl::Status& status) {
                           if (status.ok()) ++complete;
                           if (absl::IsNotFound(status)) ++not_there;
                         });
    }
    AwaitEnds(what, slots);
    Turn(what + ", answers", [&] { return complete + not_there == asked; });
    for (int i = 0; i < kCommands; i += 2) {
      Check(slots[i].good(), what + " hit a command that it did not name");
    }
    std::printf("%s: %d complete, %d tasks were not there\n", what.c_str(),
                complete, not_there);
    CheckWritten(slots, kLongWrite, what);
  }

  void ManageTaskSet(TaskManagementFunction function, const std::string& what) {
    if (Lists(FLAGS_left_out, what)) return;
    const bool refused = Lists(FLAGS_refused, what);
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      AwaitReady();
      std::vector<Slot> slots(kCommands);
      const bool told = refused ? IsRefused(function, what, &slots)
                                : IsDone(function, what, &slots);
      AwaitReady();
      CheckWritten(slots, kShortWrite, what);
      if (told) return;
    }
    Fail(what + ": the session was lost each time");
  }

  // The function's end, after those of the commands.
  absl::Status Manage(TaskManagementFunction function, const std::string& what,
                      std::vector<Slot>* slots) {
    SubmitWrites(slots, kShortWrite, 0x50);
    initiator_->Manage(function, lun_, nullptr, Keep());
    Turn(what, [this] { return status_.has_value(); });
    absl::Status status = *status_;
    AwaitEnds(what, *slots);
    return status;
  }

  bool IsDone(TaskManagementFunction function, const std::string& what,
              std::vector<Slot>* slots) {
    const absl::Status status = Manage(function, what, slots);
    Check(status.ok(), what + ": " + status.ToString());
    return true;
  }

  // False: the session was lost meanwhile.
  bool IsRefused(TaskManagementFunction function, const std::string& what,
                 std::vector<Slot>* slots) {
    const uint64_t reconnects = initiator_->stats().reconnects;
    const absl::Status status = Manage(function, what, slots);
    Check(!status.ok(), what + ": carried out");
    // A session that is restored begins with unit attentions.
    if (initiator_->stats().reconnects != reconnects) return false;
    Check(absl::IsUnimplemented(status) || absl::IsFailedPrecondition(status) ||
              absl::IsPermissionDenied(status),
          what + ": " + status.ToString());
    for (const Slot& slot : *slots) {
      Check(slot.good(), what + " was refused, and hit a command");
    }
    return true;
  }

  transport::Registry registry_;
  std::unique_ptr<transport::EpollReactor> reactor_;
  std::unique_ptr<protocol::Initiator> initiator_;
  uint64_t lun_ = 0;
  std::optional<absl::Status> status_;
};

}  // namespace
}  // namespace skiff::testing

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  skiff::testing::Probe().Run();
  return 0;
}
