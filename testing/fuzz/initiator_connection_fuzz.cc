// A whole initiator connection in full feature phase: framing, data placement,
// session. Reads, writes, a ping and task management are outstanding, and the
// target's bytes are the input.
//
// The first byte says how: bit 0 digests, bit 1 InitialR2T=No, bit 2 data in
// any order, bits 3-7 the size of the reads.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "protocol/codec/wire_test_util.h"
#include "protocol/datamover/stream/stream_datamover.h"
#include "protocol/negotiation/login_test_util.h"
#include "protocol/negotiation/target_login.h"
#include "protocol/session/callback_queue.h"
#include "protocol/session/initiator_session.h"
#include "testing/fuzz/check.h"

namespace skiff::protocol {
namespace {

class Connection {
 public:
  explicit Connection(uint8_t how) {
    if ((how & 1) != 0) {
      offer_.header_digest = offer_.data_digest = {Digest::kCrc32c};
    }
    offer_.initial_r2t = (how & 2) == 0;
    if ((how & 4) != 0) {
      offer_.data_pdu_in_order = offer_.data_sequence_in_order = false;
    }
    offer_.max_recv_data_segment_length = 8192;
    offer_.first_burst_length = 4096;
    offer_.max_burst_length = 8192;
    mover_ = MakeInitiatorStreamDatamover(&buffers_, StreamDatamoverOptions());
    InitiatorSessionOptions options;
    options.max_commands = 8;
    options.login.identity.initiator_name = "iqn.2001-04.com.example:host";
    options.login.identity.target_name = "iqn.2001-04.com.example:disk";
    options.login.offer = offer_;
    options.on_async_event = [](uint64_t, absl::Span<const uint8_t>) {};
    session_ = std::make_unique<InitiatorSession>(options, mover_.get(),
                                                  &completions_);
    LogIn();
  }

  void Issue(uint32_t read, uint32_t write) {
    // Memory of its own for each, so that a byte too many is noticed.
    Slot& slot = slots_.emplace_back();
    slot.finished = &finished_;
    slot.in.resize(read);
    slot.out.resize(write);
    slot.iov_in = {slot.in.data(), read};
    slot.iov_out = {slot.out.data(), write};
    scsi::Command& command = slot.command;
    command.context = &slot;
    command.done = [](scsi::Command* done) {
      ++*static_cast<Slot*>(done->context)->finished;
    };
    if (read > 0) {
      command.data_in = &slot.iov_in;
      command.data_in_count = 1;
      command.data_in_length = read;
    }
    if (write > 0) {
      command.data_out = &slot.iov_out;
      command.data_out_count = 1;
      command.data_out_length = write;
    }
    SKIFF_FUZZ_CHECK(session_->CanIssue());
    session_->Issue(&command, now_);
  }

  void Request() {
    session_->Ping(nullptr);
    session_->Manage(TaskManagementFunction::kAbortTaskSet, 0, nullptr,
                     nullptr);
    session_->Advance(now_, now_);
  }

  void Receive(const uint8_t* data, size_t size, size_t step) {
    while (size > 0 && !session_->ended()) {
      const absl::Span<const iovec> spans = mover_->ReceiveSpans();
      if (spans.empty()) return;
      size_t n = 0;
      for (const iovec& span : spans) {
        const size_t take = std::min({span.iov_len, size, step - n});
        std::memcpy(span.iov_base, data, take);
        data += take;
        size -= take;
        n += take;
      }
      mover_->BytesReceived(n);
      Drain();
      now_ += absl::Milliseconds(100);
      session_->Advance(now_, now_);
      completions_.Run();
    }
  }

  void Finish() {
    session_->Terminate(absl::CancelledError("the end"));
    CommandList retry;
    session_->TakeUnfinished(&retry);
    completions_.Run();
    // Every command ends once, or is given back.
    SKIFF_FUZZ_CHECK(finished_ + retry.size() == slots_.size());
  }

 private:
  struct Slot {
    scsi::Command command;
    std::vector<uint8_t> in;
    std::vector<uint8_t> out;
    iovec iov_in;
    iovec iov_out;
    size_t* finished;
  };

  std::string Drain() {
    std::string bytes;
    for (;;) {
      const absl::Span<const iovec> spans = mover_->SendSpans();
      if (spans.empty()) return bytes;
      size_t n = 0;
      for (const iovec& span : spans) {
        bytes.append(static_cast<const char*>(span.iov_base), span.iov_len);
        n += span.iov_len;
      }
      mover_->BytesSent(n);
    }
  }

  void LogIn() {
    FakePolicy policy;
    policy.offer = offer_;
    TargetLogin login(&policy, TargetLogin::Limits());
    uint32_t stat_sn = 0;
    session_->Start(now_);
    while (session_->state() == InitiatorSession::State::kLogin) {
      const std::string bytes = Drain();
      const auto* bhs = reinterpret_cast<const uint8_t*>(bytes.data());
      LoginRequestPdu request;
      SKIFF_FUZZ_CHECK(Decode(bhs, &request).ok());
      TargetLogin::Reply reply = *login.OnRequest(
          request, {bhs + kBhsSize, DecodeFrame(bhs).data_segment_length});
      reply.pdu.initiator_task_tag = request.initiator_task_tag;
      reply.pdu.stat_sn = stat_sn++;
      reply.pdu.exp_cmd_sn = request.cmd_sn;
      reply.pdu.max_cmd_sn = request.cmd_sn + 15;
      const std::string answer = ToWire(reply.pdu, reply.data);
      Receive(reinterpret_cast<const uint8_t*>(answer.data()), answer.size(),
              ~size_t{0});
    }
    SKIFF_FUZZ_CHECK(session_->state() ==
                     InitiatorSession::State::kFullFeature);
  }

  Offer offer_;
  absl::Time now_ = absl::UnixEpoch();
  StreamBuffers buffers_{16 * 1024};
  CallbackQueue completions_;
  std::unique_ptr<StreamDatamoverOf<InitiatorDatamover>> mover_;
  std::unique_ptr<InitiatorSession> session_;
  std::deque<Slot> slots_;
  size_t finished_ = 0;
};

}  // namespace
}  // namespace skiff::protocol

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  skiff::protocol::Connection connection(data[0]);
  connection.Issue(/*read=*/100, 0);
  connection.Issue(/*read=*/20000, 0);
  connection.Issue(0, /*write=*/20000);
  connection.Issue(/*read=*/300, /*write=*/5000);
  connection.Issue(0, 0);
  connection.Request();
  const size_t pace = data[0] >> 3;
  connection.Receive(data + 1, size - 1, pace == 0 ? ~size_t{0} : pace * 7);
  connection.Finish();
  return 0;
}
