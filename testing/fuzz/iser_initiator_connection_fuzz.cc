// A whole iSER connection of an initiator over the simulated fabric: private
// data, login, session, RDMA into and out of its commands' memory. The target
// is the input.
//
// The first byte says how: bits 0-1 the fabric, where 3 is the first again with
// a session that is to be restored; bit 2 logs in first; bit 3 does all at
// once; bit 4 the commands' memory is registered as a whole; bit 5 unsolicited
// data are allowed; bit 6 the initiator wants a HelloReply; bit 7 the first
// record is the private data. Then records follow, whose low four bits of the
// first byte are an action below, and the others its argument.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "protocol/codec/endian.h"
#include "testing/fuzz/check.h"
#include "testing/fuzz/iser_records.h"
#include "testing/fuzz/tracked_command.h"
#include "testing/sim/guard_pages.h"
#include "testing/stack/end_to_end_test_util.h"
#include "testing/stack/fabrics.h"
#include "testing/stack/iser_raw_login.h"
#include "testing/stack/iser_raw_peer.h"

namespace skiff::protocol {
namespace {

using testing::GuardPages;
using testing::SimRdmaOptions;

constexpr char kPortal[] = "sim://hostile:3260?kind=rdma";
constexpr size_t kMaxPrivateData = 56;
// By when every command has ended, whatever the target does: the initiator's
// timeouts, one after the other.
constexpr absl::Duration kPatience = absl::Minutes(3);

constexpr TrackedCommand::Shape kShapes[] = {
    {8192, 0, 1}, {0, 8192, 1}, {300, 0, 1},    {0, 5000, 1},
    {4096, 0, 2}, {0, 8192, 2}, {300, 4096, 1}, {0, 0, 1},
};

SimRdmaOptions FabricOf(uint8_t how) {
  switch (how & 3) {
    case 1:
      return *Iwarp().rdma;
    case 2:
      return *Plain().rdma;
    default:
      return *InfiniBand().rdma;
  }
}

class Attack {
 public:
  explicit Attack(uint8_t how)
      : how_(how),
        memories_((how & 0x10) != 0),
        stack_(1, 1, FabricOf(how)),
        peer_(&stack_.world) {
    for (const TrackedCommand::Shape& shape : kShapes) {
      commands_.emplace_back(shape, &memories_, &stack_.world);
    }
    peer_.AcceptAt(*stack_.registry.Find("sim"),
                   stack_.world.AddReactor("hostile"), kPortal);
    if ((how & 0x80) == 0) Start();
  }

  void Run(uint8_t what, std::string bytes) {
    if (!started_) {
      bytes.resize(std::min(bytes.size(), kMaxPrivateData));
      peer_.SetPrivateData({bytes.begin(), bytes.end()});
      return Start();
    }
    const uint8_t argument = what >> 4;
    const auto action = static_cast<Action>(what & 0xf);
    if (action == Action::kWait) {
      stack_.world.RunFor(absl::Milliseconds(1 << std::min<int>(argument, 12)));
    } else if (action == Action::kInitiator) {
      LetInitiator(argument, bytes);
    } else if (peer_.connected()) {
      Act(action, argument, std::move(bytes));
    }
    if ((how_ & 8) == 0) stack_.world.RunFor(absl::Microseconds(200));
    Poll();
  }

  void Finish() {
    if (!started_) Start();
    stack_.world.RunFor(absl::Milliseconds(10));
    Poll();
    SKIFF_FUZZ_CHECK(stack_.RunUntil(
        [this] {
          return requests_ == 0 &&
                 std::all_of(commands_.begin(), commands_.end(),
                             [](const auto& c) { return c.finished(); });
        },
        kPatience));
    CheckMemory();
    BeHonest();
    CheckMemory();
    stack_.initiator.reset();
    stack_.StopServer();
    SKIFF_FUZZ_CHECK(stack_.server == nullptr);
  }

 private:
  enum class Action : uint8_t {
    kAnything = 0,        // Bytes as a message.
    kPdu = 1,             // A PDU with a good iSER header;
    kPduWithStags = 2,    // the same with STags, as initiators have them.
    kResponse = 3,        // To one of the commands; good but for the bytes.
    kInvalidateRead = 4,  // The same, and its own Read STag,
    kInvalidateWrite = 5,
    kInvalidateAny = 6,  // what the bytes say, or that of another command.
    kWriteIn = 7,        // RDMA Write with the Read STag of a command,
    kWriteOut = 8,       // or with its Write STag.
    kReadOut = 9,
    kReadIn = 10,
    kWriteAnywhere = 11,
    kWait = 12,
    kEnd = 13,
    kInitiator = 14,  // The initiator does something.
    kAnswer = 15,     // An honest answer to the oldest other request.
  };
  // A command as the target has it.
  struct Seen {
    ScsiCommandPdu pdu;
    IserControlHeader header;
  };

