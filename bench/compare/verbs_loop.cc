// The yardstick of the verbs transport: a reliable connection's queue pair,
// made by rdma_cm, with nothing between it and the loop that measures.
//
//   verbs_loop --address=192.168.77.1 --op=send --mode=latency --size=64
//
// Starts both ends itself, each on its core, and prints one line of JSON.

#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "bench/compare/loop.h"
#include "bench/compare/util.h"

ABSL_FLAG(std::string, address, "", "an RDMA device's, to listen on");
ABSL_FLAG(int, port, 7479, "to listen on");
ABSL_FLAG(int, signal_every, 16,
          "of so many SENDs or WRITEs the last asks for a completion");

namespace skiff::bench {
namespace {

constexpr int kResolveMilliseconds = 2000;
constexpr int kBacklog = 1;
// Soft-iWARP does not look at what comes while it accepts.
constexpr useconds_t kAcceptMicroseconds = 20000;
// Not 7, which Soft-RoCE takes for ever; of a peer that is not ready, 7 is
// that.
constexpr uint8_t kRetries = 6;
constexpr uint8_t kReceiverNotReadyRetries = 7;
constexpr int kBatch = 64;
constexpr unsigned int kAccess =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
// The wr_id of a receive; of another, how many operations it stands for.
constexpr uint64_t kReceived = 0;

[[noreturn]] ABSL_ATTRIBUTE_NOINLINE void Failed(const char* what) {
  Die(std::string("verbs_loop: ") + what, true);
}

inline void Check(bool good, const char* what) {
  if (!good) Failed(what);
}

sockaddr_in Address() {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(absl::GetFlag(FLAGS_port)));
  if (inet_pton(AF_INET, absl::GetFlag(FLAGS_address).c_str(),
                &address.sin_addr) != 1) {
    Die("verbs_loop: --address is an IPv4 address");
  }
  return address;
}

// A LoopEnd's.
class VerbsWire {
 public:
  VerbsWire(const LoopPlan& plan, const LoopMemory& memory, bool /*client*/)
      : plan_(plan),
        memory_(memory),
        signal_every_(plan.ping_pong
                          ? 1
                          : static_cast<uint64_t>(std::max(
                                1, absl::GetFlag(FLAGS_signal_every)))) {}

  void Listen(int ready_fd) {
    rdma_cm_id* listener = NewId();
    sockaddr_in address = Address();
    Check(rdma_bind_addr(listener, reinterpret_cast<sockaddr*>(&address)) == 0,
          "rdma_bind_addr");
    Check(rdma_listen(listener, kBacklog) == 0, "rdma_listen");
    const char ready = 1;
    if (write(ready_fd, &ready, 1) != 1) Die("cannot write to the pipe", true);
    Check(rdma_get_request(listener, &id_) == 0, "rdma_get_request");
    Open();
    rdma_conn_param param = Parameters();
    Check(rdma_accept(id_, &param) == 0, "rdma_accept");
  }

  void Connect() {
    id_ = NewId();
    sockaddr_in address = Address();
    Check(rdma_resolve_addr(id_, nullptr, reinterpret_cast<sockaddr*>(&address),
                            kResolveMilliseconds) == 0,
          "rdma_resolve_addr");
    Check(rdma_resolve_route(id_, kResolveMilliseconds) == 0,
          "rdma_resolve_route");
    Open();
    rdma_conn_param param = Parameters();
    Check(rdma_connect(id_, &param) == 0, "rdma_connect");
    usleep(kAcceptMicroseconds);
  }

  LoopRemote local() const {
    return {reinterpret_cast<uintptr_t>(memory_.sent), region_->rkey};
  }

  ABSL_ATTRIBUTE_ALWAYS_INLINE bool Send(size_t bytes) {
    Stage(IBV_WR_SEND, memory_.sent, bytes, signal_every_);
    return true;
  }

  ABSL_ATTRIBUTE_ALWAYS_INLINE bool Write(LoopRemote to) {
    ibv_send_wr* const request =
        Stage(IBV_WR_RDMA_WRITE, memory_.sent, plan_.size, signal_every_);
    request->wr.rdma.remote_addr = to.address;
    request->wr.rdma.rkey = static_cast<uint32_t>(to.key);
    return true;
  }

  // All signalled, as Skiff's.
  ABSL_ATTRIBUTE_ALWAYS_INLINE bool Read(LoopRemote from) {
    ibv_send_wr* const request =
        Stage(IBV_WR_RDMA_READ, memory_.received, plan_.size, 1);
    request->wr.rdma.remote_addr = from.address;
    request->wr.rdma.rkey = static_cast<uint32_t>(from.key);
    return true;
  }

  // What is staged, in one call.
  ABSL_ATTRIBUTE_ALWAYS_INLINE void Flush() {
    if (staged_ == 0) return;
    ibv_send_wr* const last = requests_.data() + staged_ - 1;
    // The one behind waits for nothing else.
    if ((last->send_flags & IBV_SEND_SIGNALED) == 0) Signal(last);
    ibv_send_wr* const after_last = last->next;
    last->next = nullptr;
    ibv_send_wr* bad = nullptr;
    errno = ibv_post_send(id_->qp, requests_.data(), &bad);
    Check(errno == 0, "ibv_post_send");
    last->next = after_last;
    staged_ = 0;
  }

