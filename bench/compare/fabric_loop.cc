// The yardstick of the libfabric backend: connected endpoints (FI_EP_MSG) with
// nothing between them and the loop that measures, in the manner of fabtests.
// It does what bench/transport's transport_pair does, with the same queues.
//
//   fabric_loop --provider=tcp --op=send --mode=latency --size=64
//
// Starts both ends itself, each on its core, and prints one line of JSON.

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "bench/compare/util.h"

ABSL_FLAG(std::string, provider, "tcp", "of libfabric");
ABSL_FLAG(std::string, address, "127.0.0.1", "to listen on");
ABSL_FLAG(std::string, port, "7477", "to listen on");
ABSL_FLAG(std::string, op, "send", "send, write or read");
ABSL_FLAG(std::string, mode, "latency",
          "latency: one at a time, send and write to and fro; "
          "rate: depth at once, one way");
ABSL_FLAG(std::string, size, "64", "bytes of an operation");
ABSL_FLAG(int, depth, 128, "operations at once, for rate");
ABSL_FLAG(int, read_depth, 16, "READs at once");
ABSL_FLAG(size_t, inline_bytes, 0, "up to here FI_INJECT is used");
ABSL_FLAG(bool, wait_object, false, "give the queues a descriptor to sleep on");
ABSL_FLAG(bool, delivery_complete, false,
          "WRITEs complete once the peer has the data, as Skiff's do");
ABSL_FLAG(double, runtime, 2, "seconds to measure");
ABSL_FLAG(uint64_t, operations, 0,
          "operations to do at least, and no longer, for programs that count "
          "instructions: prints how many it were");
ABSL_FLAG(int, server_core, -1, "core of the end that is served");
ABSL_FLAG(int, client_core, -1, "core of the end that measures");

namespace skiff::bench {
namespace {

constexpr double kWarmupSeconds = 0.2;
constexpr uint64_t kReceives = 256;
constexpr uint64_t kCredit = 64;
constexpr uint64_t kPerClock = 64;
constexpr size_t kMaxSamples = 1u << 20;
constexpr size_t kPage = 4096;

void Check(ssize_t result, const char* what) {
  if (result < 0) {
    Die(std::string("fabric_loop: ") + what + ": " +
        fi_strerror(static_cast<int>(-result)));
  }
}

enum class Op { kSend, kWrite, kRead };

struct Plan {
  Op op = Op::kSend;
  bool ping_pong = true;
  size_t size = 64;
  uint64_t depth = 1;
};

struct Hello {
  uint64_t address;
  uint64_t key;
};

fi_info* Find(bool listening) {
  fi_info* hints = fi_allocinfo();
  hints->ep_attr->type = FI_EP_MSG;
  hints->caps = FI_MSG | FI_RMA;
  hints->addr_format = FI_SOCKADDR_IN;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->domain_attr->mr_mode =
      FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  hints->fabric_attr->prov_name = strdup(absl::GetFlag(FLAGS_provider).c_str());
  fi_info* info = nullptr;
  Check(fi_getinfo(FI_VERSION(1, 17), absl::GetFlag(FLAGS_address).c_str(),
                   absl::GetFlag(FLAGS_port).c_str(), listening ? FI_SOURCE : 0,
                   hints, &info),
        "fi_getinfo");
  fi_freeinfo(hints);
  return info;
}

// What both ends have; never closed, since the process ends.
class End {
 public:
  End(const Plan& plan, bool client) : plan_(plan), client_(client) {
    area_ = (plan.size + kPage - 1) / kPage * kPage;
    memory_ = static_cast<uint8_t*>(std::aligned_alloc(kPage, 2 * area_));
    std::memset(memory_, 0, 2 * area_);
  }

  void Listen() {
    fi_info* info = Find(/*listening=*/true);
    OpenFabric(info);
    fid_pep* passive = nullptr;
    Check(fi_passive_ep(fabric_, info, &passive, nullptr), "fi_passive_ep");
    Check(fi_pep_bind(passive, &events_->fid, 0), "fi_pep_bind");
    Check(fi_listen(passive), "fi_listen");
    const char ready = 1;
    if (write(ready_fd, &ready, 1) != 1) Die("cannot write to the pipe", true);
    const fi_eq_cm_entry request = WaitFor(FI_CONNREQ);
    OpenEndpoint(request.info);
    Check(fi_accept(endpoint_, nullptr, 0), "fi_accept");
    WaitFor(FI_CONNECTED);
  }

