// One 4 KiB message to and fro over the loopback: plain blocking sockets,
// Skiff's streams on sleeping reactors, and the same on polling reactors. What
// the streams cost above the sockets is the price of the reactor.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "benchmark/benchmark.h"
#include "transport/backend.h"
#include "transport/reactor/epoll_reactor.h"
#include "transport/tcp/tcp_backend.h"

namespace skiff::transport {
namespace {

constexpr size_t kMessage = 4096;

void Check(bool ok) {
  if (!ok) std::abort();
}

void SendAll(int fd, const char* data, size_t size) {
  while (size > 0) {
    const ssize_t sent = send(fd, data, size, MSG_NOSIGNAL);
    if (sent <= 0) return;
    data += sent;
    size -= static_cast<size_t>(sent);
  }
}

bool ReceiveAll(int fd, char* data, size_t size) {
  return recv(fd, data, size, MSG_WAITALL) == static_cast<ssize_t>(size);
}

void BlockingSockets(benchmark::State& state) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  Check(bind(listener, generic, length) == 0 && listen(listener, 1) == 0 &&
        getsockname(listener, generic, &length) == 0);
  const int client = socket(AF_INET, SOCK_STREAM, 0);
  Check(connect(client, generic, length) == 0);
  const int server = accept(listener, nullptr, nullptr);
  close(listener);
  const int on = 1;
  for (int fd : {client, server}) {
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  std::thread echo([server] {
    char buffer[kMessage];
    while (ReceiveAll(server, buffer, kMessage)) {
      SendAll(server, buffer, kMessage);
    }
  });
  char buffer[kMessage] = {};
  for (auto _ : state) {
    SendAll(client, buffer, kMessage);
    Check(ReceiveAll(client, buffer, kMessage));
  }
  close(client);
  echo.join();
  close(server);
  state.SetBytesProcessed(state.iterations() * 2 * kMessage);
}
BENCHMARK(BlockingSockets)->UseRealTime();

// Collects a message, then calls back.
class MessageReader : public StreamObserver {
 public:
  void Start(std::unique_ptr<ByteStream> stream) {
    stream_ = std::move(stream);
    stream_->SetObserver(this);
  }
  void Close() { stream_.reset(); }

  void Send() {
    const iovec from = {buffer_, kMessage};
    // Less than the socket's buffer, which is empty whenever this is called.
    Check(stream_->Writev({&from, 1}).bytes == kMessage);
  }

  void OnReadable() override {
    while (stream_ != nullptr) {
      const iovec to = {buffer_ + filled_, kMessage - filled_};
      const IoResult result = stream_->Readv({&to, 1});
      if (result.status != IoStatus::kOk) return;
      filled_ += result.bytes;
      if (filled_ < kMessage) continue;
      filled_ = 0;
      OnMessage();
    }
  }
  void OnWritable() override {}

 protected:
  virtual void OnMessage() = 0;

 private:
  std::unique_ptr<ByteStream> stream_;
  char buffer_[kMessage] = {};
  size_t filled_ = 0;
};

class EchoServer : public MessageReader {
  void OnMessage() override { Send(); }
};

class Client : public MessageReader {
 public:
  int answers = 0;

 private:
  void OnMessage() override { ++answers; }
};

void Streams(benchmark::State& state, absl::Duration spin) {
  EpollReactorOptions options;
  options.spin = spin;
  auto home = EpollReactor::Create(options).value();
  auto away = EpollReactor::Create(options).value();
  auto backend = MakeTcpBackend();
  EchoServer server;
  Client client;
  bool accepted = false;
  bool connected = false;
  auto listener =
      backend
          ->Listen(home.get(), Address::Parse("tcp://127.0.0.1:0").value(), {},
                   [&](std::unique_ptr<ConnectionRequest> request) {
                     request->Accept(
                         away.get(), {}, [&](absl::StatusOr<Endpoint> made) {
                           server.Start(std::get<std::unique_ptr<ByteStream>>(
                               *std::move(made)));
                         });
                     accepted = true;
                   })
          .value();
  auto attempt =
      backend
          ->Connect(home.get(), listener->address(), {},
                    [&](absl::StatusOr<Endpoint> made) {
                      client.Start(std::get<std::unique_ptr<ByteStream>>(
                          *std::move(made)));
                      connected = true;
                    })
          .value();
  while (!accepted || !connected) home->Poll();
  std::thread thread([&] { away->Run(); });

  // The benchmark's loop runs inside the client's reactor, as a user's code
  // would.
  class Driver : public Poller {
   public:
    Driver(benchmark::State* state, Client* client, EpollReactor* reactor)
        : state_(state), client_(client), reactor_(reactor) {}
    int Poll() override {
      if (client_->answers == 0 && started_) return 0;
      started_ = true;
      client_->answers = 0;
      if (state_->KeepRunning()) {
        client_->Send();
      } else {
        reactor_->Stop();
      }
      return 1;
    }

   private:
    benchmark::State* const state_;
    Client* const client_;
    EpollReactor* const reactor_;
    bool started_ = false;
  } driver(&state, &client, home.get());
  home->AddPoller(&driver, /*busy=*/false);
  home->Post([] {});  // The first turn.
  home->Run();
  home->RemovePoller(&driver);
  client.Close();
  away->Post([&] {
    server.Close();
    away->Stop();
  });
  thread.join();
  state.SetBytesProcessed(state.iterations() * 2 * kMessage);
}
BENCHMARK_CAPTURE(Streams, sleeping, absl::ZeroDuration())->UseRealTime();
BENCHMARK_CAPTURE(Streams, polling, absl::InfiniteDuration())->UseRealTime();

}  // namespace
}  // namespace skiff::transport
