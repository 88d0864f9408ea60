#ifndef SKIFF_TESTING_SIM_SIM_RDMA_H_
#define SKIFF_TESTING_SIM_SIM_RDMA_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "testing/sim/sim_completion_queue.h"
#include "testing/sim/sim_defects.h"
#include "testing/sim/sim_memory.h"
#include "testing/sim/sim_network.h"
#include "testing/sim/sim_shared_receive_queue.h"
#include "transport/rdma_endpoint.h"
#include "transport/transport.h"

namespace skiff::testing {

// One operation of the fabric that fails, counted over all connections and both
// ends. kLocalError: what the poster's device refuses; anything else: what the
// peer's does. Binds and invalidations are of the first kind only.
struct SimFailure {
  uint64_t nth = 1;
  transport::CompletionStatus status =
      transport::CompletionStatus::kTransportError;
  // Of the messages only, and the RECEIVE that the message has met completes
  // with the status, too.
  bool of_receives = false;
  uint64_t seen = 0;
  bool struck() const { return seen >= nth; }
};

// What the simulated fabric is like.
struct SimRdmaOptions {
  transport::Capabilities capabilities;
  // What the transport says of itself, as if it had other devices, too. Empty:
  // the same.
  std::optional<transport::Capabilities> transport_capabilities;
  // How long a SEND waits for a RECEIVE before the connection breaks; zero
  // (iWARP): not at all. InfiniteDuration(): for ever.
  absl::Duration receiver_not_ready_timeout = absl::Milliseconds(500);
  // How long what cannot get through is retransmitted before the connection
  // breaks.
  absl::Duration retry_timeout = absl::Seconds(4);
  bool zero_based_addresses = false;  // MemoryRegion::remote_base() is 0.
  // Posts other than receives stay back until Flush().
  bool hold_until_flush = true;
  std::shared_ptr<SimFailure> failure;  // Null: none.
  std::string slow_reads;               // What RdmaEndpoint::slow_reads() says.
  // How much more memory the devices register, as by RLIMIT_MEMLOCK: a region
  // takes its bytes, and gives them back. Null: no limit.
  std::shared_ptr<size_t> lockable_bytes;
  // While it is true, WRITEs and READs break their connection. Null: never.
  std::shared_ptr<bool> transfers_break;
  // Over iWARP, a READ shows the peer where its data go (RFC 5040 section 4.4).
  // Gets what both ends have seen; null: nobody looks.
  std::shared_ptr<std::vector<transport::RemoteBuffer>> shown_sinks;

