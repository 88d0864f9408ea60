// The suite over transports that break the contract on purpose: --transport
// chooses the defect of a simulated transport, or the fault of one that
// forwards to TCP. broken_variants_test.py knows which tests have to notice.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "testing/transport_conformance/altering_world.h"
#include "testing/transport_conformance/conformance_main.h"
#include "testing/transport_conformance/epoll_world.h"
#include "testing/transport_conformance/forwarding_transport.h"
#include "testing/transport_conformance/sim_factory.h"
#include "transport/tcp/tcp_transport.h"

namespace skiff::testing {
namespace {

TransportChoice Broken(const char* name, SimDefect defect) {
  return {
      name, "",
      [defect](const transport::Address* /*url*/)
          -> absl::StatusOr<std::vector<std::unique_ptr<TransportFactory>>> {
        std::vector<std::unique_ptr<TransportFactory>> factories;
        for (const SimFabric fabric :
             {SimFabric::kInfiniBand, SimFabric::kIwarp, SimFabric::kStream}) {
          factories.push_back(MakeSimFactory(fabric, defect));
        }
        return factories;
      }};
}

class ForwardingFactory final : public TransportFactory {
 public:
  explicit ForwardingFactory(ForwardingFault fault) : fault_(fault) {}

  std::string name() const override { return "fwd"; }
  ExpectedCapabilities expected() const override { return {}; }
  ConformanceScale scale() const override {
    ConformanceScale scale;
    scale.connects_in_a_row = scale.connections_at_once = 50;
    scale.operations = 200;
    // Most faults show in what never comes.
    if (fault_ != ForwardingFault::kNone) scale.patience = absl::Seconds(2);
    return scale;
  }
  absl::StatusOr<std::unique_ptr<TransportWorld>> MakeWorld() override {
    return EpollWorld::Create(
        MakeForwardingTransport(transport::MakeTcpTransport(), fault_),
        "fwd://127.0.0.1:0");
  }

 private:
  const ForwardingFault fault_;
};

class AlteringFactory final : public TransportFactory {
 public:
  AlteringFactory(SimFabric fabric, OptionFault fault)
      : inner_(MakeSimFactory(fabric)), fault_(fault) {}

  std::string name() const override { return inner_->name(); }
  ExpectedCapabilities expected() const override { return inner_->expected(); }
  ConformanceScale scale() const override { return inner_->scale(); }
  absl::StatusOr<std::unique_ptr<TransportWorld>> MakeWorld() override {
    auto world = inner_->MakeWorld();
    if (!world.ok()) return world.status();
    return MakeAlteringWorld(*std::move(world), fault_);
  }

