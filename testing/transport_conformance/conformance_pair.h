#ifndef SKIFF_TESTING_TRANSPORT_CONFORMANCE_CONFORMANCE_PAIR_H_
#define SKIFF_TESTING_TRANSPORT_CONFORMANCE_CONFORMANCE_PAIR_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "gtest/gtest.h"
#include "testing/transport_conformance/host.h"
#include "testing/transport_conformance/local_host.h"
#include "testing/transport_conformance/transport_factory.h"

namespace skiff::testing {

// Registered memory of one end.
struct MemoryHandle {
  ConformanceHost* host = nullptr;
  int id = -1;
  size_t size = 0;

  Piece Part(size_t offset, size_t length) const {
    return {id, offset, length};
  }
  Piece All() const { return {id, 0, size}; }
  transport::RemoteBuffer Remote(size_t offset = 0) const {
    transport::RemoteBuffer remote = host->Remote(id);
    remote.address += offset;
    return remote;
  }
  void Fill(uint64_t seed) const { host->Fill(id, 0, size, seed); }
  void FillPart(size_t offset, size_t length, uint64_t seed) const {
    host->Fill(id, offset, length, seed);
  }
};

// One end of a connection, in the words of the tests.
class EndHandle {
 public:
  EndHandle() = default;
  EndHandle(ConformanceHost* host, int number) : host_(host), number_(number) {}

  ConformanceHost* host() const { return host_; }
  int number() const { return number_; }
  EndState State() const { return host_->State(number_); }
  const transport::Capabilities& capabilities() const { return capabilities_; }
  void LearnCapabilities() { capabilities_ = State().capabilities; }

  MemoryHandle Memory(size_t size,
                      transport::Access access = transport::Access::kLocal,
                      size_t misalignment = 0) const;
  MemoryHandle Unregistered(size_t size) const;

  Posted Receive(const std::vector<Piece>& to);
  // These are flushed at once.
  Posted Send(const std::vector<Piece>& from);
  Posted SendWithInvalidate(const std::vector<Piece>& from,
                            transport::RemoteKey key);
  Posted Read(const std::vector<Piece>& to, transport::RemoteBuffer from);
  Posted Write(const std::vector<Piece>& from, transport::RemoteBuffer to);
  Posted Bind(int window, const MemoryHandle& memory, size_t offset,
              size_t length, transport::Access access);
  Posted Invalidate(transport::RemoteKey key);
  Posted Post(const Operation& operation) {
    return host_->Post(number_, operation);
  }
  void Flush() { host_->Flush(number_); }
  void Disconnect() { host_->Disconnect(number_); }
  void Destroy() { host_->Destroy(number_); }

  // Takes what completed; the completions are kept until they are asked for.
  void Poll();
  bool Has(uint32_t id) const { return arrived_.count(id) > 0; }
  const std::map<uint32_t, Arrived>& arrived() const { return arrived_; }
  // Of RECEIVEs from a shared queue, in the order of arrival.
  const std::vector<Arrived>& shared_arrived() const { return shared_arrived_; }

 private:
  Posted PostAndFlush(const Operation& operation);

  ConformanceHost* host_ = nullptr;
  int number_ = -1;
  transport::Capabilities capabilities_;
  std::map<uint32_t, Arrived> arrived_;
  std::vector<Arrived> shared_arrived_;
};

// The fixture of every test: a world with two hosts, and usually a connection
// between them. What holds always is checked when the test ends.
class ConformancePair : public ::testing::TestWithParam<TransportFactory*> {
 protected:
  void SetUp() override;
  void TearDown() override;
  // New hosts in the same world: nothing of what the test made is left.
  void RenewHosts();

  TransportFactory& factory() const { return *GetParam(); }
  const ConformanceScale& scale() const { return scale_; }
  const ExpectedCapabilities& expected() const { return expected_; }
  TransportWorld& world() { return *world_; }
  ConformanceHost& client_host() { return *client_host_; }
  ConformanceHost& server_host() { return *server_host_; }