  static SimRdmaOptions InfiniBand();
  static SimRdmaOptions Iwarp();
};

class SimRdmaEndpoint;

// Two queue pairs and the pipes between them.
//
// A request travels to the responder by reference: its bytes are read from the
// sender's buffer when they arrive, and so a buffer that is reused before its
// completion shows. Requests that were flushed are marked and ignored.
class SimRdmaWire final : public std::enable_shared_from_this<SimRdmaWire>,
                          public SimConnection,
                          public SimCompletionOwner,
                          public SimReceiver,
                          private SimPipe::Observer {
 public:
  struct Side {
    std::string host;
    std::string address;  // host:port
    std::shared_ptr<SimDomain> domain;
    std::vector<uint8_t> private_data;
    uint32_t read_depth = 0;
  };
  // What one end is built from.
  struct Resources {
    std::shared_ptr<SimCompletionQueue> cq;
    std::shared_ptr<SimSharedReceiveQueue> srq;  // Null: receives of its own.
    uint32_t send_queue = 0;
    uint32_t receive_queue = 0;  // 0 with a shared one.
    size_t inline_bytes = 0;
  };
  struct Request {
    transport::OperationId id;
    transport::OperationKind kind = transport::OperationKind::kSend;
    std::vector<transport::Sge> sges;
    size_t length = 0;
    bool is_inline = false;
    std::string inline_data;
    transport::RemoteBuffer remote;
    bool invalidate = false;
    transport::RemoteKey invalidate_key;
    // For a bind.
    const SimWindow* window = nullptr;
    const SimRegion* region = nullptr;
    size_t offset = 0;
    size_t bind_length = 0;
    transport::Access access = transport::Access::kLocal;
    transport::CompletionStatus status = transport::CompletionStatus::kOk;
    bool done = false;
    bool cancelled = false;
    uint64_t number = 0;
  };

  // Side 0 connects, side 1 listens. What the server has to say comes with its
  // accept.
  static std::shared_ptr<SimRdmaWire> Create(SimWorld* world, Side client,
                                             Side server,
                                             const SimRdmaOptions& options,
                                             SimDefect defect);

  SimPipe& pipe(int side) { return pipes_[side]; }
  SimWorld* world() const { return world_; }
  const Side& side(int side) const { return qps_[side].side; }
  const SimRdmaOptions& options() const { return options_; }
  SimDefect defect() const { return defect_; }
  uint32_t read_depth() const;
  bool connected(int side) const { return qps_[side].connected; }
  const absl::Status& error(int side) const { return qps_[side].error; }

  // What the server says with its accept.
  void SetServer(std::shared_ptr<SimDomain> domain, uint32_t read_depth);
  // What the side says to the other, before it connects.
  void SetPrivateData(int side, std::vector<uint8_t> private_data) {
    qps_[side].side.private_data = std::move(private_data);
  }
  void Attach(int side, SimRdmaEndpoint* endpoint, const Resources& resources);
  // The user is gone: completions that it has not polled name no endpoint.
  void Detach(int side);

  transport::PostResult PostReceive(int side, transport::OperationId id,
                                    absl::Span<const transport::Sge> to);
  transport::PostResult PostRequest(int side, std::shared_ptr<Request> request);
  void Flush(int side);
  // Ends the connection at `side`, and tells the peer.
  void Disconnect(int side, absl::Status why);

  void FaultReset() override;
  transport::RdmaEndpoint* endpoint_of(int side) const override;
  void OnPolled(int side, transport::OperationKind kind) override;
  void OnSharedReceive(int side) override { ScheduleInbound(side); }

 private:
  struct QueuePair {
    Side side;
    SimRdmaEndpoint* endpoint = nullptr;
    std::shared_ptr<SimCompletionQueue> cq;  // Null once the user is gone.
    Resources resources;
    // Also once the user is gone, for slots that completions give back.
    std::weak_ptr<SimSharedReceiveQueue> shared_slots;
    bool connected = true;
    absl::Status error;
    std::deque<std::shared_ptr<Request>> requests;  // The send queue.
    size_t held = 0;       // Of these, the newest so many wait for Flush().
    bool stopped = false;  // A local error: nothing is sent behind it.
    std::deque<SimReceive> receives;               // Unless they are shared.
    std::deque<std::shared_ptr<Request>> inbound;  // From the peer.
    bool waiting_for_receive = false;
    uint64_t wait_epoch = 0;
    // Slots free up when their completions are polled.
    uint32_t used_requests = 0;
    uint32_t used_receives = 0;
    uint32_t used_reads = 0;
    uint32_t polled = 0;  // Requests; for SimDefect::kCreditLeak.
  };

  SimRdmaWire(SimWorld* world, Side client, Side server,
              const SimRdmaOptions& options, SimDefect defect);

  void OnStalled(SimPipe* pipe) override;
  void OnLinkDown(SimPipe* /*pipe*/) override {}

  // The requester's part.
  void Transmit(int side, const std::shared_ptr<Request>& request);
  bool Strikes(bool local) const;
  bool StrikesReceive() const;
  bool TransfersBreak() const;
  void Arrive(int side, const std::shared_ptr<Request>& request);
  bool RunLocally(int side, const Request& request);
  bool LocallyValid(int side, const Request& request) const;
  bool CoversSges(int side, absl::Span<const transport::Sge> sges) const;
  void Finish(int side, const std::shared_ptr<Request>& request,
              transport::CompletionStatus status);
  void RetireDone(int side);
  void FinishRead(int side, const std::shared_ptr<Request>& request,
                  const std::string& data);

  // The responder's part.
  std::deque<SimReceive>& ReceivesOf(int side);
  SimQueuePairId IdOf(int side) const { return &qps_[side]; }
  void ScheduleInbound(int side);
  void ProcessInbound(int side);
  void HandleSend(int side, const std::shared_ptr<Request>& request);
  void HandleWrite(int side, const std::shared_ptr<Request>& request);
  void Place(const std::string& data, char* target);
  void HandleRead(int side, const std::shared_ptr<Request>& request);
  void ShowSinks(const Request& request) const;
  void WaitForReceive(int side, const std::shared_ptr<Request>& request);
  void Acknowledge(int side, const std::shared_ptr<Request>& request,
                   transport::CompletionStatus status);
  // Refuses the request, which breaks the connection at both ends.
  void Refuse(int side, const std::shared_ptr<Request>& request,
              transport::CompletionStatus status, absl::Status why);
  void CountBytes(size_t bytes);

  // `first` is what the oldest request completes with; the rest is flushed.
  void Break(int side, absl::Status why,
             transport::CompletionStatus first =
                 transport::CompletionStatus::kFlushed);
  void Complete(int side, transport::Completion completion);
  void CompleteRequest(int side, const Request& request,
                       transport::CompletionStatus status);

  SimWorld* const world_;
  const SimRdmaOptions options_;
  const SimDefect defect_;
  QueuePair qps_[2];
  SimPipe pipes_[2];
  uint64_t bytes_left_;
  uint64_t next_number_ = 0;
  SimConnectionEntry entry_;
};

// One end, for its user.
class SimRdmaEndpoint final : public transport::RdmaEndpoint {
 public:
  using DisconnectCallback = std::function<void(transport::RdmaEndpoint&)>;

