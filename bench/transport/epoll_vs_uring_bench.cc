// Which way of waiting for sockets should carry the TCP backend? An echo server
// over epoll (edge-triggered, one recv and one send per event, as TcpStream
// does it) and over io_uring (single-shot and multishot receives), under the
// same client.
//
// Arguments: bytes of a message, connections, messages in flight per
// connection. `server_cpu_us` is the processor time that the server's thread
// spent per message, in microseconds.
#include <liburing.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "benchmark/benchmark.h"

namespace {

constexpr size_t kBuffer = 1 << 17;
constexpr unsigned kRingEntries = 256;

void Check(bool ok) {
  if (!ok) std::abort();
}

double ThreadSeconds() {
  timespec ts;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
  return static_cast<double>(ts.tv_sec) + static_cast<double>(ts.tv_nsec) / 1e9;
}

// Serves until every peer has closed.
class EchoServer {
 public:
  virtual ~EchoServer() = default;
  virtual void Serve(const std::vector<int>& fds) = 0;
};

class EpollServer : public EchoServer {
 public:
  void Serve(const std::vector<int>& fds) override {
    const int epoll = epoll_create1(0);
    for (int fd : fds) {
      epoll_event event = {};
      event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
      event.data.fd = fd;
      Check(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0);
    }
    size_t open = fds.size();
    while (open > 0) {
      epoll_event events[64];
      const int count = epoll_wait(epoll, events, 64, -1);
      for (int i = 0; i < count; ++i) {
        if (!Echo(events[i].data.fd, events[i].events)) --open;
      }
    }
    close(epoll);
  }

 private:
  // False at the end of the stream.
  bool Echo(int fd, uint32_t events) {
    while (true) {
      const ssize_t got = recv(fd, buffer_.data(), kBuffer, MSG_DONTWAIT);
      if (got < 0) {
        Check(errno == EAGAIN);
        return true;
      }
      if (got == 0) return false;
      Check(send(fd, buffer_.data(), static_cast<size_t>(got),
                 MSG_DONTWAIT | MSG_NOSIGNAL) == got);
      // A short read has emptied the socket's buffer.
      if ((events & EPOLLRDHUP) == 0) return true;
    }
  }

  std::vector<char> buffer_ = std::vector<char>(kBuffer);
};

class UringServer : public EchoServer {
 public:
  UringServer() {
    io_uring_params params = {};
    // The issuer is the thread that creates the ring.
    params.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
    Check(io_uring_queue_init_params(kRingEntries, &ring_, &params) == 0);
  }
  ~UringServer() override { io_uring_queue_exit(&ring_); }

  void Serve(const std::vector<int>& fds) override {
    Prepare(fds);
    size_t open = fds.size();
    while (open > 0) {
      Check(io_uring_submit_and_wait(&ring_, 1) >= 0);
      unsigned head;
      unsigned seen = 0;
      io_uring_cqe* cqe;
      io_uring_for_each_cqe(&ring_, head, cqe) {
        ++seen;
        if (!Handle(*cqe)) --open;
      }
      io_uring_cq_advance(&ring_, seen);
    }
  }

 protected:
  static constexpr uint64_t kSend = uint64_t{1} << 32;

  virtual void Prepare(const std::vector<int>& fds) = 0;
  // False at the end of a stream.
  virtual bool Handle(const io_uring_cqe& cqe) = 0;

  io_uring_sqe* Sqe() {
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    Check(sqe != nullptr);
    return sqe;
  }

  io_uring ring_;
};

// One receive at a time per connection, posted again together with the answer.
class UringSingleShotServer : public UringServer {
 private:
  struct Connection {
    int fd;
    int current =
        0;  // The buffer that is being filled; the other is being sent.
    std::vector<char> buffers[2];
  };

  void Prepare(const std::vector<int>& fds) override {
    for (int fd : fds) {
      connections_.push_back({fd, 0, {}});
      for (auto& buffer : connections_.back().buffers) buffer.resize(kBuffer);
    }
    for (size_t i = 0; i < connections_.size(); ++i) Receive(i);
  }

  void Receive(size_t index) {
    Connection& connection = connections_[index];
    io_uring_sqe* sqe = Sqe();
    io_uring_prep_recv(sqe, connection.fd,
                       connection.buffers[connection.current].data(), kBuffer,
                       0);
    io_uring_sqe_set_data64(sqe, index);
  }

  bool Handle(const io_uring_cqe& cqe) override {
    if ((cqe.user_data & kSend) != 0) return true;
    if (cqe.res <= 0) return false;
    Connection& connection = connections_[cqe.user_data];
    io_uring_sqe* sqe = Sqe();
    io_uring_prep_send(
        sqe, connection.fd, connection.buffers[connection.current].data(),
        static_cast<size_t>(cqe.res), MSG_WAITALL | MSG_NOSIGNAL);
    io_uring_sqe_set_data64(sqe, cqe.user_data | kSend);
    connection.current ^= 1;
    Receive(cqe.user_data);
    return true;
  }

  std::vector<Connection> connections_;
};

// One receive per connection for good, into a ring of provided buffers.
class UringMultishotServer : public UringServer {
 private:
  static constexpr unsigned kBuffers = 64;
  static constexpr int kGroup = 1;

