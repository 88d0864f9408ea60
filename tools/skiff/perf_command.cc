// perf: measures a logical unit.

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "protocol/negotiation/url.h"
#include "tools/common/completion.h"
#include "tools/skiff/base/client.h"
#include "tools/skiff/base/endpoint.h"
#include "tools/skiff/base/exit_code.h"
#include "tools/skiff/base/lun.h"
#include "tools/skiff/commands.h"
#include "tools/skiff/interrupt.h"
#include "tools/skiff/perf/job.h"
#include "tools/skiff/perf/plan.h"

namespace skiff::tools {
namespace {

constexpr uint32_t kMaxJobs = 256;

double Microseconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) * 1e6 +
         static_cast<double>(time.tv_usec);
}

// The CPU time of this process.
struct CpuTime {
  double user_us = 0;
  double system_us = 0;

  static CpuTime Now() {
    rusage usage = {};
    getrusage(RUSAGE_SELF, &usage);
    return {Microseconds(usage.ru_utime), Microseconds(usage.ru_stime)};
  }
};

class PerfRun {
 public:
  PerfRun(const CommonOptions& common, const PerfOptions& options)
      : common_(common), options_(options) {}
  ~PerfRun() {
    // Jobs belong to the reactors of their sessions, and go before these.
    for (size_t i = 0; i < jobs_.size(); ++i) {
      sessions_[i]->RunOnReactor([&] { jobs_[i].reset(); });
    }
  }

  absl::StatusOr<PerfReport> Run();

 private:
  absl::Status OpenSessions(const Endpoint& endpoint);
  void MakeJobs(const std::vector<PerfJobOptions>& plans);
  // Runs a pass of all jobs at once.
  absl::Status RunPass(PerfJob::Pass pass);
  absl::Status FillBeforeReading();
  // After the workload.
  absl::Status ReadBack(PerfReport* report);
  // Of what it ran on, and with what.
  void Describe(PerfReport* report) const;
  void Summarize(PerfReport* report) const;

  const CommonOptions& common_;
  const PerfOptions& options_;
  std::unique_ptr<Client> client_;
  std::vector<std::unique_ptr<Session>> sessions_;
  std::vector<std::unique_ptr<Lun>> luns_;
  std::vector<std::unique_ptr<PerfJob>> jobs_;
  uint64_t interrupted_ = 0;  // In all passes.
  uint64_t unanswered_ = 0;
  uint64_t recovered_ = 0;
};

absl::Status PerfRun::OpenSessions(const Endpoint& endpoint) {
  auto client = Client::Create(common_, static_cast<int>(options_.jobs));
  if (!client.ok()) return client.status();
  client_ = *std::move(client);
  for (uint32_t i = 0; i < options_.jobs; ++i) {
    auto session =
        client_->Connect(endpoint, endpoint.target, static_cast<int>(i));
    if (!session.ok()) return session.status();
    sessions_.push_back(*std::move(session));
    // On each session, so that each has told its unit attentions.
    auto lun = Lun::Open(sessions_.back().get(), endpoint.lun);
    if (!lun.ok()) return lun.status();
    luns_.push_back(*std::move(lun));
  }
  return absl::OkStatus();
}

void PerfRun::MakeJobs(const std::vector<PerfJobOptions>& plans) {
  std::random_device random;
  const uint64_t run = uint64_t{random()} << 32 | random();
  for (size_t i = 0; i < plans.size(); ++i) {
    PerfJobOptions plan = plans[i];
    plan.lun = luns_[i]->wire();
    plan.run = run;
    sessions_[i]->RunOnReactor([&] {
      jobs_.push_back(
          std::make_unique<PerfJob>(plan, sessions_[i]->initiator()));
    });
    sessions_[i]->UseMemory(jobs_[i]->memory(), jobs_[i]->memory_owner());
  }
}

absl::Status PerfRun::RunPass(PerfJob::Pass pass) {
  Completion all;
  std::atomic<size_t> running{jobs_.size()};
  for (size_t i = 0; i < jobs_.size(); ++i) {
    PerfJob* job = jobs_[i].get();
    sessions_[i]->reactor()->Post([&, job] {
      job->Start(pass, options_.runtime, [&] {
        if (running.fetch_sub(1) == 1) all.Signal();
      });
    });
  }
  {
    const InterruptScope interrupt([this] {
      for (size_t i = 0; i < jobs_.size(); ++i) {
        PerfJob* job = jobs_[i].get();
        sessions_[i]->reactor()->Post([job] { job->Stop(); });
      }
    });
    all.Wait();
  }
  for (const auto& job : jobs_) {
    interrupted_ += job->result().interrupted;
    unanswered_ += job->result().unanswered;
    recovered_ += job->result().recovered;
  }
  for (const auto& job : jobs_) {
    const PerfJobResult& result = job->result();
    if (result.error.empty()) continue;
    if (!result.verify_failed) return absl::InternalError(result.error);
    return WithExitCode(absl::DataLossError(absl::StrCat(
                            "verification failed: ", result.error)),
                        ExitCode::kVerifyFailed);
  }
  return absl::OkStatus();
}

