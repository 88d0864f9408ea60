#include "protocol/datamover/stream/stream_initiator_test_util.h"

#include <algorithm>

#include "gtest/gtest.h"

namespace skiff::protocol {
namespace {

WireDigests DigestsOf(const Parameters& parameters) {
  return {parameters.header_digest == Digest::kCrc32c,
          parameters.data_digest == Digest::kCrc32c};
}

}  // namespace

std::string Frame(const Bhs& bhs, const std::string& data,
                  const Parameters& parameters) {
  return WireOf(bhs, "", data, DigestsOf(parameters));
}

PieceBuffer::PieceBuffer(const std::string& content, int pieces) {
  size_t at = 0;
  for (int i = 0; i < pieces; ++i) {
    const size_t left = content.size() - at;
    const size_t n =
        i + 1 == pieces ? left : std::min(left, content.size() / pieces + i);
    parts_.push_back(content.substr(at, n));
    at += n;
  }
  for (std::string& part : parts_) iov_.push_back({part.data(), part.size()});
}

std::string PieceBuffer::content() const {
  std::string all;
  for (const std::string& part : parts_) all += part;
  return all;
}

std::string Pattern(size_t size, uint32_t seed) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<char>((i * 2654435761u + seed) >> 13);
  }
  return bytes;
}

InitiatorHarness::InitiatorHarness(const Parameters& p,
                                   const StreamDatamoverOptions& options)
    : parameters(p), buffers(64 * 1024), datamover(&buffers, options) {
  datamover.SetClient(this, 8);
  datamover.EnableDatamover(p);
}

std::string InitiatorHarness::TakeBytes(size_t bytes, size_t chunk) {
  std::string out;
  while (out.size() < bytes) {
    const absl::Span<const iovec> spans = datamover.SendSpans();
    if (spans.empty()) break;
    const std::string piece =
        CopyOut(spans, std::min(chunk, bytes - out.size()));
    datamover.BytesSent(piece.size());
    out += piece;
  }
  return out;
}

std::vector<WirePdu> InitiatorHarness::Take(size_t chunk) {
  const auto pdus =
      ParseWire(TakeBytes(~size_t{0}, chunk), DigestsOf(parameters));
  EXPECT_FALSE(datamover.has_output());
  EXPECT_TRUE(pdus.ok()) << pdus.status();
  return pdus.ok() ? *pdus : std::vector<WirePdu>();
}

void InitiatorHarness::Feed(const std::string& bytes, size_t chunk) {
  size_t at = 0;
  while (at < bytes.size()) {
    const absl::Span<const iovec> spans = datamover.ReceiveSpans();
    if (spans.empty()) return;
    const size_t n = CopyIn(bytes.substr(at, chunk), spans);
    at += n;
    datamover.BytesReceived(n);
  }
}

InitiatorHarness::Sent InitiatorHarness::Send(const OutgoingCommand& command,
                                              ScsiCommandPdu pdu) {
  OutgoingCommand out = command;
  pdu.initiator_task_tag = MakeTag(out.task, ++generation_);
  pdu.lun = 0x0001000000000000;
  pdu.exp_stat_sn = exp_stat_sn;
  out.pdu = &pdu;
  EXPECT_TRUE(datamover.SendCommand(out).ok());
  return {out.task, pdu.initiator_task_tag};
}

InitiatorHarness::Sent InitiatorHarness::Write(TaskSlot slot,
                                               const PieceBuffer& from,
                                               uint32_t length) {
  OutgoingCommand command;
  command.task = slot;
  command.data_out = from.iov();
  command.data_out_count = from.count();
  command.data_out_length = length;
  ScsiCommandPdu pdu;
  pdu.write = length > 0;
  pdu.expected_data_transfer_length = length;
  return Send(command, pdu);
}

InitiatorHarness::Sent InitiatorHarness::Read(TaskSlot slot,
                                              const PieceBuffer& to,
                                              uint32_t length) {
  OutgoingCommand command;
  command.task = slot;
  command.data_in = to.iov();
  command.data_in_count = to.count();
  command.data_in_length = length;
  ScsiCommandPdu pdu;
  pdu.read = length > 0;
  pdu.expected_data_transfer_length = length;
  return Send(command, pdu);
}

