#ifndef SKIFF_PROTOCOL_DATAMOVER_STREAM_STREAM_TARGET_TEST_UTIL_H_
#define SKIFF_PROTOCOL_DATAMOVER_STREAM_STREAM_TARGET_TEST_UTIL_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "protocol/codec/wire_test_util.h"
#include "protocol/datamover/stream/stream_datamover.h"

// A target's datamover, with a session and an initiator that are a test.

namespace skiff::protocol {

inline constexpr uint32_t kTag = 0x1234;
inline constexpr TaskSlot kSlot = 3;

// A session that accepts each SCSI Command in slot 3.
class Session : public TargetDatamoverClient {
 public:
  void ControlNotify(const ControlPdu& pdu) override {
    EXPECT_NE(pdu.frame.opcode, static_cast<uint8_t>(Opcode::kScsiCommand));
    events.push_back(absl::StrCat("control ", pdu.frame.opcode));
  }
  TaskSlot CommandNotify(const ControlPdu& pdu,
                         CommandLengths* lengths) override {
    events.push_back(absl::StrCat("control ", pdu.frame.opcode));
    ScsiCommandPdu command;
    EXPECT_TRUE(Decode(pdu.bhs, &command).ok());
    if (refuse) return kNoTask;
    live = true;
    const uint32_t length = command.expected_data_transfer_length;
    lengths->data_out = command.write ? length : 0;
    lengths->data_in = command.read ? length : 0;
    return kSlot;
  }
  void TaskReady(TaskSlot task) override {
    EXPECT_EQ(task, kSlot);
    for (uint32_t offset = 0; offset < get;) {
      const uint32_t length = std::min(get_at_once, get - offset);
      if (!Get(offset, length)) return;
      offset += length;
    }
  }
  void TaskNotReady(TaskSlot task) override {
    EXPECT_EQ(task, kSlot);
    live = false;
    events.push_back("not ready");
  }
  bool Get(uint32_t offset, uint32_t length) {
    if (offset == 0) buffer.assign(length, '\0');
    buffer.resize(offset + length);
    const bool done =
        datamover->GetData(kSlot, offset,
                           {reinterpret_cast<uint8_t*>(buffer.data()) + offset,
                            length}) == Progress::kDone;
    if (done) events.push_back("got at once");
    return done;
  }
  TaskSlot FindTask(uint32_t tag) override {
    return live && tag == kTag ? kSlot : kNoTask;
  }
  void CurrentWindow(uint32_t* exp, uint32_t* max) override {
    *exp = 7;
    *max = 70;
  }
  uint32_t CurrentStatSn() override { return 42; }
  void DataCompletionNotify(TaskSlot task, DataOperation operation,
                            DataOutcome outcome) override {
    EXPECT_EQ(task, kSlot);
    events.push_back(
        absl::StrCat(operation == DataOperation::kGet ? "got" : "put",
                     outcome == DataOutcome::kMoved ? "" : " cancelled"));
  }
  void TaskDone(TaskSlot) override {
    live = false;
    events.push_back("done");
  }
  void RejectNotify(RejectPdu::Reason reason, const uint8_t*, const char*,
                    AfterReject after) override {
    events.push_back(absl::StrCat(
        "reject ", reason, after == AfterReject::kClose ? " fatal" : ""));
  }
  void TaskDataError(TaskSlot, const DataFault& fault) override {
    events.push_back(absl::StrCat("data error ", absl::Hex(fault.asc), "/",
                                  absl::Hex(fault.ascq)));
  }
  void TaskRefused(TaskSlot) override { events.push_back("refused"); }
  void TaskMemoryError(TaskSlot, const absl::Status& why) override {
    events.push_back(absl::StrCat("memory error ", why.message()));
  }
  void ConnectionTerminateNotify(const absl::Status& why) override {
    events.push_back(absl::StrCat("terminate ", why.message()));
  }