  void Connect() {
    fi_info* info = Find(/*listening=*/false);
    OpenFabric(info);
    OpenEndpoint(info);
    Check(fi_connect(endpoint_, info->dest_addr, nullptr, 0), "fi_connect");
    WaitFor(FI_CONNECTED);
    SendHello();
  }

  // One look at the queue, and what follows from it. False when the peer has
  // gone.
  bool Poll() {
    fi_cq_msg_entry entries[64];
    const ssize_t count = fi_cq_read(queue_, entries, 64);
    if (count == -FI_EAVAIL) return false;
    if (count != -FI_EAGAIN) Check(count, "fi_cq_read");
    for (ssize_t i = 0; i < count; ++i) {
      if ((entries[i].flags & FI_RECV) != 0) {
        OnReceive();
      } else {
        --outstanding_;
        if (!plan_.ping_pong && client_ && greeted_) ++completed_;
      }
    }
    if (greeted_ && plan_.ping_pong) {
      if (plan_.op == Op::kWrite) LookAtMemory();
    } else if (greeted_ && client_) {
      while (outstanding_ < plan_.depth && allowed_ > 0 && PostOperation()) {
        if (plan_.op == Op::kSend) --allowed_;
      }
    }
    for (; receives_due_ > 0; --receives_due_) PostReceive();
    return true;
  }

  uint64_t completed() const { return completed_; }
  int ready_fd = -1;

 private:
  void OpenFabric(fi_info* info) {
    Check(fi_fabric(info->fabric_attr, &fabric_, nullptr), "fi_fabric");
    fi_eq_attr events = {};
    events.wait_obj = FI_WAIT_UNSPEC;
    Check(fi_eq_open(fabric_, &events, &events_, nullptr), "fi_eq_open");
  }

