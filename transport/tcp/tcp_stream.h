#ifndef SKIFF_TRANSPORT_TCP_TCP_STREAM_H_
#define SKIFF_TRANSPORT_TCP_TCP_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "transport/byte_stream.h"
#include "transport/net/scoped_fd.h"
#include "transport/reactor/reactor.h"

namespace skiff::transport {

// A connected TCP socket as a ByteStream.
//
// The socket is watched edge-triggered for everything from the start, so that
// moving bytes costs recvmsg() and sendmsg() and nothing else. A transfer that
// comes out short has met the end of the kernel's buffer: the following call
// answers kWouldBlock without asking the kernel (epoll(7), question 9), except
// when the peer has ended its side, because then no further edge would come.
class TcpStream final : public ByteStream, private FdHandler, private TurnHook {
 public:
  // `socket` must be connected and non-blocking. `unread` is read first.
  static absl::StatusOr<std::unique_ptr<TcpStream>> Create(
      Reactor* reactor, ScopedFd socket, std::string unread = "");
  ~TcpStream() override;

  // Hands the socket over, for instance to another reactor. The stream is as
  // if aborted, the connection goes on.
  ScopedFd Release();
  int ReleaseDescriptor(std::string* unread) override {
    unread->append(unread_, unread_at_);
    return Release().Release();
  }

  void SetObserver(StreamObserver* observer) override;
  IoResult Readv(absl::Span<const iovec> to) override;
  IoResult Writev(absl::Span<const iovec> from) override;
  void SetReadThreshold(size_t bytes) override;
  size_t unacknowledged() const override;
  void ShutdownWrite() override;
  void Abort() override;
  absl::Status error() const override { return error_; }
  absl::string_view scheme() const override { return "tcp"; }
  std::string local_address() const override { return local_; }
  std::string peer_address() const override { return peer_; }

 private:
  // One direction's relation to the kernel's buffer.
  struct Direction {
    bool waiting = false;  // The user saw kWouldBlock and expects to be told.
    bool drained = false;  // The last transfer came out short.
    bool notify = false;   // To be told at the end of the turn.
  };

  TcpStream(Reactor* reactor, ScopedFd socket, std::string unread);

  void OnFdReady(uint32_t events) override;
  void OnTurnEnd() override;
  void Notify(bool readable, bool writable);
  size_t TakeUnread(absl::Span<const iovec> to);
  IoResult WouldBlock(Direction* direction);
  IoResult WaitForOutput();
  void StopWatchingOutput();
  IoResult Fail(const char* doing, int error_number);
  void CloseSocket();

  Reactor* const reactor_;
  ScopedFd socket_;
  const std::string local_;
  const std::string peer_;
  StreamObserver* observer_ = nullptr;
  Direction read_;
  Direction write_;
  bool peer_ended_ = false;  // The kernel reported FIN, RST or an error.
  bool write_ended_ = false;
  bool watches_output_ = false;
  std::string unread_;
  size_t unread_at_ = 0;
  absl::Status error_;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_TCP_TCP_STREAM_H_
