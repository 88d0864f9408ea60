#ifndef SKIFF_TESTING_SIM_SIM_CONNECT_H_
#define SKIFF_TESTING_SIM_SIM_CONNECT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "testing/sim/sim_network.h"
#include "testing/sim/sim_rdma.h"
#include "testing/sim/sim_reactor.h"
#include "testing/sim/sim_stream.h"
#include "transport/transport.h"

namespace skiff::testing {

class SimConnectAttempt;

// A connection that is being made, as both sides share it.
struct SimHandshake {
  std::string local_address;  // The connecting side's.
  std::string peer_address;
  // One of the two, by endpoint kind.
  std::shared_ptr<SimStreamWire> stream;
  std::shared_ptr<SimRdmaWire> rdma;
  SimConnectAttempt* attempt = nullptr;  // Null once it has ended.

  SimDefect defect() const {
    return stream != nullptr ? stream->defect() : rdma->defect();
  }
  SimPipe& pipe(int side) const {
    return stream != nullptr ? stream->pipe(side) : rdma->pipe(side);
  }
};

// The connecting side.
class SimConnectAttempt final : public transport::ConnectAttempt {
 public:
  SimConnectAttempt(SimReactor* reactor, const transport::Address& address,
                    const transport::ConnectOptions& options,
                    std::shared_ptr<SimHandshake> handshake,
                    absl::AnyInvocable<void()> send_request,
                    transport::ConnectCallback done);
  ~SimConnectAttempt() override;

  // The outcome; reported in the reactor's next turn. `why` lacks the address.
  void Conclude(absl::Status why);

 private:
  // Makes the endpoint, then sends the request.
  void Start();
  void OnTimer();
  void GiveUp();

  SimReactor* const reactor_;
  const transport::Address address_;
  const transport::ConnectOptions options_;
  const std::shared_ptr<SimHandshake> handshake_;
  absl::AnyInvocable<void()> send_request_;
  transport::ConnectCallback done_;
  absl::optional<absl::Status> outcome_;
  std::unique_ptr<SimRdmaEndpoint> endpoint_;  // RDMA only.
  transport::Timer start_;
  transport::Timer timer_;
};

// Sends the peer's verdict to the connecting side.
void SendVerdict(const std::shared_ptr<SimHandshake>& handshake,
                 absl::Status verdict);

// The listening side. Ends the connection if it is destroyed before it was
// taken.
class SimPending {
 public:
  SimPending(std::shared_ptr<SimHandshake> handshake,
             std::shared_ptr<SimDomain> domain, std::shared_ptr<int> pending);
  ~SimPending();
  SimPending(const SimPending&) = delete;
  SimPending& operator=(const SimPending&) = delete;

  const SimHandshake& handshake() const { return *handshake_; }
  absl::StatusOr<transport::Endpoint> Take(
      SimReactor* home, const transport::AcceptOptions& options);
  void Reject(absl::Span<const uint8_t> private_data);

 private:
  absl::StatusOr<transport::Endpoint> TakeRdma(
      SimReactor* home, const transport::AcceptOptions& options);

  const std::shared_ptr<SimHandshake> handshake_;
  const std::shared_ptr<SimDomain> domain_;
  const std::shared_ptr<int> pending_;  // The listener's count of them.
  bool answered_ = false;
};

class SimRequest final : public transport::ConnectionRequest {
 public:
  explicit SimRequest(std::unique_ptr<SimPending> pending)
      : handshake_(pending->handshake()), pending_(std::move(pending)) {}

  std::string local_address() const override { return handshake_.peer_address; }
  std::string peer_address() const override { return handshake_.local_address; }
  absl::Span<const uint8_t> private_data() const override;
  void Accept(transport::Reactor* home, const transport::AcceptOptions& options,
              absl::AnyInvocable<void(absl::StatusOr<transport::Endpoint>)>
                  done) override;
  void Reject(absl::Span<const uint8_t> private_data) override;

 private:
  const SimHandshake handshake_;
  std::unique_ptr<SimPending> pending_;  // Null once answered.
};

}  // namespace skiff::testing

#endif  // SKIFF_TESTING_SIM_SIM_CONNECT_H_