  void Start() {
    started_ = true;
    InitiatorOptions options = stack_.Options();
    options.portal = transport::Address::Parse(kPortal).value();
    // Held until then: nobody lets it in again.
    options.reconnect.replacement_timeout =
        absl::Seconds((how_ & 3) == 3 ? 20 : 0);
    options.offer.iser.hello_required = (how_ & 0x40) != 0;
    options.offer.first_burst_length = 6000;
    login_.policy.offer.initial_r2t = (how_ & 0x20) == 0;
    login_.policy.offer.immediate_data = (how_ & 0x20) != 0;
    // Of 5000 bytes of data, two Data-Out PDUs are left.
    login_.policy.offer.iser.target_recv_data_segment_length = 2048;
    stack_.Connect(options);
    if (memories_.arena() != nullptr) {
      const GuardPages& arena = *memories_.arena();
      stack_.initiator->UseMemory(arena.data(), arena.size(), memories_.arena())
          .IgnoreError();
    }
    for (TrackedCommand& command : commands_) {
      command.Submit(stack_.initiator.get());
    }
    stack_.world.RunFor(absl::Milliseconds(10));
    Poll();
    if ((how_ & 4) == 0) return;
    while (!others_.empty()) {
      Answer(0);
      stack_.world.RunFor(absl::Milliseconds(1));
      Poll();
    }
  }

  void Poll() {
    peer_.Poll();
    for (std::string& message : peer_.received) {
      IserMessage parsed;
      Seen seen;
      SKIFF_FUZZ_CHECK(DecodeIserMessage(Bytes(message), &parsed).ok());
      if (parsed.opcode == IserOpcode::kControl &&
          Decode(parsed.bhs, &seen.pdu).ok()) {
        seen.header = parsed.control;
        cmd_sn_ = seen.pdu.cmd_sn;
        seen_.push_back(seen);
      } else {
        others_.push_back(std::move(message));
      }
    }
    peer_.received.clear();
  }

  void LetInitiator(uint8_t argument, const std::string& bytes) {
    Initiator& initiator = *stack_.initiator;
    TrackedCommand& command = commands_[bytes.empty() ? 0 : bytes[0] & 7];
    const auto asked = [this](const char*) {
      ++requests_;
      return [this, done = false](const auto&) mutable {
        SKIFF_FUZZ_CHECK(!std::exchange(done, true));
        --requests_;
      };
    };
    switch (argument & 7) {
      case 0:
      case 1:
        return command.Submit(&initiator);
      case 2:
        if (!command.finished()) initiator.Abort(command.command());
        return;
      case 3:
        return initiator.Manage(TaskManagementFunction::kLogicalUnitReset, 0,
                                nullptr, asked("reset"));
      case 4:
        return initiator.Ping(asked("ping"));
      case 5:
        return initiator.SendTargets("", asked("text"));
      case 6:
        if (!command.finished()) {
          initiator.Manage(TaskManagementFunction::kAbortTask, 0,
                           command.command(), asked("abort"));
        }
        return;
      case 7:
        return initiator.Logout(asked("logout"));
    }
  }

  Seen SeenAt(size_t index) const {
    return seen_.empty() ? Seen() : seen_[index % seen_.size()];
  }

  void Act(Action action, uint8_t argument, std::string bytes) {
    const Seen seen = SeenAt(argument);
    const transport::RemoteBuffer in = {seen.header.read_base_offset,
                                        {seen.header.read_stag}};
    const transport::RemoteBuffer out = {seen.header.write_base_offset,
                                         {seen.header.write_stag}};
    switch (action) {
      case Action::kAnything:
        return peer_.Send(bytes);
      case Action::kPdu:
        return peer_.Send(testing::FittingMessage({}, std::move(bytes)));
      case Action::kPduWithStags: {
        IserControlHeader header = seen.header;
        header.read_stag_valid = (argument & 1) != 0;
        header.write_stag_valid = (argument & 1) == 0;
        return peer_.Send(testing::FittingMessage(header, std::move(bytes)));
      }
      case Action::kResponse:
        return peer_.Send(Response(seen, bytes));
      case Action::kInvalidateRead:
        return peer_.Send(Response(seen, bytes), seen.header.read_stag);
      case Action::kInvalidateWrite:
        return peer_.Send(Response(seen, bytes), seen.header.write_stag);
      case Action::kInvalidateAny: {
        if (bytes.size() < 4) {
          return peer_.Send(Response(seen, bytes),
                            SeenAt(argument + 1).header.read_stag);
        }
        const uint32_t key = Load32(Bytes(bytes).data());
        return peer_.Send(Response(seen, bytes.substr(4)), key);
      }
      case Action::kWriteIn:
        return Transfer(seen, in, bytes, /*write=*/true);
      case Action::kWriteOut:
        return Transfer(seen, out, bytes, /*write=*/true);
      case Action::kReadOut:
        return Transfer(seen, out, bytes, /*write=*/false);
      case Action::kReadIn:
        return Transfer(seen, in, bytes, /*write=*/false);
      case Action::kWriteAnywhere:
        bytes.resize(std::max<size_t>(bytes.size(), 12));
        return peer_.Write(
            std::string(1 + argument * 100, 'w'),
            {Load64(Bytes(bytes).data()), {Load32(Bytes(bytes).data() + 8)}});
      case Action::kEnd:
        return argument < 8 ? peer_.StopPosting()
                            : peer_.endpoint()->Disconnect();
      case Action::kAnswer:
        return Answer(argument);
      case Action::kWait:
      case Action::kInitiator:
        return;
    }
  }