 private:
  const std::unique_ptr<TransportFactory> inner_;
  const OptionFault fault_;
};

using Fault = ForwardingFault;

struct ForwardingRow {
  Fault fault;
  const char* name;
};

constexpr ForwardingRow kForwardingRows[] = {
    {Fault::kNone, "none"},
    {Fault::kWrongScheme, "wrong_scheme"},
    {Fault::kNoDevices, "no_devices"},
    {Fault::kNamelessDevice, "nameless_device"},
    {Fault::kUnexplainedDevice, "unexplained_device"},
    {Fault::kUncheckedAddress, "unchecked_address"},
    {Fault::kStrictAddress, "strict_address"},
    {Fault::kUncheckedListen, "unchecked_listen"},
    {Fault::kUncheckedConnect, "unchecked_connect"},
    {Fault::kPortZero, "port_zero"},
    {Fault::kTimeoutZero, "timeout_zero"},
    {Fault::kBacklogZero, "backlog_zero"},
    {Fault::kTerseListenError, "terse_listen_error"},
    {Fault::kTerseConnectError, "terse_connect_error"},
    {Fault::kTakenPort, "taken_port"},
    {Fault::kIgnoredTimeout, "ignored_timeout"},
    {Fault::kUnnamedTimeout, "unnamed_timeout"},
    {Fault::kNestedDone, "nested_done"},
    {Fault::kSecondDone, "second_done"},
    {Fault::kLostDone, "lost_done"},
    {Fault::kDoneAfterCancel, "done_after_cancel"},
    {Fault::kWrongListenScheme, "wrong_listen_scheme"},
    {Fault::kWrongListenSchemes, "wrong_listen_schemes"},
    {Fault::kUnboundPort, "unbound_port"},
    {Fault::kStillListening, "still_listening"},
    {Fault::kFalseAlarm, "false_alarm"},
    {Fault::kNamelessPeer, "nameless_peer"},
    {Fault::kNamelessHost, "nameless_host"},
    {Fault::kChattyRequest, "chatty_request"},
    {Fault::kRejectedStaysOpen, "rejected_stays_open"},
    {Fault::kDroppedStaysOpen, "dropped_stays_open"},
    {Fault::kLostAccept, "lost_accept"},
    {Fault::kUntoldObserver, "untold_observer"},
    {Fault::kNestedObserver, "nested_observer"},
    {Fault::kToldTwice, "told_twice"},
    {Fault::kOldObserver, "old_observer"},
    {Fault::kOneNotice, "one_notice"},
    {Fault::kNestedNotice, "nested_notice"},
    {Fault::kEmptyRead, "empty_read"},
    {Fault::kOverlongRead, "overlong_read"},
    {Fault::kScribblingRead, "scribbling_read"},
    {Fault::kBorrowedWrite, "borrowed_write"},
    {Fault::kRefusedLongList, "refused_long_list"},
    {Fault::kWriteAfterEnd, "write_after_end"},
    {Fault::kIgnoredShutdown, "ignored_shutdown"},
    {Fault::kShutdownEndsBoth, "shutdown_ends_both"},
    {Fault::kCleanAbort, "clean_abort"},
    {Fault::kDeafAbort, "deaf_abort"},
    {Fault::kErrorWhileAlive, "error_while_alive"},
    {Fault::kNoError, "no_error"},
    {Fault::kLingering, "lingering"},
    {Fault::kStuckThreshold, "stuck_threshold"},
    {Fault::kThresholdHidesEnd, "threshold_hides_end"},
    {Fault::kAllUnacknowledged, "all_unacknowledged"},
    {Fault::kNoAddress, "no_address"},
    {Fault::kNoPort, "no_port"},
    {Fault::kSwappedAddresses, "swapped_addresses"},
    {Fault::kUnreadReplaced, "unread_replaced"},
    {Fault::kReleaseEnds, "release_ends"},
    {Fault::kWriteAfterRelease, "write_after_release"},
    {Fault::kUnreadDropped, "unread_dropped"},
    {Fault::kUninherited, "uninherited"},
};

struct OptionRow {
  OptionFault fault;
  const char* name;
};

constexpr OptionRow kOptionRows[] = {
    {OptionFault::kNone, "none"},
    {OptionFault::kNoPrepare, "no_prepare"},
    {OptionFault::kNoAcceptPrepare, "no_accept_prepare"},
    {OptionFault::kRenamedError, "renamed_error"},
    {OptionFault::kNoPrivateDataOf, "no_private_data_of"},
    {OptionFault::kCutPrivateData, "cut_private_data"},
    {OptionFault::kShortenedData, "shortened_data"},
    {OptionFault::kNoRejectData, "no_reject_data"},
    {OptionFault::kNoResources, "no_resources"},
    {OptionFault::kShortenedQueue, "shortened_queue"},
    {OptionFault::kNoOnDisconnect, "no_on_disconnect"},
    {OptionFault::kSecondOnDisconnect, "second_on_disconnect"},
};

std::vector<TransportChoice> WithFaults(std::vector<TransportChoice> choices) {
  for (const ForwardingRow& row : kForwardingRows) {
    const auto make = [fault = row.fault](const transport::Address* /*url*/)
        -> absl::StatusOr<std::vector<std::unique_ptr<TransportFactory>>> {
      std::vector<std::unique_ptr<TransportFactory>> factories;
      factories.push_back(std::make_unique<ForwardingFactory>(fault));
      return factories;
    };
    choices.push_back({absl::StrCat("fwd_", row.name), "", make});
  }
  for (const OptionRow& row : kOptionRows) {
    const auto make = [fault = row.fault](const transport::Address* /*url*/)
        -> absl::StatusOr<std::vector<std::unique_ptr<TransportFactory>>> {
      std::vector<std::unique_ptr<TransportFactory>> factories;
      for (const SimFabric fabric :
           {SimFabric::kInfiniBand, SimFabric::kIwarp}) {
        factories.push_back(std::make_unique<AlteringFactory>(fabric, fault));
      }
      return factories;
    };
    choices.push_back({absl::StrCat("option_", row.name), "", make});
  }
  return choices;
}

}  // namespace
}  // namespace skiff::testing

int main(int argc, char** argv) {
  using skiff::testing::Broken;
  using skiff::testing::SimDefect;
  return skiff::testing::ConformanceMain(
      argc, argv,
      skiff::testing::WithFaults({
          Broken("none", SimDefect::kNone),
          Broken("lost_readable", SimDefect::kLostReadable),
          Broken("lost_writable", SimDefect::kLostWritable),
          Broken("corrupt_byte", SimDefect::kCorruptByte),
          Broken("swapped_segments", SimDefect::kSwappedSegments),
          Broken("reset_looks_clean", SimDefect::kResetLooksClean),
          Broken("nested_callback", SimDefect::kNestedCallback),
          Broken("double_completion", SimDefect::kDoubleCompletion),
          Broken("lost_completion", SimDefect::kLostCompletion),
          Broken("reordered_completions", SimDefect::kReorderedCompletions),
          Broken("early_send_completion", SimDefect::kEarlySendCompletion),
          Broken("early_write_completion", SimDefect::kEarlyWriteCompletion),
          Broken("early_read_completion", SimDefect::kEarlyReadCompletion),
          Broken("wrong_byte_count", SimDefect::kWrongByteCount),
          Broken("unchecked_remote_access", SimDefect::kUncheckedRemoteAccess),
          Broken("ignored_invalidate", SimDefect::kIgnoredInvalidate),
          Broken("lasting_window", SimDefect::kLastingWindow),
          Broken("late_write", SimDefect::kLateWrite),
          Broken("no_flush", SimDefect::kNoFlush),
          Broken("dangling_endpoint", SimDefect::kDanglingEndpoint),
          Broken("unbounded_read_depth", SimDefect::kUnboundedReadDepth),
          Broken("missed_arm", SimDefect::kMissedArm),
          Broken("unchecked_bounds", SimDefect::kUncheckedBounds),
          Broken("stale_buffer", SimDefect::kStaleBuffer),
          Broken("credit_leak", SimDefect::kCreditLeak),
          Broken("overflowing_queue", SimDefect::kOverflowingQueue),
          Broken("nested_disconnect", SimDefect::kNestedDisconnect),
          Broken("wrong_scheme", SimDefect::kWrongScheme),
          Broken("wrong_listen_scheme", SimDefect::kWrongListenScheme),
          Broken("ignored_timeout", SimDefect::kIgnoredTimeout),
          Broken("unchecked_address", SimDefect::kUncheckedAddress),
          Broken("no_devices", SimDefect::kNoDevices),
      }));
}
