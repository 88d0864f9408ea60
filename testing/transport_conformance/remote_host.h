#ifndef SKIFF_TESTING_TRANSPORT_CONFORMANCE_REMOTE_HOST_H_
#define SKIFF_TESTING_TRANSPORT_CONFORMANCE_REMOTE_HOST_H_

#include <string>
#include <utility>
#include <vector>

#include "testing/transport_conformance/control_link.h"
#include "testing/transport_conformance/host.h"
#include "testing/transport_conformance/transport_factory.h"

namespace skiff::testing {

// The listening side in another process, perhaps on another machine, which runs
// ServeHost(). A control connection that breaks fails the test.
class RemoteHost final : public ConformanceHost {
 public:
  // Begins a test with a fresh world of the peer's factory of that name.
  // `link` has to outlive this.
  static absl::StatusOr<std::unique_ptr<RemoteHost>> Begin(
      ControlLink* link, const std::string& factory);
  ~RemoteHost() override;

  // The peer is about to go: nothing is asked of it any more.
  void Abandon() { abandoned_ = true; }

  absl::StatusOr<int> Listen(const ListenPlan& plan) override;
  std::string ListenAddress(int listener) override;
  std::vector<std::string> ListenAddresses(int listener) override;
  ListenerState StateOfListener(int listener) override;
  void CloseListener(int listener) override;
  int Connect(const std::string& address, const EndPlan& plan) override;
  void CancelConnect(int end) override;
  EndState State(int end) override;
  transport::Capabilities DeviceCapabilities(int end) override;
  void Disconnect(int end) override;
  void Destroy(int end) override;
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
  Posted Post(int end, const Operation& operation) override;
  Posted PostShared(int queue, const Operation& receive) override;
  void Flush(int end) override;
  std::vector<Arrived> Poll(int end) override;
  std::vector<Arrived> PollShared(int queue) override;
  void DropSharedReceives(int queue) override;
  bool Arm(int end) override;
  bool Woken(int end) override;
  std::vector<std::string> Violations() override;
  void Finish() override;

 private:
  explicit RemoteHost(ControlLink* link) : link_(link) {}

  // The answer of the method of that name; a default value if the connection
  // broke.
  template <typename Result, typename... Arguments>
  Result Call(const char* method, const Arguments&... arguments);
  template <typename... Arguments>
  void Run(const char* method, const Arguments&... arguments);
  absl::StatusOr<nlohmann::json> Ask(const char* method,
                                     nlohmann::json arguments);

  ControlLink* const link_;
  bool abandoned_ = false;
};

// Serves tests over `link` until the peer closes it.
absl::Status ServeHost(ControlLink* link,
                       const std::vector<TransportFactory*>& factories);

}  // namespace skiff::testing

#endif  // SKIFF_TESTING_TRANSPORT_CONFORMANCE_REMOTE_HOST_H_
