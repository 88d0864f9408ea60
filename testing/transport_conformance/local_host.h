#ifndef SKIFF_TESTING_TRANSPORT_CONFORMANCE_LOCAL_HOST_H_
#define SKIFF_TESTING_TRANSPORT_CONFORMANCE_LOCAL_HOST_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "testing/transport_conformance/guarded_buffer.h"
#include "testing/transport_conformance/host.h"
#include "testing/transport_conformance/transport_factory.h"
#include "transport/byte_stream.h"

namespace skiff::testing {

// A host of this process.
class LocalHost final : public ConformanceHost {
 public:
  LocalHost(TransportWorld* world, Side side, const ConformanceScale& scale);
  ~LocalHost() override;

  absl::StatusOr<int> Listen(const ListenPlan& plan) override;
  std::string ListenAddress(int listener) override;
  std::vector<std::string> ListenAddresses(int listener) override;
  ListenerState StateOfListener(int listener) override;
  void CloseListener(int listener) override;
  int Connect(const std::string& address, const EndPlan& plan) override;
  void CancelConnect(int number) override;
  EndState State(int number) override;
  transport::Capabilities DeviceCapabilities(int end) override;
  void Disconnect(int number) override;
  void Destroy(int number) override;
  int NewQueue(uint32_t entries, uint32_t receives) override;

  absl::StatusOr<int> NewBuffer(int end, const BufferSpec& spec) override;
  transport::RemoteBuffer Remote(int buffer) override;
  void Deregister(int buffer) override;
  void Fill(int buffer, size_t offset, size_t length, uint64_t seed) override;
  int64_t Mismatch(int buffer, size_t offset, size_t length, uint64_t seed,
                   size_t skip) override;
  absl::StatusOr<int> NewWindow(int end) override;
  transport::RemoteKey KeyOfWindow(int window) override;
  void DestroyWindow(int window) override;

  Posted Post(int number, const Operation& operation) override;
  Posted PostShared(int number, const Operation& receive) override;
  void Flush(int end) override;
  std::vector<Arrived> Poll(int number) override;
  std::vector<Arrived> PollShared(int queue) override;
  void DropSharedReceives(int queue) override;
  bool Arm(int number) override;
  bool Woken(int number) override;
  std::vector<std::string> Violations() override;
  void Finish() override;

  // What tests of one process need besides.
  transport::ByteStream* stream(int end);
  transport::RdmaEndpoint* endpoint(int end);
  transport::MemoryRegion* region(int buffer);
  // Counts a completion that the test polled itself.
  void Account(const transport::Completion& completion) { Check(completion); }
  // The memory of a buffer.
  char* data(int buffer);

 private:
  struct Buffer;
  struct End;
  struct Listener;
  struct Queue;
  class Waker;

  // The accepted posts of one end, or of one shared queue, that have not
  // completed.
  struct Ledger {
    uint32_t next_id = 0;
    std::map<uint32_t, transport::OperationKind> outstanding;
    std::deque<uint32_t> sends;  // In the order of posting.
    std::deque<uint32_t> receives;
    std::vector<Arrived> arrived;
  };

  void FillOptions(End* end, transport::ConnectOptions* options);
  absl::StatusOr<transport::EndpointResources> MakeResources(
      End* end, transport::MemoryDomain& domain);
  absl::Status Prepare(End* end, transport::RdmaEndpoint& endpoint);
  std::vector<uint8_t> PrivateDataOf(End* end,
                                     transport::RdmaEndpoint& endpoint);
  void OnMade(End* end, absl::StatusOr<transport::Endpoint> made);
  void OnRequest(Listener* listener,
                 std::unique_ptr<transport::ConnectionRequest> request);
  End* NewEnd(const EndPlan& plan, transport::Reactor* reactor);
  int AddBuffer(const BufferSpec& spec);
  absl::Status RegisterBuffer(int buffer, transport::MemoryDomain* domain,
                              transport::Access access);

  std::vector<transport::Sge> Sges(const std::vector<Piece>& pieces);
  transport::PostResult PostKind(End* end, transport::OperationId id,
                                 const Operation& operation);
  void Drain(transport::CompletionQueue* queue);
  void Check(const transport::Completion& completion);
  void CheckOrder(Ledger* ledger, const Arrived& arrived,
                  const std::string& who);
  void CheckStatus(const transport::Completion& completion,
                   const std::string& who);
  transport::CompletionQueue* QueueOf(const End& end);
  void Violation(const std::string& text);
  // Of callbacks: they must not come from inside a call.
  void CheckNotNested(const char* callback);
  std::string Name(const End& end) const;
  size_t Outstanding() const;

  TransportWorld* const world_;
  const Side side_;
  const ConformanceScale scale_;
  int calls_ = 0;  // Calls of the transport that we are in.
  std::vector<std::string> violations_;
  // Destroyed in reverse: ends, then queues, windows and memory.
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::vector<std::unique_ptr<transport::MemoryWindow>> windows_;
  std::vector<std::unique_ptr<Queue>> queues_;
  std::vector<std::unique_ptr<End>> ends_;
  std::vector<std::unique_ptr<Listener>> listeners_;
};

}  // namespace skiff::testing

#endif  // SKIFF_TESTING_TRANSPORT_CONFORMANCE_LOCAL_HOST_H_
