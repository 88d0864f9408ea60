// A whole iSER connection of a target over the simulated fabric: private data,
// login, session, SCSI, RDMA. The initiator is the input.
//
// The first byte says how: bit 0 iWARP, bit 1 logs in first, bit 2 sends all at
// once, bit 3 InitialR2T=No, which takes InfiniBand. Then records follow.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "testing/fuzz/check.h"
#include "testing/fuzz/iser_records.h"
#include "testing/stack/end_to_end_test_util.h"
#include "testing/stack/iser_raw_peer.h"

namespace skiff::protocol {
namespace {

using testing::SimRdmaOptions;
using transport::Access;

SimRdmaOptions Fabric(uint8_t how) {
  SimRdmaOptions fabric =
      (how & 1) != 0 ? SimRdmaOptions::Iwarp() : SimRdmaOptions::InfiniBand();
  if ((how & 8) != 0) fabric.capabilities.eager_message_bytes = 4096;
  return fabric;
}

class Attack {
 public:
  explicit Attack(uint8_t how)
      : stack_(1, 1, Fabric(how)),
        peer_(&stack_.world),
        at_once_((how & 4) != 0) {
    peer_.Connect(*stack_.registry.Find("sim"),
                  stack_.world.AddReactor("attacker"), stack_.portal);
    memory_ = std::make_unique<RawIserPeer::Memory>(
        peer_.endpoint()->domain(), 16384,
        Access::kRemoteRead | Access::kRemoteWrite);
    if ((how & 2) != 0) LogIn(/*initial_r2t=*/(how & 8) == 0);
  }

  void Run(uint8_t what, std::string bytes) {
    if (!peer_.connected()) return;
    switch (what & 7) {
      case 0:  // Anything at all.
        peer_.Send(bytes);
        break;
      case 1:  // A PDU with a good iSER header.
      case 2:  // The same, with the key of our memory.
      case 3:
        SendPdu(what, std::move(bytes));
        break;
      case 4:
        peer_.Send(bytes, static_cast<uint32_t>(what >> 3));
        break;
      case 5:
        memory_->Revoke();
        break;
      case 6:
        stack_.world.RunFor(absl::Milliseconds(1 + (what >> 3)));
        break;
      case 7:
        if (what == 0xff) peer_.endpoint()->Disconnect();
        break;
    }
    peer_.Poll();
    if (!at_once_) stack_.world.RunFor(absl::Microseconds(200));
  }

  void Finish() {
    stack_.world.RunFor(absl::Milliseconds(10));
    peer_.Poll();
    SKIFF_FUZZ_CHECK(memory_->GuardsAreIntact());
    // Another session is served, and everything ends.
    stack_.LogIn();
    SKIFF_FUZZ_CHECK(stack_.initiator->connected());
    stack_.initiator.reset();
    stack_.StopServer();
    SKIFF_FUZZ_CHECK(stack_.server == nullptr);
  }

 private:
  void LogIn(bool initial_r2t) {
    LoginRequestPdu login;
    login.transit = true;
    login.csg = LoginStage::kOperational;
    login.nsg = LoginStage::kFullFeature;
    login.isid = {0x80, 9, 9, 9, 9, 9};
    login.initiator_task_tag = 1;
    login.cmd_sn = 1;
    const std::string text = absl::StrCat(
        "InitiatorName=iqn.2001-04.com.example:attacker|TargetName=",
        kTargetName,
        "|RDMAExtensions=Yes|InitialR2T=", initial_r2t ? "Yes" : "No", "|");
    peer_.Send(ToIser(
        login, absl::StrReplaceAll(text, {{"|", absl::string_view("\0", 1)}})));
    SKIFF_FUZZ_CHECK(peer_.Next().has_value());
  }

  void SendPdu(uint8_t what, std::string bytes) {
    IserControlHeader header;
    if (memory_ != nullptr && memory_->registered()) {
      const transport::RemoteBuffer remote = memory_->Remote();
      header.read_stag_valid = (what & 7) == 2 || (what & 8) != 0;
      header.write_stag_valid = (what & 7) == 3 || (what & 8) != 0;
      header.read_stag = header.write_stag =
          static_cast<uint32_t>(remote.key.value);
      header.read_base_offset = header.write_base_offset =
          remote.address + (what >> 4) * 1000;
    }
    peer_.Send(testing::FittingMessage(header, std::move(bytes)));
  }

  SimStack stack_;
  RawIserPeer peer_;
  const bool at_once_;
  std::unique_ptr<RawIserPeer::Memory> memory_;
};

}  // namespace
}  // namespace skiff::protocol

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return skiff::testing::RunAttack<skiff::protocol::Attack>(data, size);
}
