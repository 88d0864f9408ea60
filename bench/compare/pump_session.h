#ifndef SKIFF_BENCH_COMPARE_PUMP_SESSION_H_
#define SKIFF_BENCH_COMPARE_PUMP_SESSION_H_

#include <endian.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

// The least of iSCSI that a session takes (RFC 7143), without Skiff's code.
namespace skiff::bench {

inline constexpr size_t kBhsSize = 48;
inline constexpr uint32_t kReservedTag = 0xffffffff;

// Opcodes (RFC 7143 section 11.2.1.2).
inline constexpr uint8_t kImmediate = 0x40;
inline constexpr uint8_t kNopOut = 0x00;
inline constexpr uint8_t kScsiCommand = 0x01;
inline constexpr uint8_t kLoginRequest = 0x03;
inline constexpr uint8_t kDataOut = 0x05;
inline constexpr uint8_t kNopIn = 0x20;
inline constexpr uint8_t kScsiResponse = 0x21;
inline constexpr uint8_t kLoginResponse = 0x23;
inline constexpr uint8_t kDataIn = 0x25;
inline constexpr uint8_t kR2t = 0x31;
inline constexpr uint8_t kAsyncMessage = 0x32;

// Every PDU that is received or sent here, by the offsets of section 11.
struct Bhs {
  uint8_t bytes[kBhsSize] = {};

  void Put32(size_t at, uint32_t value) {
    value = htobe32(value);
    std::memcpy(bytes + at, &value, 4);
  }
  uint32_t Get32(size_t at) const {
    uint32_t value;
    std::memcpy(&value, bytes + at, 4);
    return be32toh(value);
  }
  void Put64(size_t at, uint64_t value) {
    value = htobe64(value);
    std::memcpy(bytes + at, &value, 8);
  }
  void PutDataLength(uint32_t length) {
    bytes[5] = static_cast<uint8_t>(length >> 16);
    bytes[6] = static_cast<uint8_t>(length >> 8);
    bytes[7] = static_cast<uint8_t>(length);
  }
  uint32_t DataLength() const {
    return bytes[5] * 65536u + bytes[6] * 256u + bytes[7];
  }
  // AHS and data segment with its padding; this end offers no digests.
  size_t Tail() const {
    return bytes[4] * size_t{4} + ((DataLength() + 3) & ~uint32_t{3});
  }
  uint8_t opcode() const { return bytes[0] & 0x3f; }
  bool flag(uint8_t mask) const { return (bytes[1] & mask) != 0; }
};
inline constexpr uint8_t kFinal = 0x80;
inline constexpr uint8_t kStatusPresent = 0x01;

// Where a session goes.
struct SessionTarget {
  std::string portal;  // "host:port".
  std::string name;
  int lun = 0;  // 0 to 255.
};

// One session with one connection, in full feature phase once constructed.
class Session {
 public:
  // `number`: of this process's sessions.
  Session(const SessionTarget& target, uint16_t number);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  int fd() const { return fd_; }
  uint32_t first_burst() const { return first_burst_; }
  uint32_t max_send_segment() const { return max_send_segment_; }
  bool immediate_data() const { return immediate_data_; }

  // Whether MaxCmdSN lets one more command out (section 4.2.2.1).
  bool WindowOpen() const {
    return static_cast<int32_t>(max_cmd_sn_ - cmd_sn_) >= 0;
  }
  uint32_t TakeCmdSn() { return cmd_sn_++; }
  uint32_t cmd_sn() const { return cmd_sn_; }
  uint32_t exp_stat_sn() const { return exp_stat_sn_; }

  // A command of the logical unit, without its CDB and its numbers.
  Bhs MakeCommand(uint32_t transfer, bool write) const;

  // Takes the counters that every answer carries.
  void Note(const Bhs& bhs, bool has_stat_sn) {
    if (has_stat_sn) exp_stat_sn_ = bhs.Get32(24) + 1;
    const uint32_t max = bhs.Get32(32);
    if (static_cast<int32_t>(max - max_cmd_sn_) > 0) max_cmd_sn_ = max;
  }

  // One READ CAPACITY(16), alone on the connection.
  void ReadCapacity(uint64_t* blocks, uint32_t* block_size);

 private:
  void Login(uint16_t number);
  void TakeKeys(const std::string& keys);

  const SessionTarget target_;
  int fd_;
  uint32_t cmd_sn_ = 1;
  uint32_t max_cmd_sn_ = 1;
  uint32_t exp_stat_sn_ = 0;
  uint32_t first_burst_ = 65536;
  uint32_t max_send_segment_ = 8192;
  bool immediate_data_ = true;
};

}  // namespace skiff::bench

#endif  // SKIFF_BENCH_COMPARE_PUMP_SESSION_H_
