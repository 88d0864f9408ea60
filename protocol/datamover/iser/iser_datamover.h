#ifndef SKIFF_PROTOCOL_DATAMOVER_ISER_ISER_DATAMOVER_H_
#define SKIFF_PROTOCOL_DATAMOVER_ISER_ISER_DATAMOVER_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "protocol/datamover/connection_counters.h"
#include "protocol/datamover/initiator_datamover.h"
#include "protocol/datamover/iser/iser_memory.h"
#include "protocol/datamover/iser/iser_trace.h"
#include "protocol/datamover/target_datamover.h"
#include "transport/rdma_endpoint.h"

namespace skiff::protocol {

// Receives that the unsolicited data of `commands` take: their PDUs are all of
// full length but for the last (RFC 7145 section 7.3.4).
inline uint64_t UnsolicitedReceives(uint32_t commands,
                                    uint32_t first_burst_length,
                                    uint32_t data_segment_length) {
  return uint64_t{commands} *
         ((uint64_t{first_burst_length} + data_segment_length - 1) /
          data_segment_length);
}

struct IserDatamoverOptions {
  // Receives posted in full feature phase. A target needs one for each command
  // of its window and one for each PDU that may come besides; an initiator one
  // for each command it may have outstanding, and so on (docs/iser.md).
  uint32_t receives = 176;
  // A target's, for unsolicited Data-Out PDUs: the commands that may come with
  // some at once, and what all of them may take of receives, which are posted
  // besides where InitialR2T=No was agreed on. None: a device that holds up
  // what finds no receive needs none.
  uint32_t unsolicited_commands = 0;
  uint32_t unsolicited_receives = 0;
  // A target's, for messages that it sends: more are queued in ordinary memory
  // until the peer has taken some. At least 1.
  uint32_t send_buffers = 8;
  // Most bytes that one RDMA Read or Write moves; longer transfers are several,
  // which run side by side. Longer where that is of no use
  // (Capabilities::serial_transfers).
  size_t max_rdma_bytes = size_t{256} << 10;
  size_t max_serial_rdma_bytes = size_t{1} << 20;
  // A target's: so many RDMA Reads of one command are under way at once, within
  // the read depth. The rest of a long write follows as these end, behind the
  // Reads of other commands. At least 1.
  uint32_t max_reads_of_task = 8;
  // congested() above this many messages that the device has not taken.
  uint32_t max_queued_messages = 512;
  // Both ends can: keys are invalidated by the peer's responses. From the
  // connection manager's private data.
  bool remote_invalidation = false;
  // Initiator: data that go with a command are copied into its message up to
  // this length, unless their memory is registered already.
  size_t max_copied_immediate_bytes = 8192;
};

// The iSER data model over an RdmaEndpoint: control PDUs are Sends with the
// iSER header, Data-In is RDMA Write, R2T is RDMA Read (RFC 7145). This is what
// the connection sees of it, for both roles. It moves completions:
//
//   Prepare(endpoint)               in ConnectOptions::prepare
//   Connected(std::move(endpoint))  when it is up; the session is made
//   loop: Poll; OnCompletion(c)     while there are any
//   Flush()                         at the end of the reactor's turn
//
// Everything that the session asks for is queued and posted by Flush(), after
// the receives that the answers need.
//
// ConnectionTerminate() destroys the endpoint, and so, when it tells the
// session of the end of each task, no RDMA touches the task's memory any more.
//
// A connection that breaks is told by ConnectionTerminateNotify.
class IserDatamover {
 public:
  virtual ~IserDatamover() = default;

  class EndpointObserver {
   public:
    virtual ~EndpointObserver() = default;
    virtual void BeforeEndpointEnds() = 0;
  };
  // Told when ConnectionTerminate() is about to destroy the endpoint, and with
  // it the completion queue. May be null.
  virtual void SetEndpointObserver(EndpointObserver* observer) = 0;

  // Tells what the connection carries, from now on.
  virtual void SetTrace(std::unique_ptr<IserTrace> trace) = 0;

  // Posts the receives that login needs. The endpoint is not taken.
  virtual absl::Status Prepare(transport::RdmaEndpoint* endpoint) = 0;
  // The same endpoint, connected.
  virtual void Connected(std::unique_ptr<transport::RdmaEndpoint> endpoint) = 0;
  // Null before Connected() and after ConnectionTerminate().
  virtual transport::RdmaEndpoint* endpoint() const = 0;

  virtual void OnCompletion(const transport::Completion& completion) = 0;
  // Posts what waits, as far as there is room.
  virtual void Flush() = 0;
  // Messages that come from now on are not handled.
  virtual void StopReceiving() = 0;
  // Something waits to be posted, and
  virtual bool has_output() const = 0;
  // something that was posted (receives apart) has not completed.
  virtual bool in_flight() const = 0;

  // More than the configured limit waits to be sent.
  virtual bool congested() const = 0;
  // What the connection has done so far.
  virtual ConnectionCounters counters() const = 0;
};

// With what the session sees: `Role` is InitiatorDatamover or TargetDatamover.
// Calls through the first base are direct, and completions are the most.
template <typename Role>
class IserDatamoverOf : public IserDatamover, public Role {
 public:
  bool congested() const override = 0;
  ConnectionCounters counters() const override = 0;
};

// `memory` outlives the datamover.
std::unique_ptr<IserDatamoverOf<TargetDatamover>> MakeTargetIserDatamover(
    IserMemory* memory, const IserDatamoverOptions& options);
std::unique_ptr<IserDatamoverOf<InitiatorDatamover>> MakeInitiatorIserDatamover(
    IserMemory* memory, const IserDatamoverOptions& options);

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_DATAMOVER_ISER_ISER_DATAMOVER_H_
