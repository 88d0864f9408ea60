#include "protocol/driver/stream_pump.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"

namespace skiff::protocol {

using transport::IoResult;
using transport::IoStatus;

namespace {

// So many bytes, or PDUs and their data, are sent before the rest of what has
// arrived is read.
constexpr size_t kWorthSendingEarly = 16 << 10;
constexpr size_t kPiecesWorthSendingEarly = 64;

size_t TotalBytes(absl::Span<const iovec> spans) {
  size_t total = 0;
  for (const iovec& span : spans) total += span.iov_len;
  return total;
}

bool WorthSendingEarly(absl::Span<const iovec> spans) {
  return spans.size() >= kPiecesWorthSendingEarly ||
         TotalBytes(spans) >= kWorthSendingEarly;
}

}  // namespace

StreamPump::StreamPump(transport::Reactor* reactor,
                       std::unique_ptr<transport::ByteStream> stream,
                       StreamDatamover* datamover,
                       const StreamPumpOptions& options, PumpClient* client)
    : reactor_(reactor),
      stream_(std::move(stream)),
      datamover_(datamover),
      client_(client),
      options_(options),
      receive_budget_(options.receive_bytes_per_turn),
      send_budget_(options.send_bytes_per_turn),
      last_receive_(reactor->Now()),
      last_send_progress_(last_receive_) {
  stream_->SetObserver(this);
  // A spinning reactor finds data sooner by trying than by being told.
  if (reactor_->spinning()) SetPolling(true);
}

StreamPump::~StreamPump() {
  if (gone_ != nullptr) *gone_ = true;
  SetPolling(false);
  stream_->SetObserver(nullptr);
}

void StreamPump::Kick() {
  if (!closed_ && !in_pass_) reactor_->ScheduleTurnEnd(this);
}

void StreamPump::SetReadThreshold(size_t bytes) {
  if (bytes == read_threshold_ || closed_) return;
  read_threshold_ = bytes;
  stream_->SetReadThreshold(bytes);
}

void StreamPump::CloseWhenSent() {
  if (closing_ != Closing::kNo) return;
  closing_ = Closing::kSending;
  Kick();
}

void StreamPump::OnReadable() {
  readable_ = true;
  Kick();
}

void StreamPump::OnWritable() {
  send_blocked_ = false;
  Kick();
}

int StreamPump::Poll() {
  // Whatever used up its budget did so in an earlier turn.
  turn_ = absl::InfinitePast();
  if (more_next_turn_) {
    more_next_turn_ = false;
    if (!reactor_->spinning()) SetPolling(false);
  } else if (closed_ || !reactor_->spinning()) {
    return 0;
  }
  readable_ = true;
  Kick();
  return 1;
}

void StreamPump::OnTurnEnd() {
  if (closed_) return;
  bool gone = false;
  gone_ = &gone;
  in_pass_ = true;
  if (turn_ != reactor_->Now()) {
    turn_ = reactor_->Now();
    receive_budget_ = options_.receive_bytes_per_turn;
    send_budget_ = options_.send_bytes_per_turn;
  }

  if (readable_ && Receive()) {
    client_->OnProgress();
    if (gone) return;
  }
  const bool was_congested = datamover_->congested();
  const uint64_t received_before = bytes_received_;
  if (!failed_) Send();
  const bool drained = was_congested && !datamover_->congested();
  // Receiving may have been paused.
  if (drained && readable_) ContinueNextTurn();
  in_pass_ = false;
  if (drained || bytes_received_ != received_before) {
    client_->OnProgress();
    if (gone) return;
  }
  gone_ = nullptr;
  if (failed_) ReportClosed();
}

bool StreamPump::Receive() {
  if (closing_ != Closing::kNo) {
    Discard();
    return false;
  }
  bool received = false;
  for (;;) {
    if (receive_budget_ == 0) {
      ContinueNextTurn();
      break;
    }
    const absl::Span<const iovec> spans = datamover_->ReceiveSpans();
    if (spans.empty()) break;
    const IoResult result = stream_->Readv(spans);
    if (result.status != IoStatus::kOk) {
      readable_ = false;
      if (result.status != IoStatus::kWouldBlock) ReadFailed(result.status);
      break;
    }
    received = true;
    bytes_received_ += result.bytes;
    receive_budget_ -= std::min(receive_budget_, result.bytes);
    const bool more = result.bytes == TotalBytes(spans);
    datamover_->BytesReceived(result.bytes);
    // The peer goes on with what is answered already while the rest is read. A
    // few responses are not worth a system call each.
    if (more && !failed_ && WorthSendingEarly(datamover_->SendSpans())) {
      Send();
    }
  }
  if (received) last_receive_ = reactor_->Now();
  return received;
}

void StreamPump::Discard() {
  std::array<uint8_t, 4096> nowhere;
  const iovec to = {nowhere.data(), nowhere.size()};
  while (receive_budget_ > 0) {
    const IoResult result = stream_->Readv({&to, 1});
    if (result.status != IoStatus::kOk) {
      readable_ = false;
      if (result.status == IoStatus::kWouldBlock) return;
      failed_ = true;
      if (result.status == IoStatus::kError) failure_ = stream_->error();
      return;
    }
    receive_budget_ -= std::min(receive_budget_, result.bytes);
  }
  ContinueNextTurn();
}

void StreamPump::ReadFailed(IoStatus status) {
  if (failed_) return;
  failed_ = true;
  if (status == IoStatus::kError) {
    failure_ = stream_->error();
    return;
  }
  failure_ = absl::UnavailableError(
      absl::StrCat(stream_->peer_address(), " closed the connection",
                   datamover_->mid_pdu() ? " in the middle of a PDU" : ""));
}

void StreamPump::Send() {
  while (!send_blocked_) {
    if (send_budget_ == 0) {
      ContinueNextTurn();
      break;
    }
    const absl::Span<const iovec> spans = datamover_->SendSpans();
    if (spans.empty()) {
      send_idle_ = true;
      if (closing_ == Closing::kSending) {
        closing_ = Closing::kDiscarding;
        stream_->ShutdownWrite();
        if (readable_) ContinueNextTurn();
      }
      break;
    }
    if (send_idle_) last_send_progress_ = turn_;
    send_idle_ = false;
    const IoResult result = stream_->Writev(spans);
    if (result.status == IoStatus::kWouldBlock) {
      send_blocked_ = true;
      break;
    }
    if (result.status != IoStatus::kOk) {
      WriteFailed();
      break;
    }
    last_send_progress_ = turn_;
    bytes_sent_ += result.bytes;
    send_budget_ -= std::min(send_budget_, result.bytes);
    datamover_->BytesSent(result.bytes);
  }
}

// The peer may have said why before it closed: what it sent is read first.
void StreamPump::WriteFailed() {
  failed_ = true;
  failure_ = stream_->error();
  if (failure_.ok()) {
    failure_ = absl::UnavailableError(
        absl::StrCat(stream_->peer_address(), " closed the connection"));
  }
  receive_budget_ = options_.receive_bytes_per_turn;
  Receive();
}

void StreamPump::ContinueNextTurn() {
  more_next_turn_ = true;
  SetPolling(true);
}

void StreamPump::SetPolling(bool polling) {
  if (polling == polling_) return;
  polling_ = polling;
  if (polling) {
    // Spinning reactors do not sleep anyway.
    reactor_->AddPoller(this, /*busy=*/!reactor_->spinning());
  } else {
    reactor_->RemovePoller(this);
  }
}

void StreamPump::ReportClosed() {
  closed_ = true;
  SetPolling(false);
  stream_->SetObserver(nullptr);
  client_->OnClosed(std::move(failure_));
}

}  // namespace skiff::protocol
