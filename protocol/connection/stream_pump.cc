#include "protocol/connection/stream_pump.h"

#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/system/spare_memory.h"

namespace skiff::protocol {

using transport::IoResult;
using transport::StreamStatus;

namespace {

// So many bytes, or PDUs and their data, are sent before the rest of what has
// arrived is read.
constexpr size_t kWorthSendingEarly = 16 << 10;
constexpr size_t kPiecesWorthSendingEarly = 64;

// With less than that moved, one who is alone need not look at the clock.
constexpr size_t kWorthALook = 16 << 10;
// Data that need no parsing, of one who uses more than his part.
constexpr size_t kDataOfGreedy = 192 << 10;

size_t TotalBytes(absl::Span<const iovec> spans) {
  size_t total = 0;
  for (const iovec& span : spans) total += span.iov_len;
  return total;
}

// The first `bytes` of them, or less. `memory` is for the answer.
absl::Span<const iovec> FirstOf(absl::Span<const iovec> spans, size_t bytes,
                                absl::Span<iovec> memory) {
  if (TotalBytes(spans) <= bytes) return spans;
  size_t n = 0;
  for (const iovec& span : spans) {
    if (bytes == 0 || n == memory.size()) break;
    memory[n] = {span.iov_base, std::min(span.iov_len, bytes)};
    bytes -= memory[n++].iov_len;
  }
  return memory.first(n);
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
  NoMemoryForPeer();
  stream_->SetObserver(this);
  // A spinning reactor finds data sooner by trying than by being told.
  if (reactor_->spinning()) SetPolling(true);
}

StreamPump::~StreamPump() {
  if (gone_ != nullptr) *gone_ = true;
  reactor_->turn_shares().Leave(member_);
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

int StreamPump::ReleaseDescriptor(std::string* unread) {
  const int descriptor = stream_->ReleaseDescriptor(unread);
  if (descriptor < 0) return descriptor;
  closed_ = true;
  SetPolling(false);
  return descriptor;
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
  if (newcomer_) return reactor_->newcomers().Add(this);
  const absl::Time now = reactor_->Now();
  grant_ = reactor_->turn_shares().Begin(&member_, now);
  if (put_off_.Again(grant_, now)) return reactor_->ScheduleTurnEnd(this);
  // A single PDU may take longer than a pass.
  if (debt_.Pays(grant_)) return ContinueNextTurn();
  const uint64_t moved_before = BytesMoved();
  if (!RunPass(grant_.alone ? now : reactor_->NowInTurn())) return;
  if (BytesMoved() != moved_before) {
    const absl::Duration took = grant_.alone
                                    ? absl::ZeroDuration()
                                    : reactor_->NowInTurn() - pass_began_;
    reactor_->turn_shares().End(&member_, now, grant_, !more_next_turn_, took);
    debt_.Add(grant_, took);
  }
  if (failed_) ReportClosed();
}

bool StreamPump::RunAsNewcomer() {
  if (closed_) return false;
  grant_ = reactor_->newcomers().grant();
  const uint64_t moved_before = BytesMoved();
  if (!RunPass(reactor_->NowInTurn())) return true;
  const bool moved = BytesMoved() != moved_before;
  if (!failed_) return moved;
  ReportClosed();
  return true;
}

bool StreamPump::RunPass(absl::Time began) {
  const absl::Time now = reactor_->Now();
  if (turn_ != now) {
    turn_ = now;
    receive_budget_ = options_.receive_bytes_per_turn;
    send_budget_ = options_.send_bytes_per_turn;
  }
  pass_began_ = began;
  looked_ = pass_began_;
  not_looked_ = 0;
  bool gone = false;
  gone_ = &gone;
  PassUnlessNoMemory(gone);
  if (gone) return false;
  gone_ = nullptr;
  return true;
}

// Without memory the connection ends, and nothing else does.
void StreamPump::PassUnlessNoMemory(const bool& gone) {
  const transport::SpareMemory::Watch memory;
  bool thrown = false;
  try {
    Pass(gone);
  } catch (const std::bad_alloc&) {
    thrown = true;
  }
  if (gone || failed_ || !(thrown || memory.ran_out())) return;
  in_pass_ = false;
  failed_ = true;
  failure_ = NoMemoryForPeer();
}

// `gone`: the pump was destroyed.
void StreamPump::Pass(const bool& gone) {
  in_pass_ = true;
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
  if (drained || bytes_received_ != received_before) client_->OnProgress();
}

absl::Span<const iovec> StreamPump::SomeOf(absl::Span<const iovec> spans,
                                           SomeSpans* memory) const {
  if (spans.empty()) return spans;
  // Only what goes to the last one is parsed.
  if (grant_.alone) {
    if (spans.back().iov_len <= lone_bytes_) return spans;
    const size_t too_much = spans.back().iov_len - lone_bytes_;
    return FirstOf(spans, TotalBytes(spans) - too_much,
                   absl::MakeSpan(*memory));
  }
  const size_t data = TotalBytes(spans.first(spans.size() - 1));
  const size_t most_data = grant_.greedy ? kDataOfGreedy : data;
  if (data <= most_data && spans.back().iov_len <= grant_.bytes) return spans;
  return FirstOf(spans,
                 data < most_data || !grant_.greedy
                     ? data + std::min(spans.back().iov_len, grant_.bytes)
                     : most_data,
                 absl::MakeSpan(*memory));
}

bool StreamPump::OutOfTime(size_t bytes) {
  not_looked_ += bytes;
  if (grant_.alone && not_looked_ < kWorthALook) return false;
  not_looked_ = 0;
  const absl::Time now = reactor_->NowInTurn();
  // Somebody else may come while he who is alone parses what he has read.
  const absl::Duration took = now - std::exchange(looked_, now);
  if (took > grant_.time) {
    lone_bytes_ = std::max(lone_bytes_ / 2, kWorthALook);
  } else if (took < grant_.time / 4) {
    lone_bytes_ = std::min(lone_bytes_ * 2, transport::TurnShares::kMostBytes);
  }
  return now - pass_began_ >= grant_.time;
}

bool StreamPump::Receive() {
  // What is there stays until all is sent.
  if (stopped_ && closing_ != Closing::kDiscarding) return false;
  if (closing_ != Closing::kNo) {
    Discard();
    return false;
  }
  bool received = false;
  SomeSpans memory;
  for (;;) {
    if (receive_budget_ == 0) {
      ContinueNextTurn();
      break;
    }
    const absl::Span<const iovec> spans =
        SomeOf(datamover_->ReceiveSpans(), &memory);
    if (spans.empty()) break;
    const IoResult result = stream_->Readv(spans);
    if (result.status != StreamStatus::kOk) {
      readable_ = false;
      if (result.status != StreamStatus::kWouldBlock) ReadFailed(result.status);
      break;
    }
    received = true;
    bytes_received_ += result.bytes;
    receive_budget_ -= std::min(receive_budget_, result.bytes);
    const bool more = result.bytes == TotalBytes(spans);
    datamover_->BytesReceived(result.bytes);
    if (stopped_) break;
    // The peer goes on with what is answered already while the rest is read. A
    // few responses are not worth a system call each.
    if (more && !failed_ && WorthSendingEarly(datamover_->SendSpans())) {
      Send();
    }
    if ((more || grant_.alone) && OutOfTime(result.bytes) && more) {
      receive_budget_ = 0;
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
    if (result.status != StreamStatus::kOk) {
      readable_ = false;
      if (result.status == StreamStatus::kWouldBlock) return;
      failed_ = true;
      if (result.status == StreamStatus::kError) failure_ = stream_->error();
      return;
    }
    receive_budget_ -= std::min(receive_budget_, result.bytes);
    bytes_discarded_ += result.bytes;
    if (OutOfTime(result.bytes)) break;
  }
  ContinueNextTurn();
}

void StreamPump::ReadFailed(StreamStatus status) {
  if (failed_) return;
  failed_ = true;
  if (status == StreamStatus::kError) {
    failure_ = stream_->error();
    return;
  }
  failure_ = absl::UnavailableError(
      absl::StrCat(stream_->peer_address(), " closed the connection",
                   datamover_->mid_pdu() ? " in the middle of a PDU" : ""));
}

void StreamPump::Send() {
  SomeSpans memory;
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
    const IoResult result = stream_->Writev(
        grant_.greedy ? FirstOf(spans, kDataOfGreedy, absl::MakeSpan(memory))
                      : spans);
    if (result.status == StreamStatus::kWouldBlock) {
      send_blocked_ = true;
      break;
    }
    if (result.status != StreamStatus::kOk) {
      WriteFailed();
      break;
    }
    last_send_progress_ = turn_;
    bytes_sent_ += result.bytes;
    send_budget_ -= std::min(send_budget_, result.bytes);
    datamover_->BytesSent(result.bytes);
    if (OutOfTime(result.bytes)) send_budget_ = 0;
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
  grant_ = {.time = absl::InfiniteDuration()};
  Receive();
}

void StreamPump::ContinueNextTurn() {
  more_next_turn_ = true;
  SetPolling(true);
}

void StreamPump::SetPolling(bool polling) {
  if (polling == polling_) return;
  if (polling) {
    // Spinning reactors do not sleep anyway.
    reactor_->AddPoller(this, /*busy=*/!reactor_->spinning());
  } else {
    reactor_->RemovePoller(this);
  }
  polling_ = polling;
}

void StreamPump::ReportClosed() {
  closed_ = true;
  SetPolling(false);
  stream_->SetObserver(nullptr);
  client_->OnClosed(std::move(failure_));
}

}  // namespace skiff::protocol
