#ifndef SKIFF_TOOLS_SKIFFCTL_CLIENT_H_
#define SKIFF_TOOLS_SKIFFCTL_CLIENT_H_

#include <google/protobuf/message_lite.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace skiff::tools::skiffctl {

// Calls of management.proto to a skiffd. Thread-safe.
class Client {
 public:
  // `timeout`: what each call may take.
  Client(std::string socket, absl::Duration timeout);
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client();

  // Errors are those that the service gives, or Unavailable: nobody answers,
  // and why.
  template <typename Reply>
  absl::StatusOr<Reply> Call(const char* method,
                             const google::protobuf::MessageLite& request) {
    const absl::StatusOr<std::string> bytes =
        CallBytes(method, request.SerializeAsString());
    if (!bytes.ok()) return bytes.status();
    Reply reply;
    if (reply.ParseFromString(*bytes)) return reply;
    return absl::InternalError("the answer is not one of this method");
  }

 private:
  class Channel;
  absl::StatusOr<std::string> CallBytes(absl::string_view method,
                                        const std::string& request);
  // Why the socket can't be used; OK: it can.
  absl::Status Reachable() const;

  const std::string socket_;
  const absl::Duration timeout_;
  const std::unique_ptr<Channel> channel_;
};

}  // namespace skiff::tools::skiffctl

#endif  // SKIFF_TOOLS_SKIFFCTL_CLIENT_H_
