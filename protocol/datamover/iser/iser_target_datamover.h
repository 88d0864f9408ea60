#ifndef SKIFF_PROTOCOL_DATAMOVER_ISER_ISER_TARGET_DATAMOVER_H_
#define SKIFF_PROTOCOL_DATAMOVER_ISER_ISER_TARGET_DATAMOVER_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "protocol/datamover/data_out.h"
#include "protocol/datamover/iser/iser_channel.h"
#include "protocol/datamover/iser/iser_datamover.h"
#include "protocol/datamover/task_chunks.h"

namespace skiff::protocol {

// The target's half of the iSER data model: data-in by RDMA Write, data-out by
// RDMA Read, both between SCSI's memory and the buffers that commands
// advertise. Immediate and unsolicited data are copied to where GetData says,
// and wait in a staging buffer until it does. They come before any data that
// are read (DataOutState).
class IserTargetDatamover final : public IserDatamoverOf<TargetDatamover>,
                                  private IserChannel::Handler {
 public:
  // Buffers while login runs: one PDU at a time in each direction, and one to
  // spare.
  static constexpr uint32_t kLoginReceives = 2;
  static constexpr uint32_t kLoginSends = 2;

  IserTargetDatamover(IserMemory* memory, const IserDatamoverOptions& options);
  ~IserTargetDatamover() override;

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

  // TargetDatamover:
  void SetClient(TargetDatamoverClient* client, uint32_t max_tasks) override;
  absl::Status AllocateConnectionResources(
      const Parameters& parameters) override;
  absl::Status ReserveConnectionResources(
      const Parameters& parameters,
      absl::Span<const TargetDatamover* const> older) override;
  void EnableDatamover(const Parameters& parameters) override;
  void SendControl(const uint8_t* bhs, absl::Span<const uint8_t> data) override;
  void PutData(TaskSlot slot, uint32_t offset, absl::Span<const uint8_t> from,
               bool notify) override;
  bool PutDataAndResponse(TaskSlot slot, uint32_t offset,
                          absl::Span<const uint8_t> from,
                          const ScsiResponsePdu& response,
                          absl::Span<const uint8_t> sense) override;
  Progress GetData(TaskSlot slot, uint32_t offset,
                   absl::Span<uint8_t> to) override;
  void CancelTransfers(TaskSlot slot) override;
  Progress DeallocateTaskResources(TaskSlot slot) override;
  void ConnectionTerminate() override;
  bool congested() const override { return channel_.congested(); }

 private:
  struct Task : DataOutState {
    uint32_t initiator_task_tag = kReservedTag;
    bool live = false;
    bool deallocated = false;   // TaskDone is due once `references` is zero.
    uint32_t references = 0;    // Operations that have not ended.
    IserControlHeader buffers;  // What the command advertised.

    // GetData is over when nothing below `get_end` is missing.
    bool get_failed = false;
    uint32_t reads = 0;   // RDMA Reads that have not ended.
    uint32_t writes = 0;  // RDMA Writes that have not ended.
    // To be told when no other write of the task refers to its memory.
    uint32_t lost_puts = 0;
  };

  absl::StatusOr<uint32_t> ReceivesFor(const Parameters& parameters) const;

  // IserChannel::Handler:
  void OnMessage(const IserMessage& message,
                 const transport::RemoteKey* invalidated) override;
  void OnBadMessage(const absl::Status& why) override;
  void OnDone(TaskSlot slot, IserWork work, bool ok) override;
  void OnBroken(const absl::Status& why) override;
  uint32_t TagOf(TaskSlot slot) const override;

  void OnCommand(const IserMessage& message);
  bool BeginTask(TaskSlot slot, const IserMessage& message,
                 const CommandLengths& lengths);
  const char* CheckCommand(const IserMessage& message) const;
  void OnDataOut(const IserMessage& message);
  void OnHello(const IserHello& hello);
  void DataError(TaskSlot slot, const DataFault& fault);
  void MemoryError(TaskSlot slot, const absl::Status& why);
  bool Store(TaskSlot slot, absl::Span<const uint8_t> data);
  void Land(TaskSlot slot, absl::Span<const uint8_t> data);
  void PlaceStaged(Task* task);
  bool ReadRest(TaskSlot slot);
  bool WriteData(TaskSlot slot, uint32_t offset, absl::Span<const uint8_t> from,
                 bool notify);
  void SendResponse(TaskSlot slot, const ScsiResponsePdu& response,
                    absl::Span<const uint8_t> sense);
  bool SendSense(TaskSlot slot, const ScsiResponsePdu& response,
                 absl::Span<const uint8_t> sense, const uint32_t* invalidated);
  void OnReadDone(TaskSlot slot, bool ok);
  void OnPutDone(TaskSlot slot, bool ok);
  void EndGet(TaskSlot slot);
  void TellLostPuts(TaskSlot slot);

  Task& At(TaskSlot slot) { return tasks_[slot]; }

  Staging staging_;
  IserChannel channel_;
  const transport::Access get_access_;  // Of the sinks of RDMA Reads.
  TargetDatamoverClient* client_ = nullptr;
  Parameters parameters_;
  bool enabled_ = false;
  bool pdus_came_ = false;  // In full feature phase.
  uint32_t max_tasks_ = 0;
  TaskChunks<Task, 16> tasks_;
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_DATAMOVER_ISER_ISER_TARGET_DATAMOVER_H_
