#ifndef SKIFF_TESTING_SIM_SIM_STREAM_H_
#define SKIFF_TESTING_SIM_SIM_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "testing/sim/sim_defects.h"
#include "testing/sim/sim_network.h"
#include "testing/sim/sim_reactor.h"
#include "transport/byte_stream.h"
#include "transport/transport.h"

namespace skiff::testing {

class SimStream;

// Both ends of a simulated byte stream and the two pipes between them, with
// TCP's manners: a bounded window, FIN, RST, keepalive and user timeout. What
// is sent before the server side has its SimStream waits in its inbox.
class SimStreamWire final : public std::enable_shared_from_this<SimStreamWire>,
                            public SimConnection,
                            private SimPipe::Observer {
 public:
  struct Side {
    std::string host;
    std::string address;  // host:port
  };

  // Side 0 connected, side 1 listened.
  static std::shared_ptr<SimStreamWire> Create(SimWorld* world, Side client,
                                               Side server, SimDefect defect);

  SimWorld* world() const { return world_; }
  SimDefect defect() const { return defect_; }
  const std::string& address(int side) const { return ends_[side].address; }
  const absl::Status& error(int side) const { return ends_[side].error; }
  const LinkOptions& link(int side) const { return pipes_[side].link(); }
  SimPipe& pipe(int side) { return pipes_[side]; }

  void Attach(int side, SimStream* stream,
              const transport::ConnectOptions& options);
  // What has arrived and is unread.
  size_t readable(int side) const {
    return ends_[side].inbox.size() - ends_[side].taken;
  }
  bool ended(int side) const { return ends_[side].fin_arrived; }
  // Room in the window.
  size_t writable(int side) const;

  void Take(int side, char* to, size_t size);
  void Send(int side, const std::string& data);
  void SendFin(int side);
  // Closes the side as close(2) does: in order, or by a reset if data is
  // unread.
  void Close(int side);
  // Resets the connection; `why` is what this side reports from now on.
  void Reset(int side, absl::Status why);

  // SimConnection: as if the network had sent a reset to both ends.
  void FaultReset() override;

 private:
  struct End {
    std::string address;
    std::string inbox;
    size_t taken = 0;   // Bytes of the inbox that were read.
    size_t unread = 0;  // Bytes sent that the peer has not read.
    bool fin_sent = false;
    bool fin_arrived = false;
    bool closed = false;  // Nobody is there any more.
    absl::Status error;
    SimStream* stream = nullptr;
    transport::ConnectOptions options;
  };

  SimStreamWire(SimWorld* world, Side client, Side server, SimDefect defect);

  void OnStalled(SimPipe* pipe) override;
  void OnLinkDown(SimPipe* pipe) override;
  int SideOf(const SimPipe* pipe) const { return pipe == &pipes_[0] ? 0 : 1; }

  void Arrive(int side, std::string data);
  void ArriveReset(int side);
  void Fail(int side, absl::Status why);
  void SendSegment(int side, std::string data);

  SimWorld* const world_;
  const SimDefect defect_;
  End ends_[2];
  SimPipe pipes_[2];             // By sending side.
  std::string held_segment_[2];  // kSwappedSegments: waits for its neighbour.
  uint64_t bytes_left_;          // Before reset_after_bytes strikes; 0: never.
  SimConnectionEntry entry_;
};

// One end, for its user.
class SimStream final : public transport::ByteStream,
                        private transport::TurnHook {
 public:
  // `unread` is read first.
  SimStream(SimReactor* reactor, std::shared_ptr<SimStreamWire> wire, int side,
            const transport::ConnectOptions& options, std::string unread = "");
  ~SimStream() override;

  void SetObserver(transport::StreamObserver* observer) override;
  transport::IoResult Readv(absl::Span<const iovec> to) override;
  transport::IoResult Writev(absl::Span<const iovec> from) override;
  void ShutdownWrite() override;
  void Abort() override;
  int ReleaseDescriptor(std::string* unread) override;
  absl::Status error() const override;
  absl::string_view scheme() const override {
    return wire_->defect() == SimDefect::kWrongScheme ? "tcp" : "sim";
  }
  std::string local_address() const override { return wire_->address(side_); }
  std::string peer_address() const override {
    return wire_->address(1 - side_);
  }

  // For the wire: something changed. Tells the observer in the reactor's next
  // turn if it waits for that.
  void MayRead();
  void MayWrite();

 private:
  struct Direction {
    bool waiting = false;  // The user saw kWouldBlock.
    bool tell = false;     // The observer is to be called.
  };

  void OnTurnEnd() override;
  void Tell(Direction* direction);
  // Moves fewer bytes by chance.
  size_t Shorten(size_t bytes);
  transport::IoResult WouldBlock(Direction* direction, bool spurious);

  SimReactor* const reactor_;
  const std::shared_ptr<SimStreamWire> wire_;
  const int side_;
  transport::StreamObserver* observer_ = nullptr;
  Direction read_;
  Direction write_;
  bool write_ended_ = false;
  bool released_ = false;
  std::string unread_;
  // Lets a scheduled retry notice that this stream is gone.
  std::shared_ptr<SimStream*> self_;
};

}  // namespace skiff::testing

#endif  // SKIFF_TESTING_SIM_SIM_STREAM_H_
