// The yardstick of the libfabric transport: connected endpoints (FI_EP_MSG)
// with nothing between them and the loop that measures, in the manner of
// fabtests.
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
#include <unistd.h>

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

ABSL_FLAG(std::string, provider, "tcp", "of libfabric");
ABSL_FLAG(std::string, address, "127.0.0.1", "to listen on");
ABSL_FLAG(std::string, port, "7477", "to listen on");
ABSL_FLAG(bool, wait_object, false, "give the queues a descriptor to sleep on");
ABSL_FLAG(bool, delivery_complete, false,
          "WRITEs complete once the peer has the data, as Skiff's do");

namespace skiff::bench {
namespace {

void Check(ssize_t result, const char* what) {
  if (result < 0) {
    Die(std::string("fabric_loop: ") + what + ": " +
        fi_strerror(static_cast<int>(-result)));
  }
}

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

// A LoopEnd's.
class FabricWire {
 public:
  FabricWire(const LoopPlan& plan, const LoopMemory& memory, bool client)
      : plan_(plan),
        memory_(memory),
        client_(client),
        delivery_complete_(absl::GetFlag(FLAGS_delivery_complete)) {}

  void Listen(int ready_fd) {
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
  }

  LoopRemote local() const { return {base_, fi_mr_key(region_)}; }

  ABSL_ATTRIBUTE_ALWAYS_INLINE bool Send(size_t bytes) {
    if (bytes > plan_.inline_bytes) {
      return Posted(fi_send(endpoint_, memory_.sent, bytes, fi_mr_desc(region_),
                            0, NextSend()));
    }
    const iovec piece = {memory_.sent, bytes};
    void* descriptor = fi_mr_desc(region_);
    fi_msg message = {};
    message.msg_iov = &piece;
    message.desc = &descriptor;
    message.iov_count = 1;
    message.context = NextSend();
    return Posted(fi_sendmsg(endpoint_, &message, FI_INJECT | FI_COMPLETION));
  }

  ABSL_ATTRIBUTE_ALWAYS_INLINE bool Write(LoopRemote to) {
    if (delivery_complete_) {
      target_.addr = to.address;
      target_.key = to.key;
      write_.context = NextSend();
      return Posted(fi_writemsg(endpoint_, &write_,
                                FI_COMPLETION | FI_DELIVERY_COMPLETE));
    }
    return Posted(fi_write(endpoint_, memory_.sent, plan_.size,
                           fi_mr_desc(region_), 0, to.address, to.key,
                           NextSend()));
  }

  ABSL_ATTRIBUTE_ALWAYS_INLINE bool Read(LoopRemote from) {
    return Posted(fi_read(endpoint_, memory_.received, plan_.size,
                          fi_mr_desc(region_), 0, from.address, from.key,
                          NextSend()));
  }

  void Flush() {}

  ABSL_ATTRIBUTE_ALWAYS_INLINE void Receive() {
    Check(fi_recv(endpoint_, memory_.received, memory_.area,
                  fi_mr_desc(region_), 0, NextReceive()),
          "fi_recv");
  }

  template <typename Sent, typename Received>
  ABSL_ATTRIBUTE_ALWAYS_INLINE bool Poll(Sent sent, Received received) {
    fi_cq_msg_entry entries[64];
    const ssize_t count = fi_cq_read(queue_, entries, 64);
    if (count < 0) return count == -FI_EAGAIN || Failed(count);
    for (ssize_t i = 0; i < count; ++i) {
      if ((entries[i].flags & FI_RECV) != 0) {
        received();
      } else {
        sent(1);
      }
    }
    return true;
  }

 private:
  void OpenFabric(fi_info* info) {
    Check(fi_fabric(info->fabric_attr, &fabric_, nullptr), "fi_fabric");
    fi_eq_attr events = {};
    events.wait_obj = FI_WAIT_UNSPEC;
    Check(fi_eq_open(fabric_, &events, &events_, nullptr), "fi_eq_open");
  }

