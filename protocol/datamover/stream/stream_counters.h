#ifndef SKIFF_PROTOCOL_DATAMOVER_STREAM_STREAM_COUNTERS_H_
#define SKIFF_PROTOCOL_DATAMOVER_STREAM_STREAM_COUNTERS_H_

#include <cstdint>

#include "protocol/datamover/connection_counters.h"
#include "protocol/datamover/stream/send_queue.h"
#include "protocol/datamover/stream/stream_receiver.h"

namespace skiff::protocol {

// What a connection over a byte stream has done. `copied_bytes` is what its
// datamover copied besides these two.
inline ConnectionCounters StreamCounters(const StreamReceiver& receiver,
                                         const SendQueue& send_queue,
                                         uint64_t copied_bytes) {
  ConnectionCounters counters;
  counters.pdus_in = receiver.received_pdus();
  counters.pdus_out = send_queue.pdus_sent();
  counters.bytes_in = receiver.received_bytes();
  counters.bytes_out = send_queue.bytes_sent();
  counters.header_digest_errors = receiver.header_digest_errors();
  counters.data_digest_errors = receiver.data_digest_errors();
  counters.bytes_taken = counters.bytes_out;
  counters.copied_bytes =
      copied_bytes + receiver.copied_bytes() + send_queue.copied_bytes();
  return counters;
}

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_DATAMOVER_STREAM_STREAM_COUNTERS_H_
