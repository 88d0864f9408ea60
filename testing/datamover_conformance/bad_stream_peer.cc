// Initiators that misbehave over byte streams.

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "protocol/codec/pdu.h"
#include "protocol/codec/wire_test_util.h"
#include "testing/datamover_conformance/bad_peer.h"
#include "testing/stack/raw_stream_peer.h"

namespace skiff::protocol {
namespace {

enum class Vice : uint8_t {
  kSilentWriter,   // Its data never come.
  kNeverReads,     // READs whose data it does not take.
  kFloods,         // NOP, task management, text, and what is rejected.
  kHalfALogin,     // Begins to log in, and stays silent.
  kHangsUp,        // In the middle of a command.
  kManyAndSilent,  // All that it may send unsolicited, and nothing more.
};
constexpr uint64_t kVices = 6;

class BadStreamPeer final : public BadPeer {
 public:
  BadStreamPeer(SimStack* stack, const std::string& streams, uint8_t number,
                Vice vice)
      : stack_(stack), vice_(vice) {
    transport::Reactor* const reactor =
        stack->world.AddReactor(absl::StrCat("bad-", number));
    peer_ = std::make_unique<RawPeer>(stack, reactor, streams);
    const std::string name =
        absl::StrCat("iqn.2001-04.com.example:bad-", number);
    if (vice == Vice::kHalfALogin) {
      const std::string login =
          RawPeer::FirstLogin(number, kTargetName, name, /*transit=*/false);
      peer_->Send(login.substr(0, 1 + Random().Below(login.size())));
      return;
    }
    peer_->LogIn(number, kTargetName, name);
  }

  void Act() override {
    if (peer_ == nullptr || peer_->closed()) return;
    switch (vice_) {
      case Vice::kSilentWriter:
        Command(/*write=*/true, 128, "", /*final=*/true);
        break;
      case Vice::kNeverReads:
        peer_->StopReading();
        for (int i = 0; i < 4; ++i) Command(/*write=*/false, 256, "", true);
        break;
      case Vice::kFloods:
        for (int i = 0; i < 10; ++i) Flood();
        break;
      case Vice::kHalfALogin:
        break;
      case Vice::kHangsUp: {
        Command(/*write=*/true, 128, std::string(4096, 'x'), true);
        Command(/*write=*/false, 128, "", true);
        std::string cut =
            CommandPdu(/*write=*/true, 16, std::string(8192, 'x'), true);
        cut.resize(1 + Random().Below(cut.size() - 1));
        peer_->Send(cut);
        if (Random().Below(3) == 0) peer_.reset();
        break;
      }
      case Vice::kManyAndSilent:
        Command(/*write=*/true, 128, std::string(8192, 'x'), false);
        break;
    }
  }

 private:
  testing::SimRandom& Random() { return stack_->world.random(); }

  std::string CommandPdu(bool write, uint16_t blocks, const std::string& data,
                         bool final) {
    ScsiCommandPdu pdu;
    pdu.final = final;
    pdu.read = !write;
    pdu.write = write;
    pdu.lun = kBadPeersLun;
    pdu.initiator_task_tag = ++tag_;
    pdu.expected_data_transfer_length = blocks * kBlock;
    pdu.cmd_sn = cmd_sn_++;
    pdu.exp_stat_sn = 2;
    pdu.cdb[0] = write ? 0x2a : 0x28;
    pdu.cdb[7] = static_cast<uint8_t>(blocks >> 8);
    pdu.cdb[8] = static_cast<uint8_t>(blocks);
    return ToWire(pdu, data);
  }
  // Within a window of 32.
  void Command(bool write, uint16_t blocks, const std::string& data,
               bool final) {
    if (cmd_sn_ > 30) return;
    peer_->Send(CommandPdu(write, blocks, data, final));
  }

  void Flood() {
    if (Random().Below(4) == 0) {
      // An opcode that only targets use.
      std::string reject(kBhsSize, '\0');
      reject[0] = 0x7f;
      reject[1] = '\x80';
      return peer_->Send(reject);
    }
    SendOneOfAFlood(&Random(), ++tag_, cmd_sn_,
                    [this](const auto& pdu, const std::string& data) {
                      peer_->Send(ToWire(pdu, data));
                    });
  }

  SimStack* const stack_;
  const Vice vice_;
  std::unique_ptr<RawPeer> peer_;
  uint32_t tag_ = 100;
  uint32_t cmd_sn_ = 1;
};

}  // namespace

std::unique_ptr<BadPeer> MakeBadStreamPeer(SimStack* stack,
                                           const std::string& streams,
                                           uint8_t number) {
  const auto vice = static_cast<Vice>(stack->world.random().Below(kVices));
  return std::make_unique<BadStreamPeer>(stack, streams, number, vice);
}

}  // namespace skiff::protocol
