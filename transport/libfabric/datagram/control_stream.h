#ifndef SKIFF_TRANSPORT_LIBFABRIC_DATAGRAM_CONTROL_STREAM_H_
#define SKIFF_TRANSPORT_LIBFABRIC_DATAGRAM_CONTROL_STREAM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "transport/libfabric/datagram/handshake.h"
#include "transport/net/scoped_fd.h"
#include "transport/reactor/reactor.h"
#include "transport/tcp/tcp_stream.h"

namespace skiff::transport {

// Handshake messages over the TCP connection beside the fabric. It reads no
// byte beyond the message that it waits for, so that the socket can move to
// another reactor between two messages.
class ControlStream final : private StreamObserver {
 public:
  // Either call may destroy the stream.
  class Handler {
   public:
    virtual ~Handler() = default;
    virtual void OnMessage(const HandshakeMessage& message) = 0;
    // No message comes any more, and none is sent.
    virtual void OnEnd(const absl::Status& why) = 0;
  };

  static absl::StatusOr<std::unique_ptr<ControlStream>> Create(Reactor* reactor,
                                                               ScopedFd socket);
  explicit ControlStream(std::unique_ptr<TcpStream> stream);
  ~ControlStream() override;

  // Messages come from the reactor's turns.
  void SetHandler(Handler* handler);
  // More than kMaxUnsent bytes that the peer does not take end the stream.
  void Send(const HandshakeMessage& message);
  // The peer hears that no message comes any more, after those that were sent.
  void Shutdown() { stream_->ShutdownWrite(); }
  // The socket, between two messages; the stream is dead.
  ScopedFd Release();

  std::string local_address() const { return stream_->local_address(); }
  std::string peer_address() const { return stream_->peer_address(); }

 private:
  static constexpr size_t kMaxUnsent = 64 << 10;

  void OnReadable() override;
  void OnWritable() override;
  // False when there is no more to read for now.
  bool ReadSome();
  void Write();
  void TellVersion();
  void End(const absl::Status& why);

  const std::unique_ptr<TcpStream> stream_;
  Handler* handler_ = nullptr;
  std::vector<uint8_t> input_;
  size_t wanted_ = kHandshakeHeaderBytes;  // Bytes until `input_` is judged.
  std::vector<uint8_t> output_;
  bool ended_ = false;
  // Says whether the handler destroyed the stream.
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_DATAGRAM_CONTROL_STREAM_H_
