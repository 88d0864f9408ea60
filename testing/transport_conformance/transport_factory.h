#ifndef SKIFF_TESTING_TRANSPORT_CONFORMANCE_TRANSPORT_FACTORY_H_
#define SKIFF_TESTING_TRANSPORT_CONFORMANCE_TRANSPORT_FACTORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "transport/capabilities.h"
#include "transport/reactor/reactor.h"
#include "transport/transport.h"

namespace skiff::testing {

// What a kind of device is expected to have. What is missing fails the suite;
// what is declared absent is reported as "not supported", and its use has to be
// refused.
struct ExpectedCapabilities {
  // Limits are minima. `rdma` and the flags are exact.
  transport::Capabilities capabilities;
  // The device refuses a READ where reading is not permitted, and what leaves
  // the bounds of a window. False: it does not, and the memory lies open.
  bool checks_read_permission = true;
  bool checks_window_bounds = true;
  // Private data arrives followed by zeros (rdma_accept(3)).
  bool private_data_padded = false;
  // A SEND with invalidate may name a region's key, not only a window's.
  bool invalidates_regions = false;
  // MemoryDomain::CreateCompletionQueue() works.
  bool shared_completion_queues = true;
  // Registering pins the memory: RLIMIT_MEMLOCK applies.
  bool registration_locks_memory = false;
  // Registering memory that is not mapped fails.
  bool registration_checks_memory = false;
  // A READ or WRITE that the peer refuses completes as kRemoteAccess. False:
  // the peer ends the connection without a word why; a READ then completes with
  // another error, a WRITE perhaps with none, where it completes when it has
  // left (iWARP).
  bool refusals_are_named = true;
  // A rejection carries private data.
  bool reject_private_data = true;
};

// How much the suite does, and how long it waits.
struct ConformanceScale {
  int connects_in_a_row = 1000;
  int connections_at_once = 1000;
  int messages = 1'000'000;  // Of the long run of flow control.
  int operations = 2000;     // Of the other loops.
  size_t largest = 1 << 20;  // Bytes of the largest message or transfer.
  size_t mtu = 4096;         // Messages are tried around it.
  absl::Duration patience = absl::Seconds(20);  // For what has to happen.
  // For what must not happen.
  absl::Duration quiet = absl::Milliseconds(50);
};

// The two ends of a connection: 0 connects, 1 listens.
enum class Side : uint8_t { kConnecting = 0, kListening = 1 };

// Where one test runs: transports, reactors and time. Everything happens on the
// test's thread, within RunUntil(). It outlives what the test makes from it.
class TransportWorld {
 public:
  virtual ~TransportWorld() = default;

  // Owned by the world, as is what reactor() returns.
  virtual transport::Transport* transport(Side side) = 0;
  // Where that side's listener or first connection is.
  virtual transport::Reactor* reactor(Side side) = 0;
  // Another reactor on that side's host.
  virtual transport::Reactor* AddReactor(Side side) = 0;

  // Where to listen; port 0 lets the transport choose. By default every test
  // listens there afresh.
  virtual transport::Address listen_address() = 0;

  // Turns the reactors until `done` or until `limit` has passed on their clock;
  // says whether `done` holds.
  virtual bool RunUntil(absl::FunctionRef<bool()> done,
                        absl::Duration limit) = 0;

  // Whether RunUntil() waits for the clock on the wall, and so for other
  // processes.
  virtual bool real_time() const { return false; }

  // Faults. Unimplemented where the test machine has no means for it: the
  // tests that need it are then reported as not supported.
  //
  // From now on nothing passes between the two ends, silently.
  virtual absl::Status CutCable();
  // The listening side's host is gone, without a word.
  virtual absl::Status KillPeer();

  // For byte streams, whose connections the system accepts: where nobody
  // answers, neither by accepting nor by refusing. Unimplemented where there is
  // no such address.
  virtual absl::StatusOr<transport::Address> SilentAddress();
};

// A transport under test. Lives as long as the program.
class TransportFactory {
 public:
  virtual ~TransportFactory() = default;

  // In test names and reports: letters, digits and underscores.
  virtual std::string name() const = 0;
  // What the devices have: see there.
  virtual ExpectedCapabilities expected() const = 0;
  // How much is done, and how long is waited.
  virtual ConformanceScale scale() const { return {}; }
  // Errors say what the machine lacks; they fail the test.
  virtual absl::StatusOr<std::unique_ptr<TransportWorld>> MakeWorld() = 0;
};

// What a user of the runner wants instead of the factories' numbers; 0: theirs.
struct ScaleOverride {
  int connections = 0;  // In a row, and at once.
  int messages = 0;
  int operations = 0;
};
// Of all factories, from now on.
void OverrideScale(const ScaleOverride& wanted);
// What a factory says, with that.
ConformanceScale EffectiveScale(const TransportFactory& factory);

// For GoogleTest's messages.
void PrintTo(const TransportFactory* factory, std::ostream* out);

// Adds a transport to what the suite tests. Before InitGoogleTest().
void AddTransportFactory(std::unique_ptr<TransportFactory> factory);

// Those of either endpoint kind.
std::vector<TransportFactory*> RdmaFactories();
// Those of byte streams.
std::vector<TransportFactory*> StreamFactories();
// In the order in which they were added.
std::vector<TransportFactory*> AllFactories();

}  // namespace skiff::testing

#endif  // SKIFF_TESTING_TRANSPORT_CONFORMANCE_TRANSPORT_FACTORY_H_
