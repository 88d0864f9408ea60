#include "tools/metrics/target_snapshots.h"

#include <chrono>
#include <condition_variable>
#include <utility>

#include "transport/reactor/epoll_reactor.h"

namespace skiff::tools::metrics {
namespace {

// What the reactors have answered. They may do so when nobody waits any more.
struct Answers {
  static constexpr int kCalls = 3;

  std::mutex mutex;
  std::condition_variable changed;
  int left = kCalls;  // All under `mutex`.
  std::vector<protocol::SessionInfo> sessions;
  protocol::ServerCounts counts;
  protocol::ServerMemory memory;
};

// A function that puts an answer in its place.
template <typename T>
auto PutInto(std::shared_ptr<Answers> answers, T Answers::*place) {
  return [answers = std::move(answers), place](T answer) {
    {
      const std::lock_guard<std::mutex> lock(answers->mutex);
      (*answers).*place = std::move(answer);
      --answers->left;
    }
    answers->changed.notify_one();
  };
}

}  // namespace

void TargetSnapshots::Ask(TargetSnapshot* snapshot) {
  const auto answers = std::make_shared<Answers>();
  {
    const std::lock_guard<std::mutex> lock(server_mutex_);
    if (closed_) return;
    options_.server->ListSessions(PutInto(answers, &Answers::sessions));
    options_.server->ReportCounts(PutInto(answers, &Answers::counts));
    options_.server->ReportMemory(PutInto(answers, &Answers::memory));
  }
  std::unique_lock<std::mutex> lock(answers->mutex);
  snapshot->complete = answers->changed.wait_for(
      lock, absl::ToChronoNanoseconds(options_.patience),
      [&answers] { return answers->left == 0; });
  // Without all sessions, those that are missing would seem to have ended.
  if (snapshot->complete) {
    initiators_.Update(answers->sessions,
                       transport::EpollReactor::MonotonicNow());
  }
  snapshot->initiators = initiators_.Get();
  snapshot->counts = std::move(answers->counts);
  snapshot->memory = answers->memory;
}

TargetSnapshot TargetSnapshots::Take() {
  const std::lock_guard<std::mutex> lock(taking_);
  const absl::Time now = transport::EpollReactor::MonotonicNow();
  {
    const std::lock_guard<std::mutex> server_lock(server_mutex_);
    if (closed_ || now - taken_ < options_.min_interval) return last_;
  }
  TargetSnapshot snapshot;
  Ask(&snapshot);
  for (const std::shared_ptr<scsi::Target>& target : options_.targets()) {
    snapshot.targets.push_back(
        {std::string(target->name()), target->LogicalUnitStatuses()});
  }
  snapshot.reactors = options_.reactors();
  taken_ = transport::EpollReactor::MonotonicNow();
  last_ = snapshot;
  return snapshot;
}

void TargetSnapshots::Close() {
  const std::lock_guard<std::mutex> lock(server_mutex_);
  closed_ = true;
}

}  // namespace skiff::tools::metrics