void PerfRun::Summarize(PerfReport* report) const {
  Histogram reads;
  Histogram writes;
  int64_t start = jobs_[0]->result().start_nanos;
  int64_t end = jobs_[0]->result().end_nanos;
  for (const auto& job : jobs_) {
    const PerfJobResult& result = job->result();
    reads.Merge(result.read_nanos);
    writes.Merge(result.write_nanos);
    start = std::min(start, result.start_nanos);
    end = std::max(end, result.end_nanos);
    report->verified_blocks += result.verified;
  }
  report->seconds = static_cast<double>(end - start) / 1e9;
  report->read = SummarizeLatency(reads, options_.io_bytes, report->seconds);
  report->write = SummarizeLatency(writes, options_.io_bytes, report->seconds);
}

void PerfRun::Describe(PerfReport* report) const {
  report->url = protocol::WithoutPasswords(options_.url);
  sessions_[0]->RunOnReactor([&] {
    report->transport = sessions_[0]->initiator()->transport_name();
    report->data_model = sessions_[0]->initiator()->data_model();
  });
  report->rw = options_.rw;
  report->io_bytes = options_.io_bytes;
  report->depth = options_.depth;
  report->jobs = options_.jobs;
  report->verify = !options_.verify.empty();
  for (const auto& session : sessions_) {
    report->sessions.push_back(session->Report());
  }
}

absl::Status PerfRun::FillBeforeReading() {
  absl::Status status = RunPass(PerfJob::Pass::kFill);
  if (!status.ok() || InterruptedExitStatus() == 0) return status;
  return absl::CancelledError(
      "interrupted while the range was filled, before anything was measured");
}

absl::Status PerfRun::ReadBack(PerfReport* report) {
  absl::Status status = RunPass(PerfJob::Pass::kReadBack);
  if (!status.ok()) return status;
  for (const auto& job : jobs_) {
    report->verified_blocks += job->result().verified;
  }
  report->cut_short = InterruptedExitStatus() != 0;
  return status;
}

absl::StatusOr<PerfReport> PerfRun::Run() {
  const auto endpoint = ParseLun(options_.url);
  if (!endpoint.ok()) return endpoint.status();
  const auto workload = ParseWorkload(options_);
  if (!workload.ok()) return workload.status();
  if (options_.jobs == 0 || options_.jobs > kMaxJobs) {
    return UsageError(absl::StrCat("--numjobs must be 1 to ", kMaxJobs));
  }
  absl::Status status = OpenSessions(*endpoint);
  if (!status.ok()) return status;
  const scsi::DiskInfo& info = luns_[0]->info();
  const auto plans = PlanJobs(options_, *workload, info.block_size,
                              info.size_bytes, info.max_transfer_bytes);
  if (!plans.ok()) return plans.status();
  MakeJobs(*plans);

  // A mixed workload reads what it may not have written yet.
  const bool verify = !options_.verify.empty();
  const bool mixed = workload->reads() && workload->writes();
  if (verify && mixed) {
    status = FillBeforeReading();
    if (!status.ok()) return status;
  }
  const CpuTime before = CpuTime::Now();
  status = RunPass(PerfJob::Pass::kWorkload);
  const CpuTime after = CpuTime::Now();
  if (!status.ok()) return status;

  PerfReport report;
  Describe(&report);
  Summarize(&report);
  const double ios = std::max<double>(
      1, static_cast<double>(report.read.ios + report.write.ios));
  report.cpu_user_us = (after.user_us - before.user_us) / ios;
  report.cpu_system_us = (after.system_us - before.system_us) / ios;
  report.cut_short = InterruptedExitStatus() != 0;
  if (verify && workload->writes() && !report.cut_short) {
    status = ReadBack(&report);
    if (!status.ok()) return status;
  }
  report.interrupted = interrupted_;
  report.unanswered = unanswered_;
  report.recovered = recovered_;
  return report;
}

}  // namespace

absl::StatusOr<PerfReport> Perf(const CommonOptions& common,
                                const PerfOptions& options) {
  return PerfRun(common, options).Run();
}

}  // namespace skiff::tools
