// Initiators that misbehave over iSER.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "protocol/codec/iser_header.h"
#include "protocol/codec/pdu.h"
#include "testing/datamover_conformance/bad_peer.h"
#include "testing/stack/iser_raw_peer.h"
#include "transport/rdma_endpoint.h"

namespace skiff::protocol {
namespace {

constexpr uint16_t kMemoryBlocks = 128;

enum class Vice : uint8_t {
  kSilentWriter,   // Nothing comes through from it, its data neither.
  kUnreadable,     // Its data are where nobody may read, or write.
  kNoReceives,     // Posts none for what it asks for.
  kFloods,         // NOP, task management, text, and what is rejected.
  kHalfALogin,     // Begins to log in, and stays silent.
  kHangsUp,        // In the middle of commands, in one way or another.
  kManyAndSilent,  // Unsolicited data, and nothing more.
};
constexpr uint64_t kVices = 7;

class BadIserPeer final : public BadPeer {
 public:
  BadIserPeer(SimStack* stack, uint8_t number, Vice vice)
      : stack_(stack), host_(absl::StrCat("bad-", number)), vice_(vice) {
    peer_ = std::make_unique<RawIserPeer>(&stack->world);
    // Whether responses may invalidate its keys; that fails, as those do not
    // change with each command.
    if (Random().Below(4) != 0) peer_->SetPrivateData({0xc0, 0, 0, 0});
    const absl::Status connected =
        peer_->TryToConnect(*stack->registry.Find("sim"),
                            stack->world.AddReactor(host_), stack->portal);
    if (!connected.ok()) {  // No memory for it.
      peer_.reset();
      return;
    }
    const std::string login = Login(number);
    if (vice == Vice::kHalfALogin) {
      const bool whole = Random().Below(2) == 0;
      const size_t part = 1 + Random().Below(login.size());
      peer_->Send(whole ? login : login.substr(0, part));
      return;
    }
    memory_ = std::make_unique<RawIserPeer::Memory>(
        peer_->endpoint()->domain(), kMemoryBlocks * kBlock,
        transport::Access::kRemoteRead | transport::Access::kRemoteWrite);
    buffer_ = memory_->Remote();
    if (vice == Vice::kUnreadable) memory_->Revoke();
    peer_->Send(login);
    peer_->Next();
  }

  void Act() override {
    if (peer_ == nullptr || !peer_->connected()) return;
    if (vice_ != Vice::kNoReceives) peer_->Poll();
    switch (vice_) {
      case Vice::kSilentWriter:
        Command(/*write=*/true, "", /*final=*/true);
        // What it has sent comes through, mostly.
        stack_->RunFor(absl::Microseconds(Random().Below(1000)));
        return stack_->world.network().Blackhole(host_, "server");
      case Vice::kUnreadable:
        return Command(Random().Below(2) == 0, "", true);
      case Vice::kNoReceives:
        peer_->StopPosting();
        for (int i = 0; i < 4; ++i) Command(/*write=*/false, "", true);
        for (int i = 0; i < 20; ++i) Flood();
        return;
      case Vice::kFloods:
        for (int i = 0; i < 10; ++i) Flood();
        return;
      case Vice::kHalfALogin:
        return;
      case Vice::kHangsUp:
        Command(/*write=*/true, std::string(4096, 'x'), true);
        Command(/*write=*/false, "", true);
        stack_->RunFor(absl::Microseconds(Random().Below(200)));
        return HangUp();
      case Vice::kManyAndSilent:
        return Command(/*write=*/true, std::string(8192, 'x'), false);
    }
  }

 private:
  testing::SimRandom& Random() { return stack_->world.random(); }

  std::string Login(uint8_t number) const {
    LoginRequestPdu login;
    login.csg = LoginStage::kOperational;
    if (vice_ != Vice::kHalfALogin) {
      login.transit = true;
      login.nsg = LoginStage::kFullFeature;
    }
    login.isid = {0x80, 0, 0, 0, 0, number};
    login.initiator_task_tag = 1;
    login.cmd_sn = 1;
    const std::string text =
        absl::StrCat("InitiatorName=iqn.2001-04.com.example:bad-", number,
                     "|TargetName=", kTargetName,
                     "|RDMAExtensions=Yes|InitialR2T=No|ImmediateData=Yes|");
    return ToIser(
        login, absl::StrReplaceAll(text, {{"|", absl::string_view("\0", 1)}}));
  }

  // Of all its memory, within a window of 32.
  void Command(bool write, const std::string& data, bool final) {
    if (cmd_sn_ > 30) return;
    ScsiCommandPdu pdu;
    pdu.final = final;
    pdu.read = !write;
    pdu.write = write;
    pdu.lun = kBadPeersLun;
    pdu.initiator_task_tag = ++tag_;
    pdu.expected_data_transfer_length = kMemoryBlocks * kBlock;
    pdu.cmd_sn = cmd_sn_++;
    pdu.exp_stat_sn = 2;
    pdu.cdb[0] = write ? 0x2a : 0x28;
    pdu.cdb[8] = static_cast<uint8_t>(kMemoryBlocks);
    IserControlHeader header;
    const auto stag = static_cast<uint32_t>(buffer_.key.value);
    if (write) {
      header.write_stag_valid = true;
      header.write_stag = stag;
      header.write_base_offset = buffer_.address;
    } else {
      header.read_stag_valid = true;
      header.read_stag = stag;
      header.read_base_offset = buffer_.address;
    }
    peer_->Send(ToIser(pdu, data, header));
  }

  void HangUp() {
    switch (Random().Below(6)) {
      case 0:
        return peer_->endpoint()->Disconnect();
      case 1:
        // With the receives, and what the target reads and writes.
        memory_.reset();
        return peer_.reset();
      case 2:
        return memory_->Revoke();
      case 3:
        return peer_->Send(std::string(1 + Random().Below(80), 'x'));
      default:
        return;
    }
  }

  void Flood() {
    if (Random().Below(4) == 0) {
      // An opcode that only targets use.
      std::string reject = ToIser(NopOutPdu());
      reject[kIserHeaderSize] = 0x7f;
      return peer_->Send(reject);
    }
    SendOneOfAFlood(&Random(), ++tag_, cmd_sn_,
                    [this](const auto& pdu, const std::string& data) {
                      peer_->Send(ToIser(pdu, data));
                    });
  }

  SimStack* const stack_;
  const std::string host_;
  const Vice vice_;
  std::unique_ptr<RawIserPeer> peer_;
  std::unique_ptr<RawIserPeer::Memory> memory_;
  transport::RemoteBuffer buffer_;
  uint32_t tag_ = 100;
  uint32_t cmd_sn_ = 1;
};

}  // namespace

std::unique_ptr<BadPeer> MakeBadIserPeer(SimStack* stack, uint8_t number) {
  const auto vice = static_cast<Vice>(stack->world.random().Below(kVices));
  return std::make_unique<BadIserPeer>(stack, number, vice);
}

}  // namespace skiff::protocol
