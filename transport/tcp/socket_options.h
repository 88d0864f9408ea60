#ifndef SKIFF_TRANSPORT_TCP_SOCKET_OPTIONS_H_
#define SKIFF_TRANSPORT_TCP_SOCKET_OPTIONS_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "transport/address.h"
#include "transport/transport.h"

namespace skiff::transport {

// The options that a tcp:// address may have:
//   send_buffer=BYTES, receive_buffer=BYTES  the socket's buffers, instead of
//   the
//                                            kernel's own tuning;
//   v6only=1                                 listen on [::] without IPv4.
struct TcpAddressOptions {
  int send_buffer = 0;  // 0: the kernel's choice.
  int receive_buffer = 0;
  bool v6only = false;
};

// An error names the option that is unknown or malformed.
absl::StatusOr<TcpAddressOptions> ParseTcpOptions(const Address& address);

// Buffer sizes; to be set before connect() and listen(), which fix the window
// scale.
absl::Status SetBuffers(int fd, const TcpAddressOptions& options);

// No Nagle delay, keepalive and user timeout.
absl::Status SetConnectionOptions(int fd, const ConnectOptions& options);

// Makes close() send a RST and drop what is unsent.
void SetAbortiveClose(int fd);

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_TCP_SOCKET_OPTIONS_H_