InitiatorHarness::Sent InitiatorHarness::Bidirectional(TaskSlot slot,
                                                       const PieceBuffer& from,
                                                       uint32_t out_length,
                                                       const PieceBuffer& to,
                                                       uint32_t in_length) {
  OutgoingCommand command;
  command.task = slot;
  command.data_out = from.iov();
  command.data_out_count = from.count();
  command.data_out_length = out_length;
  command.data_in = to.iov();
  command.data_in_count = to.count();
  command.data_in_length = in_length;
  command.ahs.has_bidi_read_length = true;
  command.ahs.bidi_read_length = in_length;
  ScsiCommandPdu pdu;
  pdu.read = pdu.write = true;
  pdu.expected_data_transfer_length = out_length;
  return Send(command, pdu);
}

void InitiatorHarness::ControlNotify(const ControlPdu& pdu) {
  controls.push_back(static_cast<Opcode>(pdu.frame.opcode));
}

void InitiatorHarness::ResponseNotify(TaskSlot task,
                                      const ScsiResponsePdu& response,
                                      absl::Span<const uint8_t> data) {
  EXPECT_EQ(responses.count(task), 0u);
  responses[task] = response;
  response_data[task].assign(reinterpret_cast<const char*>(data.data()),
                             data.size());
  if (deallocate_on_response &&
      datamover.DeallocateTaskResources(task) == Progress::kDone) {
    TaskDone(task);
  }
}

void InitiatorHarness::WindowNotify(uint32_t, uint32_t) { ++windows; }

void InitiatorHarness::TaskDone(TaskSlot task) { done.push_back(task); }

void InitiatorHarness::RejectNotify(RejectPdu::Reason reason, const uint8_t*,
                                    const char* why) {
  if (!refused.empty()) return;
  refused = why;
  refused_reason = reason;
}

void InitiatorHarness::ConnectionTerminateNotify(const absl::Status& why) {
  terminated = why;
}

// --- The reference target.

std::string ReferenceTarget::Handle(const WirePdu& pdu) {
  if (pdu.opcode() == Opcode::kScsiCommand) return OnCommand(pdu);
  if (pdu.opcode() == Opcode::kScsiDataOut) return OnDataOut(pdu);
  ADD_FAILURE() << "unexpected PDU " << OpcodeName(pdu.bhs[0] & 0x3f);
  return "";
}

std::string ReferenceTarget::OnCommand(const WirePdu& pdu) {
  ScsiCommandPdu command;
  EXPECT_TRUE(Decode(pdu.bhs.data(), &command).ok());
  const auto immediate = static_cast<uint32_t>(pdu.data.size());
  const uint32_t total = command.expected_data_transfer_length;
  if (!command.write) {
    EXPECT_TRUE(command.final);
    EXPECT_EQ(immediate, 0u);
    return command.read ? SendRead(command)
                        : Respond(command.initiator_task_tag);
  }
  EXPECT_LE(immediate, parameters_.target_max_recv_data_segment_length);
  EXPECT_LE(immediate, std::min(total, parameters_.first_burst_length));
  if (!parameters_.immediate_data) {
    EXPECT_EQ(immediate, 0u);
  }
  if (parameters_.initial_r2t) {
    EXPECT_TRUE(command.final);
  }
  Write& write = writes_[command.initiator_task_tag];
  write = Write();
  write.lun = command.lun;
  write.data.assign(total, '\0');
  write.data.replace(0, immediate, pdu.data);
  write.received = immediate;
  write.requested = immediate;
  write.unsolicited = !command.final;
  if (write.unsolicited) {
    const uint32_t end = std::min(total, parameters_.first_burst_length);
    EXPECT_LT(immediate, end) << "F=0, but nothing may follow";
    write.first = {immediate, end};
    write.requested = end;
  }
  return Continue(command.initiator_task_tag);
}

