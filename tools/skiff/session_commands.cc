// ping and reset: about the session, not the data.

#include <condition_variable>
#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "protocol/codec/pdu.h"
#include "tools/skiff/base/client.h"
#include "tools/skiff/base/endpoint.h"
#include "tools/skiff/base/lun.h"
#include "tools/skiff/commands.h"
#include "tools/skiff/interrupt.h"

namespace skiff::tools {
namespace {

// Waits that a signal ends.
class PingWait {
 public:
  void Stop() {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
  }
  // False when stopped.
  bool Sleep(absl::Duration time) {
    std::unique_lock<std::mutex> lock(mutex_);
    return !changed_.wait_for(lock, absl::ToChronoNanoseconds(time),
                              [this] { return stopped_; });
  }
  void Expect() {
    const std::lock_guard<std::mutex> lock(mutex_);
    answer_ = std::nullopt;
  }
  void Answer(absl::Status status) {
    const std::lock_guard<std::mutex> lock(mutex_);
    answer_ = std::move(status);
    changed_.notify_all();
  }
  // Nothing when stopped.
  std::optional<absl::Status> Answered() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return stopped_ || answer_.has_value(); });
    return answer_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopped_ = false;
  std::optional<absl::Status> answer_;
};

// Tells when answers stay out, and when they come again; not of each ping.
class OutageTeller {
 public:
  void Note(uint32_t number, const absl::Status& status) {
    if (!status.ok() && lost_++ == 0) {
      const std::string why(status.message());
      std::fprintf(stderr, "skiff: no answer to ping %u: %s\n", number,
                   why.c_str());
    } else if (status.ok() && lost_ > 0) {
      std::fprintf(stderr, "skiff: ping %u is answered again, %u were not\n",
                   number, lost_);
      lost_ = 0;
    }
  }

 private:
  uint32_t lost_ = 0;  // Since the last answer.
};

}  // namespace

absl::StatusOr<PingReport> Ping(const CommonOptions& common,
                                const PingOptions& options) {
  const auto endpoint = ParseTarget(options.url);
  if (!endpoint.ok()) return endpoint.status();
  auto client = Client::Create(common);
  if (!client.ok()) return client.status();
  auto opened = (*client)->Connect(*endpoint, endpoint->target);
  if (!opened.ok()) return opened.status();
  Session* session = opened->get();
  PingReport report;
  session->RunOnReactor(
      [&] { report.peer = session->initiator()->peer_address(); });
  // An answer may come after a signal has ended the wait for it.
  const auto wait = std::make_shared<PingWait>();
  const InterruptScope interrupt([wait] { wait->Stop(); });
  OutageTeller outages;
  while (report.sent < options.count) {
    if (report.sent > 0 && !wait->Sleep(options.interval)) break;
    const absl::Time sent = absl::Now();
    wait->Expect();
    session->RunOnReactor([&] {
      session->initiator()->Ping(
          [wait](absl::Status status) { wait->Answer(std::move(status)); });
    });
    const std::optional<absl::Status> status = wait->Answered();
    if (!status.has_value()) break;
    outages.Note(++report.sent, *status);
    if (!status->ok()) continue;
    report.round_trips_us.push_back(
        absl::ToDoubleMicroseconds(absl::Now() - sent));
  }
  report.cut_short = InterruptedExitStatus() != 0;
  report.session = session->Report();
  return report;
}

absl::Status Reset(const CommonOptions& common, const ResetOptions& options) {
  const auto endpoint =
      options.target ? ParseTarget(options.url) : ParseLun(options.url);
  if (!endpoint.ok()) return endpoint.status();
  auto client = Client::Create(common);
  if (!client.ok()) return client.status();
  auto opened = (*client)->Connect(*endpoint, endpoint->target);
  if (!opened.ok()) return opened.status();
  Session* session = opened->get();
  const uint64_t wire = options.target ? 0 : WireLun(session, endpoint->lun);
  return session->Await([&](Session::Done done) {
    session->initiator()->Manage(
        options.target ? protocol::TaskManagementFunction::kTargetWarmReset
                       : protocol::TaskManagementFunction::kLogicalUnitReset,
        wire, nullptr, std::move(done));
  });
}

}  // namespace skiff::tools
