#ifndef SKIFF_PROTOCOL_DATAMOVER_ISER_ISER_INITIATOR_DATAMOVER_H_
#define SKIFF_PROTOCOL_DATAMOVER_ISER_ISER_INITIATOR_DATAMOVER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "protocol/datamover/iser/iser_channel.h"
#include "protocol/datamover/iser/iser_datamover.h"

namespace skiff::protocol {

// The initiator's half of the iSER data model: commands go out with the keys of
// their buffers, which the target reads and writes by RDMA. How a buffer gets
// its key, and loses it before its command completes, is in docs/iser.md.
class IserInitiatorDatamover final : public IserDatamoverOf<InitiatorDatamover>,
                                     private IserChannel::Handler {
 public:
  IserInitiatorDatamover(IserMemory* memory,
                         const IserDatamoverOptions& options);
  ~IserInitiatorDatamover() override;

  // IserDatamover:
  void SetEndpointObserver(EndpointObserver* observer) override {
    channel_.set_observer(observer);
  }
  void SetTrace(std::unique_ptr<IserTrace> trace) override {
    channel_.SetTrace(std::move(trace));
  }
  absl::Status Prepare(transport::RdmaEndpoint* endpoint) override;
  void Connected(std::unique_ptr<transport::RdmaEndpoint> endpoint) override {
    channel_.Connected(std::move(endpoint));
  }
  transport::RdmaEndpoint* endpoint() const override {
    return channel_.endpoint();
  }
  void OnCompletion(const transport::Completion& completion) override {
    channel_.OnCompletion(completion);
  }
  void Flush() override { channel_.Flush(); }
  void StopReceiving() override { channel_.StopReceiving(); }
  bool has_output() const override { return channel_.has_output(); }
  bool in_flight() const override { return channel_.in_flight(); }
  ConnectionCounters counters() const override { return channel_.counters(); }

  // InitiatorDatamover:
  void SetClient(InitiatorDatamoverClient* client, uint32_t max_tasks) override;
  void EnableDatamover(const Parameters& parameters) override;
  void SendControl(const uint8_t* bhs, absl::Span<const uint8_t> data) override;
  absl::Status SendCommand(const OutgoingCommand& command) override;
  Progress DeallocateTaskResources(TaskSlot slot) override;
  void ConnectionTerminate() override;
  bool congested() const override {
    return channel_.congested() || awaiting_hello_reply_;
  }

 private:
  // The caller's memory for one direction of a command.
  struct Data {
    const iovec* iov = nullptr;
    int count = 0;
    uint32_t length = 0;
    // Where the target finds it, if it has a key: the caller's memory, or a
    // copy of it.
    uint8_t* memory = nullptr;
    IserMemory::Pin pin;
    std::unique_ptr<uint8_t[]> copy;
    // Kept from command to command.
    std::unique_ptr<transport::MemoryWindow> window;
    bool needs_window = false;
    bool bound = false;  // The window's key is in use.

    void Reset(const iovec* list, int entries, uint32_t bytes) {
      iov = list;
      count = entries;
      length = bytes;
      memory = nullptr;
      needs_window = bound = false;
    }
  };

  struct Task {
    uint32_t initiator_task_tag = kReservedTag;
    bool live = false;
    bool posted = false;         // The command is on its way.
    bool answered = false;       // The target does no more for it.
    bool deallocated = false;    // TaskDone is due once `references` is zero.
    bool keys_may_last = false;  // One was not invalidated when it had to be.
    uint32_t references = 0;     // Operations that have not ended.
    uint32_t unsolicited = 0;    // So much of `out` is sent unasked.
    Data out;
    Data in;
  };

  // What the target's RDMA moved.
  struct Moved {
    uint32_t out = 0;
    uint32_t in = 0;
  };

  // IserChannel::Handler:
  void OnMessage(const IserMessage& message,
                 const transport::RemoteKey* invalidated) override;
  void OnBadMessage(const absl::Status& why) override;
  void OnDone(TaskSlot slot, IserWork work, bool ok) override;
  void OnBroken(const absl::Status& why) override;
  uint32_t TagOf(TaskSlot slot) const override {
    return tasks_[slot].initiator_task_tag;
  }
  void BeforeTraced(const IserMessage& message, IserTrace* trace) override;

  void OnHelloReply(const IserHelloReply& reply);
  void OnResponse(const IserMessage& message,
                  const transport::RemoteKey* invalidated);
  Moved MovedBy(const Task& task, const ScsiResponsePdu& response) const;
  TaskSlot Find(uint32_t tag) const;
  void Refuse(const uint8_t* bhs, const char* why);
  void Fail(const char* why);

  absl::Status Register(Data* data, transport::Access access);
  void Bind(TaskSlot slot, Data* data, transport::Access access);
  void Forget(Task* task);
  transport::RemoteBuffer RemoteOf(const Data& data) const;
  uint32_t MaxDataSegment() const;
  uint32_t WorthSending(uint32_t length, uint32_t most) const;
  void Begin(const OutgoingCommand& command, Task* task);
  void AdvertiseOut(TaskSlot slot, IserOutgoing* message);
  void AdvertiseIn(TaskSlot slot, IserOutgoing* message);
  void AddData(const Data& data, uint32_t offset, uint32_t length,
               IserOutgoing* message, transport::Sge* place) const;
  void SendUnsolicited(TaskSlot slot, uint32_t offset, uint32_t end);
  void Withdraw(TaskSlot slot, Data* data);
  void Finish(Task* task);

  IserChannel channel_;
  InitiatorDatamoverClient* client_ = nullptr;
  Parameters parameters_;
  const bool windows_;  // The device has them.
  const size_t eager_data_bytes_;
  bool enabled_ = false;
  bool awaiting_hello_reply_ = false;
  std::vector<Task> tasks_;
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_DATAMOVER_ISER_ISER_INITIATOR_DATAMOVER_H_
