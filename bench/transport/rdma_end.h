#ifndef SKIFF_BENCH_TRANSPORT_RDMA_END_H_
#define SKIFF_BENCH_TRANSPORT_RDMA_END_H_

#include <array>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "bench/transport/workload.h"
#include "transport/transport.h"

namespace skiff::bench {

// An RdmaEndpoint that does its part of a workload, and the memory for it. Any
// failure but the end of the connection ends the program.
//
// The ends first tell each other where their memory is, the connecting one
// before the other (on iWARP it has to speak first).
class RdmaEnd final : public End, private transport::FdHandler {
 public:
  RdmaEnd(const Workload& workload, bool connecting);
  RdmaEnd(const RdmaEnd&) = delete;
  RdmaEnd& operator=(const RdmaEnd&) = delete;
  ~RdmaEnd() override;

  // For Connect or Accept; refer to this end.
  void FillOptions(transport::ConnectOptions* options);
  // The connection is there.
  void Start(std::unique_ptr<transport::RdmaEndpoint> endpoint);

  int Poll() override;
  absl::Status RunByEvents(transport::Reactor* reactor,
                           std::function<int()> step) override;
  bool idle() const override { return outstanding_ == 0; }
  transport::RdmaEndpoint* endpoint() const { return endpoint_.get(); }
  transport::CompletionQueue* queue() const { return queue_; }

  // Receives posted at all times.
  static constexpr uint32_t kReceives = 256;

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };

  void OnFdReady(uint32_t events) override;
  void StepUntilArmed();
  absl::Status Prepare(transport::RdmaEndpoint& endpoint);
  void OnCompletion(const transport::Completion& completion);
  void OnReceive();
  void OnHello();
  void LookAtMemory();
  void Begin();
  void FillPipe();
  bool PostOperation();
  void PostSend(size_t bytes);
  void SendHello();
  void PostReceives(transport::RdmaEndpoint& endpoint);

  uint8_t* sent_data() { return memory_.get(); }
  uint8_t* received_data() { return memory_.get() + area_; }

  const Workload workload_;
  const bool connecting_;
  const size_t area_;  // Bytes to send from, and as many to receive into.
  std::unique_ptr<uint8_t, Free> memory_;
  std::unique_ptr<transport::MemoryRegion> region_;
  std::unique_ptr<transport::RdmaEndpoint> endpoint_;
  transport::CompletionQueue* queue_ = nullptr;
  std::array<transport::Completion, 64> completions_;

  transport::Reactor* reactor_ = nullptr;  // When run by events.
  std::function<int()> step_;

  bool greeted_ = false;
  transport::RemoteBuffer peer_;
  bool posted_ = false;  // Something to flush.
  uint32_t receives_due_ = kReceives;
  uint32_t outstanding_ = 0;
  uint64_t received_ = 0;
  uint64_t allowed_ = kReceives;  // Messages the peer has receives for.
  uint8_t sequence_ = 0;          // Of the last WRITE to and fro.
};

}  // namespace skiff::bench

#endif  // SKIFF_BENCH_TRANSPORT_RDMA_END_H_
