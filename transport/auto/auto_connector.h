#ifndef SKIFF_TRANSPORT_AUTO_AUTO_CONNECTOR_H_
#define SKIFF_TRANSPORT_AUTO_AUTO_CONNECTOR_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "transport/auto/auto_options.h"
#include "transport/auto/candidates.h"
#include "transport/auto/choice_report.h"
#include "transport/auto/device_survey.h"
#include "transport/transport.h"

namespace skiff::transport {

// Connects by the best transport that machine and peer both have: tries the
// candidates in order, in overlapping attempts. The next one starts when the
// newest failed or has run for a while; the first success wins, and the others
// are cancelled. Lives on one reactor; not thread-safe.
class AutoConnector final : public ConnectAttempt {
 public:
  // `options.timeout` is for all attempts together, and for finding out which
  // there are. `observer` (may not be null) gets the report right before `done`
  // runs.
  static absl::StatusOr<std::unique_ptr<AutoConnector>> Create(
      DeviceSurvey* survey, Reactor* reactor, const Address& address,
      const AutoOptions& auto_options, const ConnectOptions& options,
      ChoiceObserver observer, ConnectCallback done);

 private:
  // An attempt that runs.
  struct Running {
    size_t candidate = 0;
    std::unique_ptr<ConnectAttempt> attempt;
  };

  AutoConnector(Reactor* reactor, const Address& address,
                const AutoOptions& auto_options, const ConnectOptions& options,
                ChoiceObserver observer, ConnectCallback done);

  void OnSurveyed(const absl::StatusOr<DeviceSurvey::Found>& found);
  // There is no telling which ways there are.
  void SurveyFailed(const absl::Status& why);
  void StartNext();
  // False if the transport refuses at once.
  bool Start(size_t candidate);
  void ScheduleNext();
  void OnAttemptDone(size_t candidate, absl::StatusOr<Endpoint> result);
  void OnDeadline();
  void Fail(size_t candidate, const absl::Status& why);
  void Settle(size_t candidate, ChoiceOutcome outcome,
              absl::string_view reason);
  // Ends what runs, tells, and calls back; may destroy this.
  void Finish(absl::StatusOr<Endpoint> result);
  ChoiceEntry& EntryOf(size_t candidate) {
    return report_.entries[candidates_[candidate].entry];
  }

  Reactor* const reactor_;
  const Address address_;
  const AutoOptions auto_options_;
  const ConnectOptions options_;
  ChoiceObserver observer_;
  ConnectCallback done_;
  const absl::Time began_;
  ChoiceReport report_;
  // While it runs.
  std::unique_ptr<DeviceSurvey::Request> survey_;
  std::vector<Candidate> candidates_;
  std::vector<Running> running_;
  size_t next_ = 0;       // The candidate that starts next.
  absl::Status failure_;  // Of the best candidate that failed.
  size_t failed_ = 0;     // Which one that is.
  Timer stagger_timer_;
  Timer deadline_timer_;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_AUTO_AUTO_CONNECTOR_H_
