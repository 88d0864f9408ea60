#ifndef SKIFF_PROTOCOL_DATAMOVER_STREAM_STREAM_INITIATOR_TEST_UTIL_H_
#define SKIFF_PROTOCOL_DATAMOVER_STREAM_STREAM_INITIATOR_TEST_UTIL_H_

#include <sys/uio.h>

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "protocol/codec/pdu.h"
#include "protocol/codec/wire_test_util.h"
#include "protocol/datamover/stream/stream_initiator_datamover.h"

namespace skiff::protocol {

// The bytes of one PDU, with digests when `parameters` have them.
std::string Frame(const Bhs& bhs, const std::string& data,
                  const Parameters& parameters);
template <typename Pdu>
std::string Frame(const Pdu& pdu, const std::string& data,
                  const Parameters& parameters) {
  Bhs bhs;
  Encode(pdu, bhs.data());
  return Frame(bhs, data, parameters);
}

// A command's memory in `pieces` iovecs of uneven sizes.
class PieceBuffer {
 public:
  PieceBuffer(const std::string& content, int pieces);
  PieceBuffer(const PieceBuffer&) = delete;
  PieceBuffer& operator=(const PieceBuffer&) = delete;
  const iovec* iov() const { return iov_.data(); }
  int count() const { return static_cast<int>(iov_.size()); }
  std::string content() const;

 private:
  std::deque<std::string> parts_;
  std::vector<iovec> iov_;
};

// Bytes that tell their position.
std::string Pattern(size_t size, uint32_t seed);

// The datamover under test, with its session and its wire in the test's hands.
class InitiatorHarness : public InitiatorDatamoverClient {
 public:
  explicit InitiatorHarness(const Parameters& parameters,
                            const StreamDatamoverOptions& options = {});

  // Everything the datamover wants to send, `chunk` bytes at a time, as PDUs.
  // Fails the test where a digest or padding is wrong.
  std::vector<WirePdu> Take(size_t chunk = ~size_t{0});
  // At most `bytes` of it, uncut.
  std::string TakeBytes(size_t bytes, size_t chunk);
  void Feed(const std::string& bytes, size_t chunk = ~size_t{0});

  struct Sent {
    TaskSlot slot;
    uint32_t tag;
  };
  Sent Write(TaskSlot slot, const PieceBuffer& from, uint32_t length);
  Sent Read(TaskSlot slot, const PieceBuffer& to, uint32_t length);
  Sent Bidirectional(TaskSlot slot, const PieceBuffer& from,
                     uint32_t out_length, const PieceBuffer& to,
                     uint32_t in_length);

  // InitiatorDatamoverClient:
  void ControlNotify(const ControlPdu& pdu) override;
  void ResponseNotify(TaskSlot task, const ScsiResponsePdu& response,
                      absl::Span<const uint8_t> data) override;
  void WindowNotify(uint32_t exp_cmd_sn, uint32_t max_cmd_sn) override;
  uint32_t CurrentExpStatSn() override { return exp_stat_sn; }
  void TaskDone(TaskSlot task) override;
  void RejectNotify(RejectPdu::Reason reason, const uint8_t* bhs,
                    const char* why) override;
  void ConnectionTerminateNotify(const absl::Status& why) override;

  Parameters parameters;
  StreamBuffers buffers;
  StreamInitiatorDatamover datamover;
  bool deallocate_on_response = true;

  uint32_t exp_stat_sn = 77;
  std::map<TaskSlot, ScsiResponsePdu> responses;
  std::map<TaskSlot, std::string> response_data;
  std::vector<Opcode> controls;
  std::vector<TaskSlot> done;
  int windows = 0;
  std::string refused;  // The first RejectNotify's reason in words.
  RejectPdu::Reason refused_reason = RejectPdu::kReserved;
  absl::Status terminated;

 private:
  Sent Send(const OutgoingCommand& command, ScsiCommandPdu pdu);
  uint16_t generation_ = 0;
};

// A small target that checks every rule an initiator has to keep, and serves
// one medium per logical unit. Written from RFC 7143, not from our target.
class ReferenceTarget {
 public:
  explicit ReferenceTarget(const Parameters& parameters)
      : parameters_(parameters) {}

  // Handles a PDU and returns the bytes of the answers.
  std::string Handle(const WirePdu& pdu);

  std::string medium;
  bool status_in_data_in = true;

 private:
  struct Burst {
    uint32_t offset;
    uint32_t end;
    uint32_t data_sn = 0;
  };
  struct Write {
    Lun lun = 0;
    std::string data;
    uint32_t received = 0;   // Of everything.
    uint32_t requested = 0;  // By R2T, or sent unasked.
    uint32_t r2t_sn = 0;
    bool unsolicited = false;
    Burst first;                       // The unsolicited one.
    std::map<uint32_t, Burst> bursts;  // By Target Transfer Tag.
    std::deque<uint32_t> order;
  };

  std::string OnCommand(const WirePdu& pdu);
  std::string OnDataOut(const WirePdu& pdu);
  std::string Continue(uint32_t tag);
  std::string SendRead(const ScsiCommandPdu& command);
  std::string Respond(uint32_t tag);

  Parameters parameters_;
  uint32_t stat_sn_ = 77;
  uint32_t next_ttt_ = 0x1000;
  std::map<uint32_t, Write> writes_;  // By Initiator Task Tag.
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_DATAMOVER_STREAM_STREAM_INITIATOR_TEST_UTIL_H_