  SimRdmaEndpoint(SimReactor* reactor, std::shared_ptr<SimRdmaWire> wire,
                  int side, const SimRdmaWire::Resources& resources,
                  DisconnectCallback on_disconnect);
  ~SimRdmaEndpoint() override;

  // The user gets it now: from here on he hears of the end of the connection.
  void Announce();
  // For the wire: the connection ended.
  void OnEnded();

  const transport::Capabilities& capabilities() const override {
    return capabilities_;
  }
  transport::MemoryDomain* domain() override {
    return wire_->side(side_).domain.get();
  }
  transport::CompletionQueue* completion_queue() override { return cq_.get(); }

  transport::PostResult PostReceive(
      transport::OperationId id, absl::Span<const transport::Sge> to) override;
  transport::PostResult PostSend(
      transport::OperationId id,
      absl::Span<const transport::Sge> from) override;
  transport::PostResult PostSendWithInvalidate(
      transport::OperationId id, absl::Span<const transport::Sge> from,
      transport::RemoteKey key) override;
  transport::PostResult PostRead(transport::OperationId id,
                                 absl::Span<const transport::Sge> to,
                                 transport::RemoteBuffer from) override;
  transport::PostResult PostWrite(transport::OperationId id,
                                  absl::Span<const transport::Sge> from,
                                  transport::RemoteBuffer to) override;
  transport::PostResult PostBind(transport::OperationId id,
                                 transport::MemoryWindow* window,
                                 const transport::MemoryRegion* region,
                                 size_t offset, size_t length,
                                 transport::Access access) override;
  transport::PostResult PostInvalidate(transport::OperationId id,
                                       transport::RemoteKey key) override;
  void Flush() override { wire_->Flush(side_); }
  void Disconnect() override;
  bool connected() const override { return wire_->connected(side_); }
  absl::Status error() const override { return wire_->error(side_); }
  absl::Span<const uint8_t> peer_private_data() const override {
    return wire_->side(1 - side_).private_data;
  }
  absl::string_view scheme() const override {
    return wire_->defect() == SimDefect::kWrongScheme ? "tcp" : "sim";
  }
  std::string local_address() const override {
    return wire_->side(side_).address;
  }
  std::string peer_address() const override {
    return wire_->side(1 - side_).address;
  }
  std::string slow_reads() const override {
    return wire_->options().slow_reads;
  }

 private:
  SimReactor* const reactor_;
  const std::shared_ptr<SimRdmaWire> wire_;
  const int side_;
  const std::shared_ptr<SimCompletionQueue> cq_;
  transport::Capabilities capabilities_;
  DisconnectCallback on_disconnect_;  // Null once it has been called for.
  bool announced_ = false;
  // Lets a call that waits in the reactor notice that this is gone.
  const std::shared_ptr<SimRdmaEndpoint*> self_;
};

}  // namespace skiff::testing

#endif  // SKIFF_TESTING_SIM_SIM_RDMA_H_