  // `bytes` change its BHS, and then are its data.
  std::string Response(const Seen& seen, const std::string& bytes) {
    ScsiResponsePdu good;
    good.initiator_task_tag = seen.pdu.initiator_task_tag;
    Bhs bhs;
    Stamp(&good);
    Encode(good, bhs.data());
    std::string pdu(bhs.begin(), bhs.end());
    pdu.resize(std::max(bytes.size(), kBhsSize));
    for (size_t i = 0; i < bytes.size(); ++i) {
      pdu[i] = static_cast<char>(pdu[i] ^ bytes[i]);
    }
    return testing::FittingMessage({}, std::move(pdu));
  }

  // RDMA that starts and ends where the bytes say, or where it should.
  void Transfer(const Seen& seen, transport::RemoteBuffer at,
                const std::string& bytes, bool write) {
    size_t size = seen.pdu.expected_data_transfer_length;
    if (bytes.size() >= 4) {
      at.address += static_cast<int16_t>(Load16(Bytes(bytes).data()));
      size = Load16(Bytes(bytes).data() + 2);
    }
    if (size == 0) return;
    if (write) {
      peer_.Write(std::string(size, 'w'), at);
    } else {
      peer_.Read(size, at);
    }
  }

  template <typename Pdu>
  void Stamp(Pdu* pdu) {
    pdu->stat_sn = stat_sn_++;
    pdu->exp_cmd_sn = cmd_sn_ + 1;
    pdu->max_cmd_sn = cmd_sn_ + 64;
  }
  template <typename Pdu>
  void SendTo(uint32_t tag, Pdu pdu, const std::string& data = "") {
    pdu.initiator_task_tag = tag;
    Stamp(&pdu);
    peer_.Send(ToIser(pdu, data));
  }

  void Answer(uint8_t argument) {
    if (others_.empty()) {
      NopInPdu ping;
      ping.target_transfer_tag = argument;
      return SendTo(kReservedTag, ping);
    }
    const std::string message = std::move(others_.front());
    others_.pop_front();
    if (!login_.done() && login_.failure().empty()) {
      const std::string answer = login_.Answer(message, stat_sn_);
      if (answer.empty()) return;
      ++stat_sn_;
      return peer_.Send(answer);
    }
    IserMessage parsed;
    SKIFF_FUZZ_CHECK(DecodeIserMessage(Bytes(message), &parsed).ok());
    if (parsed.opcode == IserOpcode::kHello) {
      return peer_.Send(ToIserHello(IserHelloReply()));
    }
    const uint32_t tag = Load32(parsed.bhs + 16);
    switch (static_cast<Opcode>(parsed.frame.opcode)) {
      case Opcode::kNopOut:
        if (tag != kReservedTag) SendTo(tag, NopInPdu());
        break;
      case Opcode::kTaskManagementRequest: {
        TaskManagementResponsePdu response;
        response.response = argument;
        SendTo(tag, response);
        break;
      }
      case Opcode::kTextRequest:
        SendTo(tag, TextResponsePdu(), "TargetName=iqn.2001-04.com.example:d");
        break;
      case Opcode::kLogoutRequest:
        SendTo(tag, LogoutResponsePdu());
        break;
      default:
        break;
    }
  }

  void CheckMemory() const {
    for (const TrackedCommand& command : commands_) command.Check();
    memories_.Check();
  }

  // A session with a target that is not hostile works.
  void BeHonest() {
    stack_.LogIn();
    SKIFF_FUZZ_CHECK(stack_.initiator->connected());
    TestCommand ready(scsi::cdb::TestUnitReady(), 0);
    TestCommand write(scsi::cdb::Write(0, 8), 0, std::string(8 * kBlock, 'h'));
    TestCommand read(scsi::cdb::Read(0, 8), 8 * kBlock);
    for (TestCommand* command : {&ready, &write, &read}) {
      stack_.Run(&command->command);
    }
    SKIFF_FUZZ_CHECK(write.command.status == 0 && read.command.status == 0);
    SKIFF_FUZZ_CHECK(read.buffer == write.buffer);
  }

  const uint8_t how_;
  Memories memories_;
  std::deque<TrackedCommand> commands_;  // Until the initiator has ended.
  int requests_ = 0;  // Of the initiator, other than commands.
  SimStack stack_;
  RawIserPeer peer_;
  RawTargetLogin login_;
  bool started_ = false;
  uint32_t stat_sn_ = 1;
  uint32_t cmd_sn_ = 0;
  std::vector<Seen> seen_;
  std::deque<std::string> others_;
};

}  // namespace
}  // namespace skiff::protocol

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return skiff::testing::RunAttack<skiff::protocol::Attack>(data, size);
}