std::string ReferenceTarget::OnDataOut(const WirePdu& pdu) {
  ScsiDataOutPdu out;
  EXPECT_TRUE(Decode(pdu.bhs.data(), &out).ok());
  if (writes_.count(out.initiator_task_tag) == 0) {
    ADD_FAILURE() << "Data-Out for an unknown task";
    return "";
  }
  EXPECT_EQ(out.exp_stat_sn, 77u);
  EXPECT_FALSE(pdu.data.empty());
  EXPECT_LE(pdu.data.size(), parameters_.target_max_recv_data_segment_length);
  Write& write = writes_[out.initiator_task_tag];
  const bool solicited = out.target_transfer_tag != kReservedTag;
  Burst* burst = &write.first;
  if (solicited) {
    EXPECT_EQ(out.lun, write.lun);
    if (write.order.empty() || write.order.front() != out.target_transfer_tag) {
      ADD_FAILURE() << "R2Ts answered out of order";
      return "";
    }
    burst = &write.bursts[out.target_transfer_tag];
  } else {
    EXPECT_TRUE(write.unsolicited) << "unsolicited data after the last";
  }
  EXPECT_EQ(out.data_sn, burst->data_sn++);
  EXPECT_EQ(out.buffer_offset, burst->offset);
  burst->offset += pdu.data.size();
  EXPECT_LE(burst->offset, burst->end);
  EXPECT_EQ(out.final, burst->offset == burst->end);
  write.data.replace(out.buffer_offset, pdu.data.size(), pdu.data);
  write.received += pdu.data.size();
  if (out.final && solicited) {
    write.bursts.erase(out.target_transfer_tag);
    write.order.pop_front();
  }
  if (out.final && !solicited) write.unsolicited = false;
  return Continue(out.initiator_task_tag);
}

// R2Ts as far as MaxOutstandingR2T goes, or the response.
std::string ReferenceTarget::Continue(uint32_t tag) {
  Write& write = writes_[tag];
  if (write.received == write.data.size()) {
    EXPECT_FALSE(write.unsolicited);
    medium = write.data;
    writes_.erase(tag);
    return Respond(tag);
  }
  std::string answer;
  while (!write.unsolicited && write.requested < write.data.size() &&
         write.bursts.size() < parameters_.max_outstanding_r2t) {
    const uint32_t length = std::min<uint32_t>(
        write.data.size() - write.requested, parameters_.max_burst_length);
    R2tPdu r2t;
    r2t.lun = write.lun;
    r2t.initiator_task_tag = tag;
    r2t.target_transfer_tag = next_ttt_++;
    r2t.stat_sn = stat_sn_;
    r2t.r2t_sn = write.r2t_sn++;
    r2t.buffer_offset = write.requested;
    r2t.desired_data_transfer_length = length;
    write.bursts[r2t.target_transfer_tag] = {write.requested,
                                             write.requested + length};
    write.order.push_back(r2t.target_transfer_tag);
    write.requested += length;
    answer += Frame(r2t, "", parameters_);
  }
  return answer;
}

std::string ReferenceTarget::SendRead(const ScsiCommandPdu& command) {
  std::string answer;
  const uint32_t total = command.expected_data_transfer_length;
  uint32_t offset = 0;
  uint32_t burst = 0;
  ScsiDataInPdu in;
  in.lun = command.lun;
  in.initiator_task_tag = command.initiator_task_tag;
  while (offset < total) {
    const uint32_t length = std::min(
        {total - offset, parameters_.initiator_max_recv_data_segment_length,
         parameters_.max_burst_length - burst});
    burst += length;
    in.buffer_offset = offset;
    offset += length;
    in.final = offset == total || burst == parameters_.max_burst_length;
    if (in.final) burst = 0;
    if (offset == total && status_in_data_in) {
      in.has_status = true;
      in.stat_sn = stat_sn_;
    }
    answer += Frame(in, medium.substr(in.buffer_offset, length), parameters_);
    ++in.data_sn;
  }
  if (!in.has_status) answer += Respond(command.initiator_task_tag);
  return answer;
}

std::string ReferenceTarget::Respond(uint32_t tag) {
  ScsiResponsePdu response;
  response.initiator_task_tag = tag;
  response.stat_sn = stat_sn_;
  return Frame(response, "", parameters_);
}

}  // namespace skiff::protocol