  // Listens as `server` says, connects as `client` says, and waits; ends the
  // test as failed if that fails. Then client() and server() are the ends.
  void Connect(const EndPlan& client = {}, const EndPlan& server = {});
  // Another connection through the listener of Connect(), or through a new one
  // with that plan.
  std::pair<EndHandle, EndHandle> ConnectAnother(const EndPlan& client = {},
                                                 const EndPlan& server = {});
  EndHandle& client() { return client_; }
  EndHandle& server() { return server_; }

  // Waits for something that has to happen; says whether it did.
  bool Wait(absl::FunctionRef<bool()> done);
  // Lets things happen that should not.
  void Quiet();
  // The completion of an accepted post; fails the test if it does not come.
  // `what` is for the message.
  Arrived Await(EndHandle& end, const Posted& posted, const char* what);
  // The same, and expects success.
  Arrived Succeed(EndHandle& end, const Posted& posted, const char* what);
  // What the sink of a READ needs on this fabric.
  transport::Access SinkAccess() const {
    return expected_.capabilities.read_sink_needs_remote_write
               ? transport::Access::kRemoteWrite
               : transport::Access::kLocal;
  }
  // Waits until earlier WRITEs of `end` are in the peer's memory, of which
  // `remote` names a byte that may be read.
  void Fence(EndHandle& end, const transport::RemoteBuffer& remote);
  // The peer has to refuse it, and with it the connection.
  void ExpectRefused(EndHandle& end, const Posted& posted, const char* what);
  // The connection has to end at this side, within the patience.
  void AwaitEnd(EndHandle& end);
  // Every kind of operation, both ways, and none of them awaited.
  void PutEverythingInFlight(EndHandle& near, EndHandle& far);
  // Every operation of `end` has to complete.
  void AwaitAll(EndHandle& end);
  // Expects `memory` from `offset` on to have the bytes of `seed`.
  void ExpectBytes(const MemoryHandle& memory, size_t offset, size_t length,
                   uint64_t seed, size_t skip = 0);
  void ExpectUntouched(const MemoryHandle& memory, size_t offset,
                       size_t length);
  void ExpectUntouched(const MemoryHandle& memory) {
    ExpectUntouched(memory, 0, memory.size);
  }

  // The listening side as a host of this process, or null in a run with a pair
  // of hosts; then the test is over.
  LocalHost* ServerInThisProcess();

  // This test found out that something is declared not to be there, and that
  // it is refused properly. The report says so.
  void NotSupported(const std::string& what);

 private:
  void MakeHosts();
  void FinishHosts();
  // After a failure: the rest of the test does not run.
  [[noreturn]] static void EndTest();

  ConformanceScale scale_;
  ExpectedCapabilities expected_;
  std::unique_ptr<TransportWorld> world_;
  std::unique_ptr<ConformanceHost> client_host_;
  std::unique_ptr<ConformanceHost> server_host_;
  int listener_ = -1;
  size_t accepted_ = 0;
  EndHandle client_;
  EndHandle server_;
};

// From now on the listening side of every test is the peer of that link, which
// has to outlive the tests.
class ControlLink;
void SetPeer(ControlLink* link);

// The name under which NotSupported() is recorded.
inline constexpr char kNotSupportedProperty[] = "not_supported";

std::string FactoryName(
    const ::testing::TestParamInfo<TransportFactory*>& info);

// Makes a suite of tests for every transport of one endpoint kind.
#define SKIFF_CONFORMANCE_SUITE(suite, factories)       \
  GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(suite); \
  INSTANTIATE_TEST_SUITE_P(Conformance, suite,          \
                           ::testing::ValuesIn(factories()), FactoryName)

}  // namespace skiff::testing

#endif  // SKIFF_TESTING_TRANSPORT_CONFORMANCE_CONFORMANCE_PAIR_H_
