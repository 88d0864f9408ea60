// fi_pingpong, which comes with libfabric, as the peer: a program of others
// that checks what it receives.
//
// It exchanges the fabric's address over a TCP connection of its own, starts
// each size there with a question and an answer, and then counts messages.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <rdma/fabric.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "transport/libfabric/libfabric_test_util.h"
#include "transport/net/scoped_fd.h"

namespace skiff::transport {
namespace {

constexpr int kIterations = 20;
constexpr size_t kFinBytes = 4;  // "fin" and its zero.

// The n-th message of a size, as fi_pingpong fills and checks it.
std::string Pattern(int n, size_t size) {
  static constexpr char kAlphabet[] =
      "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  constexpr size_t kLength = sizeof(kAlphabet) - 1;
  std::string out(size, 0);
  for (size_t i = 0; i < size; ++i) {
    out[i] = kAlphabet[(static_cast<size_t>(n) * 7 + i) % kLength];
  }
  return out;
}

sockaddr_in Loopback(uint16_t port) {
  sockaddr_in out = {};
  out.sin_family = AF_INET;
  out.sin_port = htons(port);
  out.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return out;
}

ScopedFd TcpSocket() {
  ScopedFd out(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval limit = {10, 0};
  setsockopt(out.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  return out;
}

// A port that was free a moment ago.
uint16_t FreePort() {
  const ScopedFd fd = TcpSocket();
  sockaddr_in address = Loopback(0);
  socklen_t length = sizeof(address);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(bind(fd.get(), any, length), 0);
  EXPECT_EQ(getsockname(fd.get(), any, &length), 0);
  return ntohs(address.sin_port);
}

class FiPingpongTest : public LibfabricTest {
 protected:
  void TearDown() override {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }

  void Start(size_t size, std::vector<std::string> more) {
    std::vector<std::string> line = {"fi_pingpong", "-e",
                                     "msg",         "-p",
                                     "tcp",         "-c",
                                     "-I",          absl::StrCat(kIterations),
                                     "-S",          absl::StrCat(size)};
    line.insert(line.end(), more.begin(), more.end());
    std::vector<char*> arguments;
    for (std::string& argument : line) arguments.push_back(argument.data());
    arguments.push_back(nullptr);
    ASSERT_EQ(posix_spawnp(&pid_, line[0].c_str(), nullptr, nullptr,
                           arguments.data(), environ),
              0)
        << "fi_pingpong is not here: tools/install-deps test";
  }
  void ExpectSuccess() {
    int status = -1;
    EXPECT_TRUE(RunUntil([&] {
      return waitpid(pid_, &status, WNOHANG) == pid_;
    })) << "fi_pingpong does not end";
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
        << "fi_pingpong failed with status " << status;
    pid_ = -1;
  }

  // The control connection. Nobody needs the reactor meanwhile.
  void Tell(const void* data, size_t size) {
    ASSERT_EQ(send(control_.get(), data, size, MSG_NOSIGNAL),
              static_cast<ssize_t>(size));
  }
  std::string Hear(size_t size) {
    std::string out(size, 0);
    EXPECT_EQ(recv(control_.get(), out.data(), size, MSG_WAITALL),
              static_cast<ssize_t>(size));
    return out;
  }

  void PostReceive(RdmaEndpoint* end) {
    ASSERT_EQ(end->PostReceive({}, {in_->Part(0, kBufferBytes)}),
              PostResult::kAccepted);
  }
  // The next completion of a kind; the other direction's may come before it.
  Completion Await(RdmaEndpoint* end, OperationKind kind) {
    if (early_.has_value() && early_->kind == kind) {
      const Completion out = *early_;
      early_.reset();
      return out;
    }
    Completion completion = Next(end);
    if (completion.kind != kind && !early_.has_value()) {
      early_ = completion;
      completion = Next(end);
    }
    EXPECT_EQ(completion.kind, kind);
    EXPECT_EQ(completion.status, CompletionStatus::kOk);
    return completion;
  }
  // The message that was received, with the next RECEIVE posted.
  std::string Receive(RdmaEndpoint* end) {
    const Completion completion = Await(end, OperationKind::kReceive);
    std::string out(in_->data(), completion.bytes);
    PostReceive(end);
    return out;
  }
  void Send(RdmaEndpoint* end, const std::string& text) {
    std::memcpy(out_->data(), text.data(), text.size());
    ASSERT_EQ(end->PostSend({}, {out_->Part(0, text.size())}),
              PostResult::kAccepted);
    end->Flush();
    Await(end, OperationKind::kSend);
  }
  // Gets an endpoint's buffers ready.
  absl::Status Prepare(RdmaEndpoint& end) {
    in_ = &Memory(&end, kBufferBytes, 0);
    out_ = &Memory(&end, kBufferBytes, 0);
    PostReceive(&end);
    return absl::OkStatus();
  }

  static constexpr size_t kBufferBytes = 1 << 16;
  ScopedFd control_;
  TestBuffer* in_ = nullptr;
  TestBuffer* out_ = nullptr;
  std::optional<Completion> early_;
  pid_t pid_ = -1;
};

INSTANTIATE_TEST_SUITE_P(Providers, FiPingpongTest,
                         ::testing::Values("provider=tcp"), ProviderName);

TEST_P(FiPingpongTest, ItConnectsAndWeEcho) {
  for (const size_t size :
       {size_t{1}, size_t{64}, size_t{1024}, kBufferBytes}) {
    SCOPED_TRACE(testing::Message() << size << " bytes");
    Listen();
    const ScopedFd control = TcpSocket();
    sockaddr_in address = Loopback(0);
    socklen_t length = sizeof(address);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    ASSERT_EQ(bind(control.get(), any, length), 0);
    ASSERT_EQ(listen(control.get(), 1), 0);
    ASSERT_EQ(getsockname(control.get(), any, &length), 0);
    ASSERT_NO_FATAL_FAILURE(Start(
        size, {"-P", absl::StrCat(ntohs(address.sin_port)), "127.0.0.1"}));
    control_ = ScopedFd(accept(control.get(), nullptr, nullptr));
    ASSERT_GE(control_.get(), 0) << "fi_pingpong does not connect";

    const sockaddr_in fabric =
        Loopback(static_cast<uint16_t>(listener_->address().port));
    const uint32_t name[] = {htonl(sizeof(fabric)), FI_SOCKADDR_IN};
    Tell(name, sizeof(name));
    Tell(&fabric, sizeof(fabric));
    AcceptOptions options;
    options.prepare = [this](RdmaEndpoint& end) { return Prepare(end); };
    absl::StatusOr<EndpointPtr> accepted;
    Accept(&accepted, options);
    ASSERT_TRUE(RunUntil([&] { return Concluded(accepted); }));
    ASSERT_TRUE(accepted.ok()) << accepted.status();
    RdmaEndpoint* const end = accepted->get();

    EXPECT_EQ(Hear(2), std::string("q\0", 2));
    Tell("a", 2);
    for (int i = 0; i < kIterations && !HasFailure(); ++i) {
      const std::string message = Receive(end);
      EXPECT_EQ(message, Pattern(i, size));
      Send(end, message);
    }
    Hear(10);  // How many messages it has received.
    Tell("cnt ok", 7);
    EXPECT_EQ(Receive(end), std::string("fin\0", kFinBytes));
    Send(end, std::string("fin\0", kFinBytes));
    ExpectSuccess();
    listener_.reset();
  }
}

TEST_P(FiPingpongTest, WeConnectAndItEchoes) {
  for (const size_t size :
       {size_t{1}, size_t{64}, size_t{1024}, kBufferBytes}) {
    SCOPED_TRACE(testing::Message() << size << " bytes");
    const uint16_t port = FreePort();
    ASSERT_NO_FATAL_FAILURE(Start(size, {"-B", absl::StrCat(port)}));
    const sockaddr_in control = Loopback(port);
    ASSERT_TRUE(RunUntil([&] {
      control_ = TcpSocket();
      return connect(control_.get(),
                     reinterpret_cast<const sockaddr*>(&control),
                     sizeof(control)) == 0;
    })) << "fi_pingpong does not listen";

    sockaddr_in fabric = {};
    uint32_t name[2] = {};
    std::memcpy(name, Hear(sizeof(name)).data(), sizeof(name));
    ASSERT_EQ(ntohl(name[0]), sizeof(fabric));
    std::memcpy(&fabric, Hear(sizeof(fabric)).data(), sizeof(fabric));
    char host[INET_ADDRSTRLEN] = "127.0.0.1";
    if (fabric.sin_addr.s_addr != htonl(INADDR_ANY)) {
      inet_ntop(AF_INET, &fabric.sin_addr, host, sizeof(host));
    }
    ConnectOptions options;
    options.prepare = [this](RdmaEndpoint& end) { return Prepare(end); };
    absl::StatusOr<EndpointPtr> connected = absl::UnknownError("no outcome");
    const auto attempt = transport_->Connect(
        reactor_.get(),
        Address::Parse(absl::StrCat("libfabric://", host, ":",
                                    ntohs(fabric.sin_port), "?", GetParam()))
            .value(),
        options, [&](absl::StatusOr<Endpoint> made) {
          if (made.ok()) {
            connected = std::get<EndpointPtr>(*std::move(made));
          } else {
            connected = made.status();
          }
        });
    ASSERT_TRUE(attempt.ok()) << attempt.status();
    ASSERT_TRUE(RunUntil([&] { return Concluded(connected); }));
    ASSERT_TRUE(connected.ok()) << connected.status();
    RdmaEndpoint* const end = connected->get();

    Tell("q", 2);
    EXPECT_EQ(Hear(2), std::string("a\0", 2));
    for (int i = 0; i < kIterations && !HasFailure(); ++i) {
      Send(end, Pattern(i, size));
      EXPECT_EQ(Receive(end), Pattern(i, size));
    }
    std::string count = absl::StrCat(kIterations);
    count.resize(10);
    Tell(count.data(), count.size());
    EXPECT_EQ(Hear(7), std::string("cnt ok\0", 7));
    Send(end, std::string("fin\0", kFinBytes));
    EXPECT_EQ(Receive(end), std::string("fin\0", kFinBytes));
    ExpectSuccess();
  }
}

}  // namespace
}  // namespace skiff::transport
