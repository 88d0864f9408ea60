#ifndef SKIFF_TESTING_TRANSPORT_CONFORMANCE_CONTROL_LINK_H_
#define SKIFF_TESTING_TRANSPORT_CONFORMANCE_CONTROL_LINK_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace skiff::testing {

// The connection over which the connecting side directs the listening side: one
// message after another, over TCP or a pair of sockets.
class ControlLink {
 public:
  // Takes over a connected socket.
  explicit ControlLink(int fd) : fd_(fd) {}
  ~ControlLink();
  ControlLink(const ControlLink&) = delete;
  ControlLink& operator=(const ControlLink&) = delete;

  // `host` is numeric or a name.
  static absl::StatusOr<std::unique_ptr<ControlLink>> Connect(
      const std::string& host, uint16_t port);

  absl::Status Send(const nlohmann::json& message);
  // Waits for a message. An error when the peer has gone.
  absl::StatusOr<nlohmann::json> Receive();
  // Whether Receive() has something to do at once.
  bool readable() const;
  int fd() const { return fd_; }

 private:
  absl::Status ReadExactly(char* to, size_t size);

  const int fd_;
};

// Where the listening side waits for the connecting side.
class ControlListener {
 public:
  static absl::StatusOr<std::unique_ptr<ControlListener>> Listen(
      const std::string& host, uint16_t port);
  ~ControlListener();
  ControlListener(const ControlListener&) = delete;
  ControlListener& operator=(const ControlListener&) = delete;

  uint16_t port() const { return port_; }
  absl::StatusOr<std::unique_ptr<ControlLink>> Accept();

 private:
  ControlListener(int fd, uint16_t port) : fd_(fd), port_(port) {}

  const int fd_;
  const uint16_t port_;
};

}  // namespace skiff::testing

#endif  // SKIFF_TESTING_TRANSPORT_CONFORMANCE_CONTROL_LINK_H_
