#include "tools/skiff/pdu_text.h"

#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "protocol/codec/pdu.h"
#include "protocol/codec/text.h"

namespace skiff::tools {
namespace {

using protocol::Opcode;

std::string Field(absl::string_view name, uint64_t value) {
  return absl::StrCat(" ", name, "=", value);
}
std::string Tag(absl::string_view name, uint32_t tag) {
  if (tag == protocol::kReservedTag) return "";
  return absl::StrCat(" ", name, "=0x", absl::Hex(tag));
}
std::string Flag(absl::string_view name, bool set) {
  return set ? absl::StrCat(" ", name) : "";
}
std::string LunField(protocol::Lun lun) {
  return absl::StrCat(" LUN=0x", absl::Hex(lun, absl::kZeroPad16));
}

template <typename Pdu>
std::string FromInitiator(const Pdu& pdu) {
  return absl::StrCat(Field("CmdSN", pdu.cmd_sn),
                      Field("ExpStatSN", pdu.exp_stat_sn));
}
template <typename Pdu>
std::string FromTarget(const Pdu& pdu) {
  return absl::StrCat(Field("StatSN", pdu.stat_sn),
                      Field("ExpCmdSN", pdu.exp_cmd_sn),
                      Field("MaxCmdSN", pdu.max_cmd_sn));
}

std::string Stages(bool transit, protocol::LoginStage csg,
                   protocol::LoginStage nsg) {
  std::string text = Field("CSG", static_cast<uint8_t>(csg));
  if (transit) absl::StrAppend(&text, Field("NSG", static_cast<uint8_t>(nsg)));
  return text;
}

std::string Fields(const protocol::ScsiCommandPdu& pdu) {
  return absl::StrCat(
      LunField(pdu.lun), Flag("R", pdu.read), Flag("W", pdu.write),
      Flag("F", pdu.final), Field("EDTL", pdu.expected_data_transfer_length),
      FromInitiator(pdu), " CDB=",
      absl::BytesToHexString(absl::string_view(
          reinterpret_cast<const char*>(pdu.cdb.data()), pdu.cdb.size())));
}
std::string Fields(const protocol::ScsiResponsePdu& pdu) {
  return absl::StrCat(Field("Response", pdu.response), " Status=0x",
                      absl::Hex(pdu.status, absl::kZeroPad2), FromTarget(pdu),
                      Flag("U", pdu.underflow), Flag("O", pdu.overflow),
                      Field("Residual", pdu.residual_count));
}
std::string Fields(const protocol::TaskManagementRequestPdu& pdu) {
  return absl::StrCat(Field("Function", pdu.function), LunField(pdu.lun),
                      Tag("RefTaskTag", pdu.referenced_task_tag),
                      FromInitiator(pdu));
}
std::string Fields(const protocol::TaskManagementResponsePdu& pdu) {
  return absl::StrCat(Field("Response", pdu.response), FromTarget(pdu));
}
std::string Fields(const protocol::ScsiDataOutPdu& pdu) {
  return absl::StrCat(Tag("TTT", pdu.target_transfer_tag),
                      Field("DataSN", pdu.data_sn),
                      Field("Offset", pdu.buffer_offset), Flag("F", pdu.final));
}
std::string Fields(const protocol::ScsiDataInPdu& pdu) {
  std::string text =
      absl::StrCat(Field("DataSN", pdu.data_sn),
                   Field("Offset", pdu.buffer_offset), Flag("F", pdu.final));
  if (pdu.has_status) {
    absl::StrAppend(&text, " Status=0x", absl::Hex(pdu.status, absl::kZeroPad2),
                    FromTarget(pdu));
  }
  return text;
}
std::string Fields(const protocol::R2tPdu& pdu) {
  return absl::StrCat(Tag("TTT", pdu.target_transfer_tag),
                      Field("R2TSN", pdu.r2t_sn),
                      Field("Offset", pdu.buffer_offset),
                      Field("Length", pdu.desired_data_transfer_length));
}
std::string Fields(const protocol::AsyncMessagePdu& pdu) {
  return absl::StrCat(Field("Event", pdu.async_event), FromTarget(pdu));
}
std::string Fields(const protocol::TextRequestPdu& pdu) {
  return absl::StrCat(Tag("TTT", pdu.target_transfer_tag), FromInitiator(pdu),
                      Flag("F", pdu.final), Flag("C", pdu.continue_));
}
std::string Fields(const protocol::TextResponsePdu& pdu) {
  return absl::StrCat(Tag("TTT", pdu.target_transfer_tag), FromTarget(pdu),
                      Flag("F", pdu.final), Flag("C", pdu.continue_));
}
std::string Fields(const protocol::LoginRequestPdu& pdu) {
  return absl::StrCat(Stages(pdu.transit, pdu.csg, pdu.nsg),
                      Flag("T", pdu.transit), Flag("C", pdu.continue_),
                      Field("CID", pdu.cid), Field("TSIH", pdu.tsih),
                      FromInitiator(pdu));
}
std::string Fields(const protocol::LoginResponsePdu& pdu) {
  return absl::StrCat(
      Stages(pdu.transit, pdu.csg, pdu.nsg), Flag("T", pdu.transit),
      Flag("C", pdu.continue_), Field("TSIH", pdu.tsih), FromTarget(pdu), " ",
      protocol::LoginStatusName(pdu.status_class, pdu.status_detail));
}
std::string Fields(const protocol::LogoutRequestPdu& pdu) {
  return absl::StrCat(Field("Reason", pdu.reason), Field("CID", pdu.cid),
                      FromInitiator(pdu));
}
std::string Fields(const protocol::LogoutResponsePdu& pdu) {
  return absl::StrCat(Field("Response", pdu.response), FromTarget(pdu));
}
std::string Fields(const protocol::SnackRequestPdu& pdu) {
  return absl::StrCat(Field("Type", pdu.type), Field("BegRun", pdu.beg_run),
                      Field("RunLength", pdu.run_length));
}
std::string Fields(const protocol::RejectPdu& pdu) {
  return absl::StrCat(" ", protocol::RejectReasonName(pdu.reason),
                      FromTarget(pdu));
}
std::string Fields(const protocol::NopOutPdu& pdu) {
  return absl::StrCat(Tag("TTT", pdu.target_transfer_tag), FromInitiator(pdu));
}
std::string Fields(const protocol::NopInPdu& pdu) {
  return absl::StrCat(Tag("TTT", pdu.target_transfer_tag), FromTarget(pdu));
}

template <typename Pdu>
std::string Decoded(const uint8_t* bhs) {
  Pdu pdu;
  const protocol::DecodeResult result = protocol::Decode(bhs, &pdu);
  if (!result.ok()) return absl::StrCat(" (bad ", result.field, ")");
  return Fields(pdu);
}

std::string AllFields(Opcode opcode, const uint8_t* bhs) {
  switch (opcode) {
    case Opcode::kNopOut:
      return Decoded<protocol::NopOutPdu>(bhs);
    case Opcode::kScsiCommand:
      return Decoded<protocol::ScsiCommandPdu>(bhs);
    case Opcode::kTaskManagementRequest:
      return Decoded<protocol::TaskManagementRequestPdu>(bhs);
    case Opcode::kLoginRequest:
      return Decoded<protocol::LoginRequestPdu>(bhs);
    case Opcode::kTextRequest:
      return Decoded<protocol::TextRequestPdu>(bhs);
    case Opcode::kScsiDataOut:
      return Decoded<protocol::ScsiDataOutPdu>(bhs);
    case Opcode::kLogoutRequest:
      return Decoded<protocol::LogoutRequestPdu>(bhs);
    case Opcode::kSnackRequest:
      return Decoded<protocol::SnackRequestPdu>(bhs);
    case Opcode::kNopIn:
      return Decoded<protocol::NopInPdu>(bhs);
    case Opcode::kScsiResponse:
      return Decoded<protocol::ScsiResponsePdu>(bhs);
    case Opcode::kTaskManagementResponse:
      return Decoded<protocol::TaskManagementResponsePdu>(bhs);
    case Opcode::kLoginResponse:
      return Decoded<protocol::LoginResponsePdu>(bhs);
    case Opcode::kTextResponse:
      return Decoded<protocol::TextResponsePdu>(bhs);
    case Opcode::kScsiDataIn:
      return Decoded<protocol::ScsiDataInPdu>(bhs);
    case Opcode::kLogoutResponse:
      return Decoded<protocol::LogoutResponsePdu>(bhs);
    case Opcode::kR2t:
      return Decoded<protocol::R2tPdu>(bhs);
    case Opcode::kAsyncMessage:
      return Decoded<protocol::AsyncMessagePdu>(bhs);
    case Opcode::kReject:
      return Decoded<protocol::RejectPdu>(bhs);
  }
  return "";
}

bool HasText(Opcode opcode) {
  return opcode == Opcode::kLoginRequest || opcode == Opcode::kLoginResponse ||
         opcode == Opcode::kTextRequest || opcode == Opcode::kTextResponse;
}

}  // namespace

std::string PduText(const uint8_t* bhs, absl::string_view data) {
  const protocol::BhsFrame frame = protocol::DecodeFrame(bhs);
  const auto opcode = static_cast<Opcode>(frame.opcode);
  std::string text = absl::StrCat(
      protocol::OpcodeName(frame.opcode), Tag("ITT", frame.initiator_task_tag),
      Flag("I", frame.immediate && frame.opcode < 0x20),
      AllFields(opcode, bhs));
  if (frame.ahs_bytes != 0) {
    absl::StrAppend(&text, Field("AHS", frame.ahs_bytes));
  }
  if (frame.data_segment_length != 0) {
    absl::StrAppend(&text, Field("Data", frame.data_segment_length));
  }
  if (!HasText(opcode)) return text;
  for (const absl::string_view pair :
       absl::StrSplit(data, '\0', absl::SkipEmpty())) {
    absl::StrAppend(&text, "\n    ", absl::CHexEscape(pair));
  }
  return text;
}

}  // namespace skiff::tools
