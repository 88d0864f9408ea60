#ifndef SKIFF_TOOLS_MANAGEMENT_UNIX_LISTENER_H_
#define SKIFF_TOOLS_MANAGEMENT_UNIX_LISTENER_H_

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"

namespace skiff::tools {

// A Unix socket that listens, on a thread of its own, until it is destroyed.
class UnixListener {
 public:
  struct Options {
    std::string path;
    mode_t mode = 0600;
    // -1: as it comes.
    int64_t user = -1;
    int64_t group = -1;
    // Above it, connections are closed at once.
    int max_connections = 64;
  };
  // Gets the descriptor of each connection, which does not block, and owns it.
  using Accept = std::function<void(int fd)>;
  using Warn = std::function<void(const std::string& message)>;

  // Nobody can connect before the socket has its mode and its owner. One that
  // another process left there is replaced; anything else is not. Errors name
  // the path and what to do.
  static absl::StatusOr<std::unique_ptr<UnixListener>> Start(
      const Options& options, Accept accept, Warn warn);
  UnixListener(const UnixListener&) = delete;
  UnixListener& operator=(const UnixListener&) = delete;
  // Removes the socket, unless another one has taken its place.
  ~UnixListener();

 private:
  UnixListener(Options options, Accept accept, Warn warn);
  absl::Status Bind();
  absl::Status Own();
  void Run();
  void Take();

  const Options options_;
  const Accept accept_;
  const Warn warn_;
  int fd_ = -1;
  int stop_fd_ = -1;
  dev_t device_ = 0;  // Of the socket: what we made.
  ino_t inode_ = 0;
  // Of the connections that are there, the same sockets once more: whoever
  // closes first, the other end hangs up.
  std::vector<int> connections_;
  bool full_ = false;
  std::thread thread_;
};

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_MANAGEMENT_UNIX_LISTENER_H_
