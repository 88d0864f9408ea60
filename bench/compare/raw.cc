// The yardstick: a bare pair of sockets that moves the bytes of iSCSI reads and
// writes and does nothing else. A request is 48 bytes (a BHS) and is answered
// by 48 bytes; reads add the payload to the answer, writes to the request. What
// a real stack reaches is judged as a share of this.
//
//   raw --rw=read --bs=4k --depth=32 --batch --spin
//
// Starts both ends itself, each on its core, and prints one line of JSON.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "bench/compare/util.h"

ABSL_FLAG(std::string, rw, "read", "read or write");
ABSL_FLAG(std::string, bs, "4k", "payload of a request");
ABSL_FLAG(int, depth, 1, "requests outstanding at once");
ABSL_FLAG(bool, batch, false,
          "receive and send many messages a call; else one a call");
ABSL_FLAG(bool, spin, false, "both ends poll instead of sleeping");
ABSL_FLAG(double, runtime, 2, "seconds to measure");
ABSL_FLAG(std::string, span, "64m",
          "memory of the server that payloads walk through, as a logical unit; "
          "the client's buffers are as many as requests");
ABSL_FLAG(int, server_core, -1, "core of the server (the target's place)");
ABSL_FLAG(int, client_core, -1, "core of the client (the initiator's place)");

namespace skiff::bench {
namespace {

constexpr size_t kHeaderSize = 48;
constexpr double kWarmupSeconds = 0.2;

// One end: receives messages of one fixed size, sends messages of another.
class End {
 public:
  // `span`: the memory that payloads come from or go to.
  End(int fd, size_t in_payload, size_t out_payload, size_t span)
      : fd_(fd),
        in_size_(kHeaderSize + in_payload),
        out_payload_(out_payload),
        batch_(absl::GetFlag(FLAGS_batch)),
        spin_(absl::GetFlag(FLAGS_spin)) {
    const size_t at_once = in_size_ * absl::GetFlag(FLAGS_depth);
    in_.assign(in_payload == 0 ? at_once : std::max(span, at_once), 1);
    out_.assign(std::max({span, out_payload, kHeaderSize}), 2);
  }

  // Receives what is there, at least a byte. False when the peer has gone;
  // else how many messages that completed.
  bool Receive(size_t* completed) {
    size_t wanted = in_.size() - in_at_;
    if (!batch_) wanted = std::min(wanted, in_size_ - partial_);
    size_t received;
    if (!ReceiveSome(fd_, in_.data() + in_at_, wanted, spin_, &received)) {
      return false;
    }
    in_at_ += received;
    if (in_at_ == in_.size()) in_at_ = 0;
    partial_ += received;
    *completed = partial_ / in_size_;
    partial_ %= in_size_;
    return true;
  }

  // False when the peer has gone.
  bool Send(size_t messages) {
    for (size_t i = 0; i < messages; ++i) {
      pieces_.push_back({out_.data(), kHeaderSize});
      if (out_payload_ > 0) {
        if (out_at_ + out_payload_ > out_.size()) out_at_ = 0;
        pieces_.push_back({out_.data() + out_at_, out_payload_});
        out_at_ += out_payload_;
      }
      if (!batch_ && !SendAll(fd_, &pieces_, spin_)) return false;
    }
    return SendAll(fd_, &pieces_, spin_);
  }

 private:
  const int fd_;
  const size_t in_size_;
  const size_t out_payload_;
  const bool batch_;
  const bool spin_;
  std::vector<char> in_;
  std::vector<char> out_;
  size_t in_at_ = 0;
  size_t out_at_ = 0;
  size_t partial_ = 0;  // Bytes of the message that is not complete yet.
  std::vector<iovec> pieces_;
};

void Serve(int listener, size_t in_payload, size_t out_payload) {
  const int fd = accept(listener, nullptr, nullptr);
  if (fd < 0) Die("raw: cannot accept", true);
  SetNoDelay(fd);
  End end(fd, in_payload, out_payload, ParseSize(absl::GetFlag(FLAGS_span)));
  size_t completed;
  while (end.Receive(&completed) && end.Send(completed)) {
  }
}

void Load(int fd, size_t in_payload, size_t out_payload, double* seconds,
          uint64_t* messages, double* cpu) {
  End end(fd, in_payload, out_payload,
          out_payload * absl::GetFlag(FLAGS_depth));
  const double warm = Now() + kWarmupSeconds;
  const double runtime = absl::GetFlag(FLAGS_runtime);
  double begin = 0;
  double cpu_begin = 0;
  size_t completed;
  if (!end.Send(absl::GetFlag(FLAGS_depth))) Die("raw: the server has gone");
  while (true) {
    if (!end.Receive(&completed)) Die("raw: the server has gone");
    if (completed == 0) continue;
    const double now = Now();
    if (begin == 0 && now >= warm) {
      begin = now;
      cpu_begin = CpuSeconds();
    } else if (begin != 0) {
      *messages += completed;
      if (now - begin >= runtime) {
        *seconds = now - begin;
        *cpu = CpuSeconds() - cpu_begin;
        return;
      }
    }
    if (!end.Send(completed)) Die("raw: the server has gone");
  }
}

int Listen(std::string* port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  sockaddr* generic = reinterpret_cast<sockaddr*>(&address);
  if (fd < 0 || bind(fd, generic, size) != 0 || listen(fd, 1) != 0 ||
      getsockname(fd, generic, &size) != 0) {
    Die("raw: cannot listen on 127.0.0.1", true);
  }
  *port = std::to_string(ntohs(address.sin_port));
  return fd;
}

int Run() {
  const std::string rw = absl::GetFlag(FLAGS_rw);
  if (rw != "read" && rw != "write") Die("raw: --rw is read or write");
  if (absl::GetFlag(FLAGS_depth) < 1) Die("raw: --depth is at least 1");
  const size_t bs = ParseSize(absl::GetFlag(FLAGS_bs));
  const size_t request = rw == "write" ? bs : 0;
  const size_t answer = rw == "read" ? bs : 0;

  std::string port;
  const int listener = Listen(&port);
  const pid_t server = fork();
  if (server < 0) Die("raw: cannot fork", true);
  if (server == 0) {
    PinToCore(absl::GetFlag(FLAGS_server_core));
    Serve(listener, request, answer);
    return 0;
  }
  PinToCore(absl::GetFlag(FLAGS_client_core));
  const int fd = ConnectTo("127.0.0.1", port);
  double seconds = 0;
  double cpu = 0;
  uint64_t messages = 0;
  Load(fd, answer, request, &seconds, &messages, &cpu);
  close(fd);
  waitpid(server, nullptr, 0);

  const double count = static_cast<double>(messages);
  const double iops = count / seconds;
  std::printf(
      "{\"iops\": %.0f, \"mb_per_s\": %.1f, \"latency_us\": %.2f, "
      "\"client_cpu_us_per_io\": %.3f}\n",
      iops, iops * static_cast<double>(bs) * 1e-6,
      1e6 * absl::GetFlag(FLAGS_depth) / iops, 1e6 * cpu / count);
  return 0;
}

}  // namespace
}  // namespace skiff::bench

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "raw --rw=read|write --bs=4k --depth=N [--batch] [--spin]");
  absl::ParseCommandLine(argc, argv);
  return skiff::bench::Run();
}
