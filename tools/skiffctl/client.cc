#include "tools/skiffctl/client.h"

#include <grpc/grpc.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <future>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tools/management/rpc_bytes.h"

namespace skiff::tools::skiffctl {
namespace {

constexpr absl::string_view kService = "/skiff.management.v1.Management/";
// The lists of a large target are long.
constexpr int kMaxReplyBytes = 256 << 20;

grpc::ChannelArguments Arguments() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxReplyBytes);
  return arguments;
}

}  // namespace

class Client::Channel {
 public:
  explicit Channel(const std::string& socket)
      : stub_(grpc::CreateCustomChannel(absl::StrCat("unix:", socket),
                                        grpc::InsecureChannelCredentials(),
                                        Arguments())) {
    // Never shut down: that would wait for the poller which gRPC starts for a
    // message that a socket's buffer does not hold, and which runs for ten
    // seconds.
    grpc_init();
  }

  absl::StatusOr<std::string> Call(absl::string_view method,
                                   const std::string& request,
                                   absl::Duration timeout) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
    const grpc::Slice slice(request);
    const grpc::ByteBuffer sent(&slice, 1);
    grpc::ByteBuffer got;
    std::promise<grpc::Status> ended;
    stub_.UnaryCall(
        &context, absl::StrCat(kService, method), {}, &sent, &got,
        [&ended](const grpc::Status& status) { ended.set_value(status); });
    const grpc::Status status = ended.get_future().get();
    if (status.ok()) return StringOf(got);
    return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                        status.error_message());
  }

 private:
  grpc::GenericStub stub_;
};

Client::Client(std::string socket, absl::Duration timeout)
    : socket_(std::move(socket)),
      timeout_(timeout),
      channel_(std::make_unique<Channel>(socket_)) {}

Client::~Client() = default;

absl::Status Client::Reachable() const {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_.size() >= sizeof(address.sun_path)) {
    return absl::UnavailableError(
        absl::StrCat(socket_, ": too long for the path of a socket"));
  }
  std::memcpy(address.sun_path, socket_.data(), socket_.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool connected =
      fd >= 0 && connect(fd, reinterpret_cast<const sockaddr*>(&address),
                         sizeof(address)) == 0;
  const int error = errno;
  if (fd >= 0) close(fd);
  if (connected) return absl::OkStatus();
  const char* advice =
      error == EACCES
          ? "be root, or the user or group that its configuration names"
          : "check that skiffd runs, that its configuration has "
            "management {}, and --socket";
  return absl::UnavailableError(absl::StrCat("cannot reach skiffd at ", socket_,
                                             ": ", std::strerror(error), "; ",
                                             advice));
}

absl::StatusOr<std::string> Client::CallBytes(absl::string_view method,
                                              const std::string& request) {
  absl::Status reachable = Reachable();
  if (!reachable.ok()) return reachable;
  return channel_->Call(method, request, timeout_);
}

}  // namespace skiff::tools::skiffctl