  void OpenEndpoint(fi_info* info) {
    info->tx_attr->size = plan_.send_queue();
    info->rx_attr->size = kLoopReceives;
    Check(fi_domain(fabric_, info, &domain_, nullptr), "fi_domain");
    fi_cq_attr queue = {};
    queue.size = info->tx_attr->size + info->rx_attr->size;
    queue.format = FI_CQ_FORMAT_MSG;
    queue.wait_obj =
        absl::GetFlag(FLAGS_wait_object) ? FI_WAIT_FD : FI_WAIT_NONE;
    Check(fi_cq_open(domain_, &queue, &queue_, nullptr), "fi_cq_open");
    const uint64_t access = FI_SEND | FI_RECV | FI_READ | FI_WRITE |
                            FI_REMOTE_READ | FI_REMOTE_WRITE;
    Check(fi_mr_reg(domain_, memory_.sent, 2 * memory_.area, access, 0,
                    client_ ? 1 : 2, 0, &region_, nullptr),
          "fi_mr_reg");
    const bool virtual_addresses =
        (info->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0;
    base_ = virtual_addresses ? reinterpret_cast<uintptr_t>(memory_.sent) : 0;
    Check(fi_endpoint(domain_, info, &endpoint_, nullptr), "fi_endpoint");
    Check(fi_ep_bind(endpoint_, &events_->fid, 0), "fi_ep_bind");
    Check(fi_ep_bind(endpoint_, &queue_->fid, FI_TRANSMIT | FI_RECV),
          "fi_ep_bind");
    Check(fi_enable(endpoint_), "fi_enable");
    sends_.resize(info->tx_attr->size);
    receives_.resize(info->rx_attr->size);
    next_send_ = sends_.data();
    next_receive_ = receives_.data();
    written_ = {memory_.sent, plan_.size};
    descriptor_ = fi_mr_desc(region_);
    target_.len = plan_.size;
    write_.msg_iov = &written_;
    write_.desc = &descriptor_;
    write_.iov_count = 1;
    write_.rma_iov = &target_;
    write_.rma_iov_count = 1;
    for (uint64_t i = 0; i < kLoopReceives; ++i) Receive();
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
  fi_context2* NextSend() { return Next(&sends_, &next_send_); }
  fi_context2* NextReceive() { return Next(&receives_, &next_receive_); }
  ABSL_ATTRIBUTE_ALWAYS_INLINE static fi_context2* Next(
      std::vector<fi_context2>* of, fi_context2** next) {
    fi_context2* const taken = *next;
    *next = taken + 1 == of->data() + of->size() ? of->data() : taken + 1;
    return taken;
  }

  static bool Posted(ssize_t result) {
    if (result == -FI_EAGAIN) return false;
    Check(result, "an operation");
    return true;
  }

  // False if the peer has gone.
  ABSL_ATTRIBUTE_NOINLINE bool Failed(ssize_t result) {
    if (result != -FI_EAVAIL) Check(result, "fi_cq_read");
    fi_cq_err_entry error = {};
    Check(fi_cq_readerr(queue_, &error, 0), "fi_cq_readerr");
    if (error.err != FI_ECANCELED) Check(-error.err, "an operation failed");
    return false;
  }

  const LoopPlan plan_;
  const LoopMemory memory_;
  const bool client_;
  const bool delivery_complete_;
  uint64_t base_ = 0;
  fid_fabric* fabric_ = nullptr;
  fid_eq* events_ = nullptr;
  fid_domain* domain_ = nullptr;
  fid_cq* queue_ = nullptr;
  fid_mr* region_ = nullptr;
  fid_ep* endpoint_ = nullptr;
  std::vector<fi_context2> sends_;
  std::vector<fi_context2> receives_;
  fi_context2* next_send_ = nullptr;
  fi_context2* next_receive_ = nullptr;
  // Of a WRITE that completes once the peer has the data.
  iovec written_ = {};
  void* descriptor_ = nullptr;
  fi_rma_iov target_ = {};
  fi_msg_rma write_ = {};
};

}  // namespace
}  // namespace skiff::bench

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("fabric_loop --provider=tcp --op=send ...");
  absl::ParseCommandLine(argc, argv);
  skiff::bench::RunLoop<skiff::bench::FabricWire>();
}