  void OpenEndpoint(fi_info* info) {
    info->tx_attr->size = plan_.depth + kReceives / kCredit + 1;
    info->rx_attr->size = kReceives;
    Check(fi_domain(fabric_, info, &domain_, nullptr), "fi_domain");
    fi_cq_attr queue = {};
    queue.size = info->tx_attr->size + info->rx_attr->size;
    queue.format = FI_CQ_FORMAT_MSG;
    queue.wait_obj =
        absl::GetFlag(FLAGS_wait_object) ? FI_WAIT_FD : FI_WAIT_NONE;
    Check(fi_cq_open(domain_, &queue, &queue_, nullptr), "fi_cq_open");
    const uint64_t access = FI_SEND | FI_RECV | FI_READ | FI_WRITE |
                            FI_REMOTE_READ | FI_REMOTE_WRITE;
    Check(fi_mr_reg(domain_, memory_, 2 * area_, access, 0, client_ ? 1 : 2, 0,
                    &region_, nullptr),
          "fi_mr_reg");
    const bool virtual_addresses =
        (info->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0;
    base_ = virtual_addresses ? reinterpret_cast<uintptr_t>(memory_) : 0;
    Check(fi_endpoint(domain_, info, &endpoint_, nullptr), "fi_endpoint");
    Check(fi_ep_bind(endpoint_, &events_->fid, 0), "fi_ep_bind");
    Check(fi_ep_bind(endpoint_, &queue_->fid, FI_TRANSMIT | FI_RECV),
          "fi_ep_bind");
    Check(fi_enable(endpoint_), "fi_enable");
    sends_.resize(info->tx_attr->size);
    receives_.resize(info->rx_attr->size);
    for (uint64_t i = 0; i < kReceives; ++i) PostReceive();
  }

  fi_eq_cm_entry WaitFor(uint32_t wanted) {
    fi_eq_cm_entry entry = {};
    uint32_t event = 0;
    const ssize_t got =
        fi_eq_sread(events_, &event, &entry, sizeof(entry), 10000, 0);
    Check(got, "waiting for the peer");
    if (event != wanted) Die("fabric_loop: the peer did something else");
    return entry;
  }

  // Each is the provider's until its operation is done.
  fi_context2* NextSend() { return &sends_[next_send_++ % sends_.size()]; }
  fi_context2* NextReceive() {
    return &receives_[next_receive_++ % receives_.size()];
  }

  void PostReceive() {
    Check(fi_recv(endpoint_, memory_ + area_, area_, fi_mr_desc(region_), 0,
                  NextReceive()),
          "fi_recv");
  }

  bool Posted(ssize_t result) {
    if (result == -FI_EAGAIN) return false;
    Check(result, "an operation");
    ++outstanding_;
    return true;
  }

  bool Send(size_t bytes) {
    if (bytes > absl::GetFlag(FLAGS_inline_bytes)) {
      return Posted(fi_send(endpoint_, memory_, bytes, fi_mr_desc(region_), 0,
                            NextSend()));
    }
    const iovec piece = {memory_, bytes};
    void* descriptor = fi_mr_desc(region_);
    fi_msg message = {};
    message.msg_iov = &piece;
    message.desc = &descriptor;
    message.iov_count = 1;
    message.context = NextSend();
    return Posted(fi_sendmsg(endpoint_, &message, FI_INJECT | FI_COMPLETION));
  }

  bool PostOperation() {
    if (plan_.op == Op::kSend) return Send(plan_.size);
    if (plan_.op == Op::kWrite && absl::GetFlag(FLAGS_delivery_complete)) {
      return WriteDelivered();
    }
    if (plan_.op == Op::kWrite) {
      return Posted(fi_write(endpoint_, memory_, plan_.size,
                             fi_mr_desc(region_), 0, peer_.address + area_,
                             peer_.key, NextSend()));
    }
    return Posted(fi_read(endpoint_, memory_ + area_, plan_.size,
                          fi_mr_desc(region_), 0, peer_.address, peer_.key,
                          NextSend()));
  }

  bool WriteDelivered() {
    const iovec piece = {memory_, plan_.size};
    void* descriptor = fi_mr_desc(region_);
    const fi_rma_iov remote = {peer_.address + area_, plan_.size, peer_.key};
    fi_msg_rma message = {};
    message.msg_iov = &piece;
    message.desc = &descriptor;
    message.iov_count = 1;
    message.rma_iov = &remote;
    message.rma_iov_count = 1;
    message.context = NextSend();
    return Posted(
        fi_writemsg(endpoint_, &message, FI_COMPLETION | FI_DELIVERY_COMPLETE));
  }

  void SendHello() {
    const Hello hello = {base_, fi_mr_key(region_)};
    std::memcpy(memory_, &hello, sizeof(hello));
    if (!Send(sizeof(hello))) Die("fabric_loop: the first SEND is refused");
  }

  void OnReceive() {
    ++receives_due_;
    if (!greeted_) {
      std::memcpy(&peer_, memory_ + area_, sizeof(peer_));
      std::memset(memory_ + area_, 0, sizeof(peer_));
      greeted_ = true;
      if (!client_) SendHello();
      if (client_ && plan_.ping_pong) Begin();
    } else if (plan_.ping_pong) {
      ++completed_;
      Begin();
    } else if (client_) {
      allowed_ += kCredit;
    } else if (++received_ % kCredit == 0 && !Send(4)) {
      Die("fabric_loop: the send queue is full");
    }
  }

  void Begin() {
    if (plan_.op == Op::kWrite) {
      sequence_ = static_cast<uint8_t>(sequence_ % 255 + 1);
      memory_[plan_.size - 1] = sequence_;
    }
    if (!PostOperation()) Die("fabric_loop: the send queue is full");
  }

  void LookAtMemory() {
    const uint8_t expected =
        client_ ? sequence_ : static_cast<uint8_t>(sequence_ % 255 + 1);
    const uint8_t seen =
        std::atomic_ref(memory_[area_ + plan_.size - 1]).load();
    if (expected == 0 || seen != expected) return;
    ++completed_;
    Begin();
  }

  const Plan plan_;
  const bool client_;
  size_t area_;
  uint8_t* memory_;
  uint64_t base_ = 0;
  fid_fabric* fabric_ = nullptr;
  fid_eq* events_ = nullptr;
  fid_domain* domain_ = nullptr;
  fid_cq* queue_ = nullptr;
  fid_mr* region_ = nullptr;
  fid_ep* endpoint_ = nullptr;
  std::vector<fi_context2> sends_;
  std::vector<fi_context2> receives_;
  size_t next_send_ = 0;
  size_t next_receive_ = 0;

  Hello peer_ = {};
  bool greeted_ = false;
  uint64_t outstanding_ = 0;
  uint64_t completed_ = 0;
  uint64_t received_ = 0;
  uint64_t receives_due_ = 0;
  uint64_t allowed_ = kReceives;
  uint8_t sequence_ = 0;
};

struct Result {
  double seconds = 0;
  uint64_t ticks = 0;
  uint64_t operations = 0;
  std::vector<uint64_t> samples;
};

void RunFor(End* end, double seconds, Result* result) {
  const double begin = Now();
  const uint64_t ticks = Ticks();
  const uint64_t first = end->completed();
  uint64_t last = ticks;
  double now = begin;
  while (now - begin < seconds) {
    const uint64_t goal = end->completed() + kPerClock;
    while (end->completed() < goal) {
      const uint64_t before = end->completed();
      if (!end->Poll()) Die("fabric_loop: the peer has gone");
      if (end->completed() == before) continue;
      const uint64_t at = Ticks();
      if (result->samples.size() < kMaxSamples) {
        result->samples.push_back(at - last);
      }
      last = at;
    }
    now = Now();
  }
  result->seconds = now - begin;
  result->ticks = Ticks() - ticks;
  result->operations = end->completed() - first;
}

// A function of its own for programs that count instructions, and look at
// nothing else.
ABSL_ATTRIBUTE_NOINLINE void RunTo(End* end, uint64_t operations) {
  while (end->completed() < operations) {
    const uint64_t before = end->completed();
    if (!end->Poll()) Die("fabric_loop: the peer has gone");
    if (end->completed() == before) usleep(kCountedNapMicroseconds);
  }
}

void Print(const Plan& plan, Result* result) {
  const auto count = static_cast<double>(result->operations);
  auto middle = result->samples.begin() +
                static_cast<std::ptrdiff_t>(result->samples.size() / 2);
  std::nth_element(result->samples.begin(), middle, result->samples.end());
  const double share = plan.ping_pong ? 0.5 : 1;
  std::printf(
      "{\"rate\": %.0f, \"mb_per_s\": %.2f, \"latency_us\": %.3f, "
      "\"mean_latency_us\": %.3f}\n",
      count / result->seconds,
      count / result->seconds * static_cast<double>(plan.size) * 1e-6,
      share * static_cast<double>(*middle) * 1e6 * result->seconds /
          static_cast<double>(result->ticks),
      share * 1e6 * result->seconds / count);
}

Plan PlanOfFlags() {
  Plan plan;
  const std::string op = absl::GetFlag(FLAGS_op);
  const std::string mode = absl::GetFlag(FLAGS_mode);
  if (op == "write") {
    plan.op = Op::kWrite;
  } else if (op == "read") {
    plan.op = Op::kRead;
  } else if (op != "send") {
    Die("fabric_loop: --op is send, write or read");
  }
  if (mode != "latency" && mode != "rate") {
    Die("fabric_loop: --mode is latency or rate");
  }
  plan.ping_pong = mode == "latency" && plan.op != Op::kRead;
  int depth = mode == "latency" ? 1 : absl::GetFlag(FLAGS_depth);
  if (plan.op == Op::kRead) {
    depth = std::min(depth, absl::GetFlag(FLAGS_read_depth));
  }
  if (depth < 1) Die("fabric_loop: --depth is at least 1");
  plan.depth = static_cast<uint64_t>(depth);
  plan.size = ParseSize(absl::GetFlag(FLAGS_size));
  return plan;
}

int Run() {
  const Plan plan = PlanOfFlags();
  int pipe_ends[2];
  if (pipe(pipe_ends) != 0) Die("fabric_loop: no pipe", true);
  const pid_t server = fork();
  if (server < 0) Die("fabric_loop: cannot fork", true);
  if (server == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    PinToCore(absl::GetFlag(FLAGS_server_core));
    End end(plan, /*client=*/false);
    end.ready_fd = pipe_ends[1];
    end.Listen();
    while (end.Poll()) {
    }
    _exit(0);
  }
  close(pipe_ends[1]);
  char ready;
  if (read(pipe_ends[0], &ready, 1) != 1) Die("fabric_loop: no server");
  PinToCore(absl::GetFlag(FLAGS_client_core));
  End end(plan, /*client=*/true);
  end.Connect();
  const uint64_t operations = absl::GetFlag(FLAGS_operations);
  Result result;
  if (operations > 0) {
    RunTo(&end, operations);
  } else {
    result.samples.reserve(kMaxSamples);
    RunFor(&end, kWarmupSeconds, &result);
    result.samples.clear();
    RunFor(&end, absl::GetFlag(FLAGS_runtime), &result);
  }
  kill(server, SIGKILL);
  waitpid(server, nullptr, 0);
  if (operations > 0) {
    std::printf("{\"operations\": %" PRIu64 "}\n", end.completed());
  } else {
    Print(plan, &result);
  }
  return 0;
}

}  // namespace
}  // namespace skiff::bench

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("fabric_loop --provider=tcp --op=send ...");
  absl::ParseCommandLine(argc, argv);
  return skiff::bench::Run();
}
