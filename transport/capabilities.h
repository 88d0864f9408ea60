#ifndef SKIFF_TRANSPORT_CAPABILITIES_H_
#define SKIFF_TRANSPORT_CAPABILITIES_H_

#include <cstddef>
#include <cstdint>

namespace skiff::transport {

// What an endpoint kind can do: few facts and limits.
struct Capabilities {
  // One-sided operations and messages (RdmaEndpoint), or bytes (ByteStream).
  bool rdma = false;
  size_t max_message_bytes = 0;  // Largest SEND.
  // Longer SENDs wait until the receiver has taken the data: as slow as READs.
  size_t eager_message_bytes = SIZE_MAX;
  size_t max_transfer_bytes = 0;  // Largest one-sided READ or WRITE.
  size_t max_inline_bytes = 0;    // Data copied by the post itself.
  uint32_t max_send_sges = 0;     // Gather entries of SEND and WRITE.
  uint32_t max_receive_sges = 0;  // Scatter entries of RECEIVE.
  uint32_t max_read_sges = 0;     // Scatter entries of READ (1 on iWARP).
  uint32_t max_read_depth = 0;    // Outstanding READs per connection.
  uint32_t max_send_queue = 0;
  uint32_t max_receive_queue = 0;
  size_t max_private_data_bytes = 0;  // At connect and accept, for the caller.
  uint8_t remote_key_bits = 0;        // 32 or fewer fits an iSER STag.
  bool send_with_invalidate = false;
  bool shared_receive_queue = false;
  bool memory_windows = false;
  // False on iWARP: a SEND that meets no posted RECEIVE kills the connection.
  bool receiver_not_ready_retry = false;
  // True on iWARP: the sink of a READ must be registered for remote write.
  bool read_sink_needs_remote_write = false;
  // READs and WRITEs are made by the process itself, out of a socket or by
  // copying, one after another: many short ones are slower than few long ones.
  bool serial_transfers = false;
  // Deregistering stops the peer's READs and WRITEs of that memory that are
  // under way. False: one whose first bytes have come may go on until the
  // endpoint is destroyed.
  bool deregistration_ends_access = false;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_CAPABILITIES_H_