  ABSL_ATTRIBUTE_ALWAYS_INLINE void Receive() {
    ibv_sge to = {reinterpret_cast<uintptr_t>(memory_.received),
                  static_cast<uint32_t>(memory_.area), region_->lkey};
    ibv_recv_wr request = {};
    request.wr_id = kReceived;
    request.sg_list = &to;
    request.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    errno = ibv_post_recv(id_->qp, &request, &bad);
    Check(errno == 0, "ibv_post_recv");
  }

  template <typename Sent, typename Received>
  ABSL_ATTRIBUTE_ALWAYS_INLINE bool Poll(Sent sent, Received received) {
    ibv_wc done[kBatch];
    const int count = ibv_poll_cq(queue_, kBatch, done);
    Check(count >= 0, "ibv_poll_cq");
    for (int i = 0; i < count; ++i) {
      if (done[i].status == IBV_WC_WR_FLUSH_ERR) return false;
      if (done[i].status != IBV_WC_SUCCESS) {
        Die(std::string("verbs_loop: an operation failed: ") +
            ibv_wc_status_str(done[i].status));
      }
      if (done[i].wr_id == kReceived) {
        received();
      } else {
        sent(done[i].wr_id);
      }
    }
    return true;
  }

 private:
  // One whose calls wait for what they ask for.
  static rdma_cm_id* NewId() {
    rdma_cm_id* id = nullptr;
    Check(rdma_create_id(nullptr, &id, nullptr, RDMA_PS_TCP) == 0,
          "rdma_create_id");
    return id;
  }

  rdma_conn_param Parameters() const {
    rdma_conn_param param = {};
    param.responder_resources = static_cast<uint8_t>(plan_.read_depth);
    param.initiator_depth = static_cast<uint8_t>(plan_.read_depth);
    param.retry_count = kRetries;
    param.rnr_retry_count = kReceiverNotReadyRetries;
    return param;
  }

  void Open() {
    const uint32_t sends = plan_.send_queue();
    const auto entries = static_cast<int>(sends + kLoopReceives);
    queue_ = ibv_create_cq(id_->verbs, entries, nullptr, nullptr, 0);
    Check(queue_ != nullptr, "ibv_create_cq");
    ibv_qp_init_attr attr = {};
    attr.send_cq = queue_;
    attr.recv_cq = queue_;
    attr.qp_type = IBV_QPT_RC;
    attr.cap = {sends, kLoopReceives, 1, 1,
                static_cast<uint32_t>(plan_.inline_bytes)};
    Check(rdma_create_qp(id_, nullptr, &attr) == 0, "rdma_create_qp");
    region_ = ibv_reg_mr(id_->pd, memory_.sent, 2 * memory_.area, kAccess);
    Check(region_ != nullptr, "ibv_reg_mr");
    requests_.resize(sends);
    pieces_.resize(sends);
    for (size_t i = 0; i < sends; ++i) {
      requests_[i].sg_list = &pieces_[i];
      requests_[i].num_sge = 1;
      requests_[i].next = i + 1 < sends ? &requests_[i + 1] : nullptr;
    }
    for (uint64_t i = 0; i < kLoopReceives; ++i) Receive();
  }

  ABSL_ATTRIBUTE_ALWAYS_INLINE ibv_send_wr* Stage(ibv_wr_opcode opcode,
                                                  const uint8_t* data,
                                                  size_t bytes,
                                                  uint64_t signal_every) {
    ibv_send_wr* const request = requests_.data() + staged_++;
    *request->sg_list = {reinterpret_cast<uintptr_t>(data),
                         static_cast<uint32_t>(bytes), region_->lkey};
    request->opcode = opcode;
    request->send_flags =
        bytes <= plan_.inline_bytes && opcode != IBV_WR_RDMA_READ
            ? IBV_SEND_INLINE
            : 0;
    if (++unsignalled_ >= signal_every) Signal(request);
    return request;
  }

  void Signal(ibv_send_wr* request) {
    request->send_flags |= IBV_SEND_SIGNALED;
    request->wr_id = unsignalled_;
    unsignalled_ = 0;
  }

  const LoopPlan plan_;
  const LoopMemory memory_;
  const uint64_t signal_every_;
  rdma_cm_id* id_ = nullptr;
  ibv_cq* queue_ = nullptr;
  ibv_mr* region_ = nullptr;
  // Each with its piece and the next.
  std::vector<ibv_send_wr> requests_;
  std::vector<ibv_sge> pieces_;
  size_t staged_ = 0;
  uint64_t unsignalled_ = 0;  // Of those before the next that is signalled.
};

}  // namespace
}  // namespace skiff::bench

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("verbs_loop --address=192.168.77.1 ...");
  absl::ParseCommandLine(argc, argv);
  skiff::bench::RunLoop<skiff::bench::VerbsWire>();
}
