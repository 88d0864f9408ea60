#ifndef SKIFF_PROTOCOL_CONNECTION_CONNECTION_TRANSPORT_H_
#define SKIFF_PROTOCOL_CONNECTION_CONNECTION_TRANSPORT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protocol/codec/iser_cm_private_data.h"
#include "protocol/connection/connection_info.h"
#include "protocol/connection/connection_pump.h"
#include "protocol/connection/rdma_pump.h"
#include "protocol/datamover/iser/iser_datamover.h"
#include "protocol/datamover/stream/stream_datamover.h"
#include "protocol/negotiation/parameters.h"
#include "transport/reactor/reactor.h"
#include "transport/trace/pcapng.h"
#include "transport/transport.h"

namespace skiff::protocol {

// A connected endpoint with the datamover that its kind asks for: iSER on an
// RdmaEndpoint, iSCSI on a ByteStream. The only place that tells the two apart;
// sessions and those who drive them do not. `Role` is InitiatorDatamover or
// TargetDatamover, here and below.
template <typename Role>
class ConnectionTransport {
 public:
  virtual ~ConnectionTransport() = default;

  virtual Role* datamover() = 0;
  // Refers to this; once, after the session was made.
  virtual std::unique_ptr<ConnectionPump> MakePump(transport::Reactor* reactor,
                                                   PumpClient* client) = 0;
  // Makes an offer fit for login over this data model.
  virtual void Adjust(Offer* offer) const = 0;
  // Memory that data will come from and go to, as a rule; `owner` keeps it.
  virtual absl::Status UseMemory(void* data, size_t size,
                                 std::shared_ptr<const void> owner) = 0;

  virtual bool rdma() const = 0;
  virtual std::string local_address() const = 0;
  virtual std::string peer_address() const = 0;
  virtual ConnectionInfo Info() const = 0;
};

// Receives for the unexpected PDUs that an offer lets the peer send (RFC 7145
// section 6.7), within reason: a peer that has no limit does not send many.
uint32_t UnexpectedReceives(const IserOffer& offer);

// One IserMemory for each device that a reactor's connections use. Those of
// devices that were removed go with their last connection, since the device
// cannot go before.
class IserMemories {
 public:
  enum class Role : uint8_t { kInitiator, kTarget };

  IserMemories(Role role, const IserMemoryOptions& options)
      : role_(role), options_(options) {}
  absl::StatusOr<std::shared_ptr<IserMemory>> For(
      transport::MemoryDomain* domain);
  // Keeps those of removed devices for their connections only.
  void DropRemoved();
  // IserMemory::Forget() of all of them.
  void Forget(const void* data, size_t size);
  Role role() const { return role_; }

 private:
  const Role role_;
  const IserMemoryOptions options_;
  std::map<transport::MemoryDomain*, std::shared_ptr<IserMemory>> memories_;
  std::vector<std::weak_ptr<IserMemory>> removed_;
};

// Makes the datamover of an RDMA connection while it is being made: before the
// peer can send, its receives must be posted. Copies share what they have made.
template <typename Role>
class IserSetup {
 public:
  // `memories`: of the same role.
  // options.remote_invalidation: as far as our device and the peer can.
  // `capture`, unless it is null, gets what the connection carries.
  IserSetup(const std::shared_ptr<IserMemories>& memories,
            const IserDatamoverOptions& options,
            const transport::CaptureSink& capture = nullptr);

  // Of a target, before FillIn(): what the initiator said in its request.
  void Answers(const IserCmPrivateData& request);

  // What connecting or accepting needs, in case that the endpoint is an RDMA
  // endpoint: hooks, private data, queue lengths.
  void FillIn(transport::ConnectOptions* options) const;

  // The connect with these options is over. What was prepared for endpoints
  // other than that of `outcome` goes; they are destroyed already. It would
  // stay as long as the connection does, and a device that was removed, too.
  void Settle(const absl::StatusOr<transport::Endpoint>& outcome);

  // Whether Take() will take `endpoint`, which was made with these options: not
  // if what its peer said while connecting is not iSER's, or does not go with
  // what it was told.
  absl::Status Check(const transport::RdmaEndpoint& endpoint) const;
  // Fails as Check() does.
  absl::StatusOr<std::unique_ptr<ConnectionTransport<Role>>> Take(
      std::unique_ptr<transport::RdmaEndpoint> endpoint);

 private:
  struct Prepared {
    std::shared_ptr<IserMemory> memory;  // The datamover's.
    std::unique_ptr<IserDatamoverOf<Role>> datamover;
    std::shared_ptr<RdmaLink> link = std::make_shared<RdmaLink>();
    bool remote_invalidation = false;  // As far as we are concerned.
    // Why the receives for unsolicited Data-Out PDUs are missing, if they are.
    std::string no_unsolicited_receives;
  };
  struct State {
    std::shared_ptr<IserMemories> memories;
    IserDatamoverOptions options;
    bool counted = false;  // IserCmPrivateData::counted, of what we say.
    transport::CaptureSink capture;
    // Of several attempts at once; one is taken, in the end.
    std::map<const transport::RdmaEndpoint*, Prepared> prepared;

    // Whether the device's receive queues are long enough for the receives that
    // unsolicited Data-Out PDUs take.
    bool HoldsUnsolicited(const transport::Capabilities& device) const;
    transport::EndpointResources ResourcesOn(
        const transport::MemoryDomain& domain) const;
    absl::Status Prepare(transport::RdmaEndpoint* endpoint);
    std::vector<uint8_t> PrivateDataOf(const transport::RdmaEndpoint& endpoint);
    // Why keys are not invalidated remotely; empty if they are.
    std::string NoInvalidation(const Prepared& prepared,
                               bool peer_invalidates) const;
    // What the peer said while connecting, if that is iSER's, and goes with
    // what it was told.
    absl::StatusOr<IserCmPrivateData> SaidBy(
        const transport::RdmaEndpoint& endpoint,
        const Prepared& prepared) const;
    void OnDisconnect(transport::RdmaEndpoint* endpoint);
  };

  const std::shared_ptr<State> state_;
};

// `datamover` is fresh. `capture`, unless it is null, gets what the connection
// carries.
template <typename Role>
std::unique_ptr<ConnectionTransport<Role>> MakeStreamTransport(
    std::unique_ptr<transport::ByteStream> stream,
    std::unique_ptr<StreamDatamoverOf<Role>> datamover,
    const transport::CaptureSink& capture = nullptr);

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_CONNECTION_CONNECTION_TRANSPORT_H_