  TargetDatamover* datamover = nullptr;
  bool refuse = false;
  bool live = false;
  uint32_t get = 0;  // As soon as the task is ready,
  uint32_t get_at_once =
      ~0u;  // in steps of so many bytes while they are there.
  std::string buffer;
  std::vector<std::string> events;
};

// What an initiator sends for the task.
inline std::string WriteCommand(uint32_t length, const std::string& immediate,
                                bool final = true) {
  ScsiCommandPdu pdu;
  pdu.write = true;
  pdu.final = final;
  pdu.initiator_task_tag = kTag;
  pdu.expected_data_transfer_length = length;
  return ToWire(pdu, immediate);
}

inline std::string ReadCommand(uint32_t length) {
  ScsiCommandPdu pdu;
  pdu.read = true;
  pdu.initiator_task_tag = kTag;
  pdu.expected_data_transfer_length = length;
  return ToWire(pdu);
}

inline std::string DataOut(uint32_t transfer_tag, uint32_t data_sn,
                           uint32_t offset, const std::string& data,
                           bool final) {
  ScsiDataOutPdu pdu;
  pdu.final = final;
  pdu.initiator_task_tag = kTag;
  pdu.target_transfer_tag = transfer_tag;
  pdu.data_sn = data_sn;
  pdu.buffer_offset = offset;
  return ToWire(pdu, data);
}

class StreamTargetDatamoverTest : public ::testing::Test {
 protected:
  StreamTargetDatamoverTest() { Start(Parameters()); }

  void Start(const Parameters& parameters) {
    parameters_ = parameters;
    datamover_.reset();
    session_ = Session();
    datamover_ = MakeTargetStreamDatamover(&buffers_, StreamDatamoverOptions());
    session_.datamover = datamover_.get();
    datamover_->SetClient(&session_, 16);
    datamover_->EnableDatamover(parameters);
  }

  void Feed(const std::string& wire) {
    size_t at = 0;
    while (at < wire.size()) {
      const absl::Span<const iovec> spans = datamover_->ReceiveSpans();
      if (spans.empty()) return;
      const size_t n = CopyIn(wire.substr(at, step_), spans);
      at += n;
      datamover_->BytesReceived(n);
    }
  }

  void Deallocate() {
    if (datamover_->DeallocateTaskResources(kSlot) == Progress::kDone) {
      session_.TaskDone(kSlot);
    }
  }

  // What was sent since the last call, cut into PDUs.
  std::vector<WirePdu> TakeSent() {
    std::string wire;
    while (datamover_->has_output()) {
      const std::string out = CopyOut(datamover_->SendSpans());
      datamover_->BytesSent(out.size());
      wire += out;
    }
    const auto pdus = ParseWire(wire);
    EXPECT_TRUE(pdus.ok()) << pdus.status();
    return pdus.ok() ? *pdus : std::vector<WirePdu>();
  }
  std::vector<R2tPdu> TakeR2ts() {
    std::vector<R2tPdu> r2ts;
    for (const WirePdu& sent : TakeSent()) {
      R2tPdu r2t;
      EXPECT_TRUE(Decode(sent.bhs.data(), &r2t).ok());
      r2ts.push_back(r2t);
    }
    return r2ts;
  }

  // Plays an obedient initiator until nothing is asked for any more.
  void AnswerR2ts(const std::string& data, uint32_t segment) {
    for (std::vector<R2tPdu> r2ts = TakeR2ts(); !r2ts.empty();
         r2ts = TakeR2ts()) {
      EXPECT_LE(r2ts.size(), parameters_.max_outstanding_r2t);
      for (const R2tPdu& r2t : r2ts) {
        EXPECT_LE(r2t.desired_data_transfer_length,
                  parameters_.max_burst_length);
        EXPECT_EQ(r2t.stat_sn, 42u);
        uint32_t data_sn = 0;
        uint32_t at = 0;
        while (at < r2t.desired_data_transfer_length) {
          const uint32_t n =
              std::min(segment, r2t.desired_data_transfer_length - at);
          const bool final = at + n == r2t.desired_data_transfer_length;
          Feed(DataOut(r2t.target_transfer_tag, data_sn++,
                       r2t.buffer_offset + at,
                       data.substr(r2t.buffer_offset + at, n), final));
          at += n;
        }
      }
    }
  }

  StreamBuffers buffers_{64 * 1024};
  Parameters parameters_;
  Session session_;
  size_t step_ = 1000000;
  std::unique_ptr<StreamDatamoverOf<TargetDatamover>> datamover_;
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_DATAMOVER_STREAM_STREAM_TARGET_TEST_UTIL_H_
