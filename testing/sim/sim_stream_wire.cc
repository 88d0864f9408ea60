#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "testing/sim/sim_stream.h"

namespace skiff::testing {

std::shared_ptr<SimStreamWire> SimStreamWire::Create(SimWorld* world,
                                                     Side client, Side server,
                                                     SimDefect defect) {
  return std::shared_ptr<SimStreamWire>(
      new SimStreamWire(world, std::move(client), std::move(server), defect));
}

SimStreamWire::SimStreamWire(SimWorld* world, Side client, Side server,
                             SimDefect defect)
    : world_(world),
      defect_(defect),
      pipes_{{world, client.host, server.host, this},
             {world, server.host, client.host, this}},
      bytes_left_(
          world->network().link(client.host, server.host).reset_after_bytes),
      entry_(&world->network(), client.host, server.host, this) {
  ends_[0].address = std::move(client.address);
  ends_[1].address = std::move(server.address);
}

void SimStreamWire::Attach(int side, SimStream* stream,
                           const transport::ConnectOptions& options) {
  ends_[side].stream = stream;
  ends_[side].options = options;
}

size_t SimStreamWire::writable(int side) const {
  const size_t window = pipes_[side].link().send_buffer;
  return window - std::min(window, ends_[side].unread);
}

void SimStreamWire::Take(int side, char* to, size_t size) {
  if (size == 0) return;
  End& end = ends_[side];
  std::memcpy(to, end.inbox.data() + end.taken, size);
  end.taken += size;
  if (end.taken == end.inbox.size()) {
    end.inbox.clear();
    end.taken = 0;
  }
  // Opens the peer's window again.
  pipes_[side].Send(0, [self = shared_from_this(), peer = 1 - side, size] {
    End& sender = self->ends_[peer];
    sender.unread -= std::min(sender.unread, size);
    if (sender.stream != nullptr) sender.stream->MayWrite();
  });
}

void SimStreamWire::Send(int side, const std::string& data) {
  ends_[side].unread += data.size();
  const size_t max_segment = pipes_[side].link().max_segment;
  size_t offset = 0;
  while (offset < data.size()) {
    size_t size = data.size() - offset;
    if (max_segment > 0) {
      size = std::min<size_t>(size, world_->random().Between(1, max_segment));
    }
    SendSegment(side, data.substr(offset, size));
    offset += size;
  }
}

void SimStreamWire::SendSegment(int side, std::string data) {
  if (defect_ == SimDefect::kCorruptByte) {
    data[world_->random().Below(data.size())] ^= 0x40;
  }
  const size_t size = data.size();
  pipes_[side].Send(size, [self = shared_from_this(), peer = 1 - side,
                           data = std::move(data)]() mutable {
    self->Arrive(peer, std::move(data));
  });
}

void SimStreamWire::Arrive(int side, std::string data) {
  End& end = ends_[side];
  if (end.closed || !end.error.ok()) {
    // Data for nobody is answered by a reset.
    pipes_[side].Send(0, [self = shared_from_this(), peer = 1 - side] {
      self->ArriveReset(peer);
    });
    return;
  }
  if (defect_ == SimDefect::kSwappedSegments) {
    std::string& held = held_segment_[side];
    if (held.empty() && world_->random().Chance(0.25)) {
      held.swap(data);
    } else {
      data += std::exchange(held, "");
    }
  }
  bool reset = false;
  if (bytes_left_ > 0) {
    reset = data.size() >= bytes_left_;
    if (reset) data.resize(bytes_left_);
    bytes_left_ -= data.size();
  }
  end.inbox.append(data);
  if (end.stream != nullptr) end.stream->MayRead();
  if (reset) FaultReset();
}

void SimStreamWire::SendFin(int side) {
  if (std::exchange(ends_[side].fin_sent, true)) return;
  pipes_[side].Send(0, [self = shared_from_this(), peer = 1 - side] {
    End& end = self->ends_[peer];
    end.inbox += std::exchange(self->held_segment_[peer], "");
    end.fin_arrived = true;
    if (end.stream != nullptr) end.stream->MayRead();
  });
}

void SimStreamWire::Close(int side) {
  End& end = ends_[side];
  if (end.closed) return;
  if (end.error.ok() && readable(side) > 0) {
    Reset(side, absl::AbortedError("closed with unread data"));
  } else if (end.error.ok()) {
    SendFin(side);
  }
  end.closed = true;
}

void SimStreamWire::Reset(int side, absl::Status why) {
  // Data that waits is lost, but not the handshake of a side that never had a
  // user.
  if (ends_[side].stream != nullptr) pipes_[side].Clear();
  Fail(side, std::move(why));
  pipes_[side].Send(0, [self = shared_from_this(), peer = 1 - side] {
    self->ArriveReset(peer);
  });
}

void SimStreamWire::ArriveReset(int side) {
  Fail(side,
       absl::UnavailableError(absl::StrCat("sim://", ends_[1 - side].address,
                                           ": Connection reset by peer")));
}

void SimStreamWire::Fail(int side, absl::Status why) {
  End& end = ends_[side];
  if (end.closed || !end.error.ok()) return;
  world_->Trace("fail", side);
  end.error = std::move(why);
  end.inbox.clear();
  end.taken = 0;
  if (end.stream == nullptr) return;
  end.stream->MayRead();
  end.stream->MayWrite();
}

void SimStreamWire::FaultReset() {
  auto self = shared_from_this();  // The pipes' parcels may be the last owners.
  for (int side : {0, 1}) {
    pipes_[side].Clear();
    ArriveReset(side);
  }
}

void SimStreamWire::OnStalled(SimPipe* pipe) {
  const int side = SideOf(pipe);
  const absl::Duration timeout = ends_[side].options.user_timeout;
  if (timeout <= absl::ZeroDuration() || timeout == absl::InfiniteDuration()) {
    return;
  }
  world_->After(
      timeout, [weak = weak_from_this(), side, since = pipe->stalled_since()] {
        auto self = weak.lock();
        if (self == nullptr || self->pipes_[side].stalled_since() != since)
          return;
        self->Fail(side, absl::DeadlineExceededError(absl::StrCat(
                             "sim://", self->ends_[1 - side].address,
                             ": Connection timed out: sent data stayed "
                             "unacknowledged")));
      });
}

void SimStreamWire::OnLinkDown(SimPipe* pipe) {
  // Whichever direction is lost, a probe or its answer is.
  for (int side : {0, 1}) {
    const transport::ConnectOptions& options = ends_[side].options;
    const absl::Duration patience =
        options.keepalive_idle +
        options.keepalive_interval * options.keepalive_probes;
    if (options.keepalive_idle <= absl::ZeroDuration() ||
        options.keepalive_probes <= 0 || patience == absl::InfiniteDuration()) {
      continue;
    }
    world_->After(patience, [weak = weak_from_this(), side, lost = SideOf(pipe),
                             epoch = pipe->down_epoch()] {
      auto self = weak.lock();
      if (self == nullptr) return;
      const SimPipe& pipe = self->pipes_[lost];
      if (!pipe.down() || pipe.down_epoch() != epoch) return;
      self->Fail(side, absl::DeadlineExceededError(absl::StrCat(
                           "sim://", self->ends_[1 - side].address,
                           ": Connection timed out: no answer to keepalive "
                           "probes")));
    });
  }
}

}  // namespace skiff::testing
