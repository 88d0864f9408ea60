#include "bench/compare/pump_session.h"

#include <endian.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "bench/compare/util.h"

namespace skiff::bench {
namespace {

void ReceiveExactly(int fd, void* to, size_t size) {
  char* at = static_cast<char*>(to);
  while (size > 0) {
    size_t received;
    if (!ReceiveSome(fd, at, size, false, &received)) {
      Die("pump: the target closed the connection");
    }
    at += received;
    size -= received;
  }
}

// A length without the bytes that would need padding.
uint32_t Segment(const std::string& value) {
  return static_cast<uint32_t>(std::stoul(value)) & ~uint32_t{3};
}

}  // namespace

Session::Session(const SessionTarget& target, uint16_t number)
    : target_(target) {
  const size_t colon = target.portal.rfind(':');
  if (colon == std::string::npos) Die("pump: --portal is host:port");
  if (target.name.empty()) Die("pump: --target is missing");
  fd_ = ConnectTo(target.portal.substr(0, colon),
                  target.portal.substr(colon + 1));
  Login(number);
}

Session::~Session() { close(fd_); }

void Session::Login(uint16_t number) {
  const char* const pairs[] = {"SessionType=Normal",
                               "HeaderDigest=None",
                               "DataDigest=None",
                               "MaxConnections=1",
                               "InitialR2T=No",
                               "ImmediateData=Yes",
                               "MaxBurstLength=1048576",
                               "FirstBurstLength=262144",
                               "MaxRecvDataSegmentLength=1048576",
                               "MaxOutstandingR2T=1",
                               "DefaultTime2Wait=2",
                               "DefaultTime2Retain=0",
                               "DataPDUInOrder=Yes",
                               "DataSequenceInOrder=Yes",
                               "ErrorRecoveryLevel=0"};
  std::string text = "InitiatorName=iqn.2026-11.org.skiff:pump" +
                     std::string(1, '\0') + "TargetName=" + target_.name +
                     std::string(1, '\0');
  for (const char* pair : pairs) text.append(pair).push_back('\0');

  std::string keys;
  uint16_t tsih = 0;
  for (int round = 0; round < 8; ++round) {
    Bhs request;
    request.bytes[0] = kImmediate | kLoginRequest;
    request.bytes[1] = 0x80 | 1 << 2 | 3;  // T, operational to full feature.
    request.PutDataLength(static_cast<uint32_t>(text.size()));
    request.bytes[8] = 0x80;  // ISID of the random kind (section 11.12.5).
    request.bytes[9] = static_cast<uint8_t>(getpid() >> 8);
    request.bytes[10] = static_cast<uint8_t>(getpid());
    request.bytes[12] = static_cast<uint8_t>(number >> 8);
    request.bytes[13] = static_cast<uint8_t>(number);
    request.bytes[14] = static_cast<uint8_t>(tsih >> 8);
    request.bytes[15] = static_cast<uint8_t>(tsih);
    request.Put32(24, cmd_sn_);
    request.Put32(28, exp_stat_sn_);
    text.resize((text.size() + 3) & ~size_t{3});
    std::vector<iovec> pieces = {{request.bytes, kBhsSize},
                                 {text.data(), text.size()}};
    if (!SendAll(fd_, &pieces, false)) Die("pump: the target hung up");

    Bhs answer;
    ReceiveExactly(fd_, answer.bytes, kBhsSize);
    std::string more(answer.Tail(), '\0');
    ReceiveExactly(fd_, more.data(), more.size());
    if (answer.opcode() != kLoginResponse || answer.bytes[36] != 0) {
      Die("pump: login refused, status " + std::to_string(answer.bytes[36]) +
          "/" + std::to_string(answer.bytes[37]));
    }
    exp_stat_sn_ = answer.Get32(24) + 1;
    max_cmd_sn_ = answer.Get32(32);
    tsih = static_cast<uint16_t>(answer.bytes[14] * 256 + answer.bytes[15]);
    keys.append(more.data(), answer.DataLength());
    text.clear();
    if (answer.flag(0x80) && (answer.bytes[1] & 3) == 3) {
      TakeKeys(keys);
      return;
    }
  }
  Die("pump: the login does not end");
}

void Session::TakeKeys(const std::string& keys) {
  size_t at = 0;
  while (at < keys.size()) {
    const std::string pair = keys.c_str() + at;
    at += pair.size() + 1;
    const size_t equals = pair.find('=');
    if (equals == std::string::npos) continue;
    const std::string key = pair.substr(0, equals);
    const std::string value = pair.substr(equals + 1);
    if (key == "FirstBurstLength") {
      first_burst_ = Segment(value);
    } else if (key == "MaxRecvDataSegmentLength") {
      max_send_segment_ = Segment(value);
    } else if (key == "ImmediateData") {
      immediate_data_ = value == "Yes";
    }
  }
}

Bhs Session::MakeCommand(uint32_t transfer, bool write) const {
  Bhs bhs;
  bhs.bytes[0] = kScsiCommand;
  bhs.bytes[1] = kFinal | (write ? 0x20 : 0x40) | 1;  // Simple task.
  bhs.bytes[9] = static_cast<uint8_t>(target_.lun);
  bhs.Put32(20, transfer);
  return bhs;
}

void Session::ReadCapacity(uint64_t* blocks, uint32_t* block_size) {
  // A new session starts with unit attentions: ask until they are told.
  for (int attempt = 0; attempt < 8; ++attempt) {
    Bhs command = MakeCommand(32, false);
    command.Put32(24, TakeCmdSn());
    command.Put32(28, exp_stat_sn_);
    command.bytes[32] = 0x9e;  // SERVICE ACTION IN(16): READ CAPACITY(16).
    command.bytes[33] = 0x10;
    command.Put32(42, 32);
    std::vector<iovec> pieces = {{command.bytes, kBhsSize}};
    if (!SendAll(fd_, &pieces, false)) Die("pump: the target hung up");

    std::vector<uint8_t> capacity;
    while (true) {
      Bhs answer;
      ReceiveExactly(fd_, answer.bytes, kBhsSize);
      std::vector<uint8_t> data(answer.Tail());
      ReceiveExactly(fd_, data.data(), data.size());
      const bool last =
          answer.opcode() == kScsiResponse ||
          (answer.opcode() == kDataIn && answer.flag(kStatusPresent));
      Note(answer, last);
      if (answer.opcode() == kDataIn) capacity = data;
      if (!last) continue;
      if (answer.bytes[3] != 0 || capacity.size() < 12) break;
      uint64_t last_block;
      std::memcpy(&last_block, capacity.data(), 8);
      *blocks = be64toh(last_block) + 1;
      std::memcpy(block_size, capacity.data() + 8, 4);
      *block_size = be32toh(*block_size);
      return;
    }
  }
  Die("pump: READ CAPACITY(16) fails");
}

}  // namespace skiff::bench