  void Prepare(const std::vector<int>& fds) override {
    memory_.resize(kBuffers * kBuffer);
    void* aligned = nullptr;
    Check(posix_memalign(&aligned, 4096, kBuffers * sizeof(io_uring_buf)) == 0);
    buffers_.reset(static_cast<io_uring_buf_ring*>(aligned));
    io_uring_buf_reg reg = {};
    reg.ring_addr = reinterpret_cast<uintptr_t>(aligned);
    reg.ring_entries = kBuffers;
    reg.bgid = kGroup;
    io_uring_buf_ring_init(buffers_.get());
    Check(io_uring_register_buf_ring(&ring_, &reg, 0) == 0);
    for (unsigned i = 0; i < kBuffers; ++i) Give(i);
    for (int fd : fds) Receive(fd);
  }

  void Give(unsigned id) {
    io_uring_buf_ring_add(buffers_.get(), memory_.data() + id * kBuffer,
                          kBuffer, static_cast<uint16_t>(id),
                          io_uring_buf_ring_mask(kBuffers), 0);
    io_uring_buf_ring_advance(buffers_.get(), 1);
  }

  void Receive(int fd) {
    io_uring_sqe* sqe = Sqe();
    io_uring_prep_recv_multishot(sqe, fd, nullptr, 0, 0);
    sqe->flags |= IOSQE_BUFFER_SELECT;
    sqe->buf_group = kGroup;
    io_uring_sqe_set_data64(sqe, static_cast<uint64_t>(fd));
  }

  bool Handle(const io_uring_cqe& cqe) override {
    if ((cqe.user_data & kSend) != 0) {
      Give(static_cast<unsigned>(cqe.user_data & 0xffff));
      return true;
    }
    const int fd = static_cast<int>(cqe.user_data);
    if (cqe.res == -ENOBUFS) {
      Receive(fd);
      return true;
    }
    if (cqe.res <= 0) return false;
    const unsigned id = cqe.flags >> IORING_CQE_BUFFER_SHIFT;
    io_uring_sqe* sqe = Sqe();
    io_uring_prep_send(sqe, fd, memory_.data() + id * kBuffer,
                       static_cast<size_t>(cqe.res),
                       MSG_WAITALL | MSG_NOSIGNAL);
    io_uring_sqe_set_data64(sqe, kSend | id);
    if ((cqe.flags & IORING_CQE_F_MORE) == 0) Receive(fd);
    return true;
  }

  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  std::vector<char> memory_;
  std::unique_ptr<io_uring_buf_ring, Free> buffers_;
};

// Connects pairs of sockets; the first of each is the client's.
void ConnectPairs(int count, std::vector<int>* clients,
                  std::vector<int>* servers) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  Check(bind(listener, generic, length) == 0 && listen(listener, count) == 0 &&
        getsockname(listener, generic, &length) == 0);
  for (int i = 0; i < count; ++i) {
    clients->push_back(socket(AF_INET, SOCK_STREAM, 0));
    Check(connect(clients->back(), generic, length) == 0);
    servers->push_back(accept(listener, nullptr, nullptr));
    const int on = 1;
    for (int fd : {clients->back(), servers->back()}) {
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    }
  }
  close(listener);
}

template <typename Server>
void Echo(benchmark::State& state) {
  const auto message = static_cast<size_t>(state.range(0));
  const int connections = static_cast<int>(state.range(1));
  const size_t in_flight = static_cast<size_t>(state.range(2));
  std::vector<int> clients;
  std::vector<int> servers;
  ConnectPairs(connections, &clients, &servers);
  double cpu = 0;
  std::thread thread([&] {
    Server server;
    const double before = ThreadSeconds();
    server.Serve(servers);
    cpu = ThreadSeconds() - before;
  });
  std::vector<char> buffer(message * in_flight);
  const auto size = static_cast<ssize_t>(buffer.size());
  for (auto _ : state) {
    for (int fd : clients) {
      Check(send(fd, buffer.data(), buffer.size(), MSG_NOSIGNAL) == size);
    }
    for (int fd : clients) {
      Check(recv(fd, buffer.data(), buffer.size(), MSG_WAITALL) == size);
    }
  }
  for (int fd : clients) close(fd);
  thread.join();
  for (int fd : servers) close(fd);
  const double messages = static_cast<double>(state.iterations()) *
                          connections * static_cast<double>(in_flight);
  state.SetItemsProcessed(static_cast<int64_t>(messages));
  state.counters["server_cpu_us"] = cpu / messages * 1e6;
}

void Cases(benchmark::internal::Benchmark* bench) {
  bench->Args({48, 1, 1})
      ->Args({4096, 1, 1})
      ->Args({4096, 1, 16})
      ->Args({48, 16, 1})
      ->Args({4096, 16, 1})
      ->UseRealTime();
}
BENCHMARK(Echo<EpollServer>)->Apply(Cases);
BENCHMARK(Echo<UringSingleShotServer>)->Apply(Cases);
BENCHMARK(Echo<UringMultishotServer>)->Apply(Cases);

}  // namespace
