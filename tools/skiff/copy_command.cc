// copy, and with it read and write.

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "protocol/negotiation/url.h"
#include "tools/common/units.h"
#include "tools/skiff/base/client.h"
#include "tools/skiff/base/endpoint.h"
#include "tools/skiff/base/exit_code.h"
#include "tools/skiff/base/lun.h"
#include "tools/skiff/commands.h"
#include "tools/skiff/copy/file_peer.h"
#include "tools/skiff/copy/lun_peer.h"
#include "tools/skiff/copy/pipeline.h"
#include "tools/skiff/interrupt.h"
#include "tools/skiff/progress.h"
#include "transport/reactor/epoll_reactor.h"

namespace skiff::tools {
namespace {

constexpr absl::Duration kProgressInterval = absl::Milliseconds(200);
constexpr uint32_t kPieceAlignment = 4096;
constexpr uint64_t kMaxBuffers = 1u << 30;

// Both ends of a copy, and what they need.
class Copier {
 public:
  Copier(const CommonOptions& common, const CopyOptions& options)
      : common_(common), options_(options), progress_(options.quiet) {}

  absl::StatusOr<CopyReport> Run();

 private:
  enum class Side { kSource, kDestination };

  absl::Status CheckOptions() const;
  absl::StatusOr<std::unique_ptr<CopyPeer>> Open(Side side);
  absl::StatusOr<std::unique_ptr<CopyPeer>> OpenLun(const std::string& url,
                                                    uint64_t start);
  // How much to copy, if that is known before.
  absl::StatusOr<std::optional<uint64_t>> Length() const;
  absl::Status OpenBoth();
  void MakePipeline(std::optional<uint64_t> length);
  absl::Status CopyAll(CopyReport* report);
  absl::Status Verify(CopyReport* report);
  // Runs one pass of the pipeline to its end.
  absl::Status Pass(
      const std::string& verb,
      absl::AnyInvocable<void(absl::AnyInvocable<void(absl::Status)>)> start,
      double* seconds);

  const CommonOptions& common_;
  const CopyOptions& options_;
  Progress progress_;
  // The pipeline's, on this thread; destroyed last.
  std::unique_ptr<transport::EpollReactor> home_;
  std::unique_ptr<Client> client_;
  std::unique_ptr<Session> sessions_[2];
  std::unique_ptr<Lun> luns_[2];
  int lun_count_ = 0;
  std::unique_ptr<CopyPeer> source_;
  std::unique_ptr<CopyPeer> destination_;
  std::unique_ptr<Pipeline> pipeline_;
};

absl::Status Copier::CheckOptions() const {
  if (!IsUrl(options_.source) && !IsUrl(options_.destination)) {
    return UsageError(
        "neither end is a logical unit; for files there is cp(1)");
  }
  if (options_.verify && options_.destination == "-") {
    return UsageError("--verify: standard output cannot be read again");
  }
  if (options_.depth == 0 || options_.piece_bytes == 0 ||
      uint64_t{options_.depth} * options_.piece_bytes > kMaxBuffers) {
    return UsageError(absl::StrCat(
        "--depth ", options_.depth, " and --transfer-size ",
        FormatSize(options_.piece_bytes), " need ",
        FormatSize(uint64_t{options_.depth} * options_.piece_bytes),
        " of buffers; it can be up to ", FormatSize(kMaxBuffers)));
  }
  if (options_.piece_bytes % kPieceAlignment != 0) {
    return UsageError(absl::StrCat("--transfer-size must be a multiple of ",
                                   kPieceAlignment));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<CopyPeer>> Copier::OpenLun(
    const std::string& url, uint64_t start) {
  const auto endpoint = ParseLun(url);
  if (!endpoint.ok()) return endpoint.status();
  auto session = client_->Connect(*endpoint, endpoint->target);
  if (!session.ok()) return session.status();
  Session* to = (sessions_[lun_count_] = *std::move(session)).get();
  auto opened = Lun::Open(to, endpoint->lun);
  if (!opened.ok()) return opened.status();
  Lun* lun = (luns_[lun_count_++] = *std::move(opened)).get();
  const scsi::DiskInfo& info = lun->info();
  if (start % info.block_size != 0 || start > info.size_bytes) {
    return UsageError(
        absl::StrCat(protocol::WithoutPasswords(url), ": the offset ", start,
                     " must be a multiple of the block size, ", info.block_size,
                     ", within ", info.size_bytes, " bytes"));
  }
  return std::make_unique<LunPeer>(protocol::WithoutPasswords(url), lun, start,
                                   options_.depth, home_.get());
}

absl::StatusOr<std::unique_ptr<CopyPeer>> Copier::Open(Side side) {
  const bool source = side == Side::kSource;
  const std::string& name = source ? options_.source : options_.destination;
  const uint64_t start =
      source ? options_.source_offset : options_.destination_offset;
  if (IsUrl(name)) return OpenLun(name, start);
  auto file = FilePeer::Open(
      name, source ? FilePeer::Use::kRead : FilePeer::Use::kWrite, start,
      InterruptFd());
  if (!file.ok()) return file.status();
  return *std::move(file);
}

absl::StatusOr<std::optional<uint64_t>> Copier::Length() const {
  const std::optional<uint64_t> available = source_->size();
  const std::optional<uint64_t> room = destination_->size();
  std::optional<uint64_t> length = options_.length;
  if (!length.has_value()) length = available;
  if (!length.has_value()) return length;
  if (available.has_value() && *length > *available) {
    return UsageError(absl::StrCat(source_->name(), " has ", *available,
                                   " bytes from there, not ", *length));
  }
  if (room.has_value() && *length > *room) {
    return UsageError(absl::StrCat(
        "the ", *length, " bytes of ", source_->name(), " do not fit into the ",
        *room, " bytes of ", destination_->name(), "; --length copies a part"));
  }
  if (*length % source_->granularity() != 0) {
    return UsageError(absl::StrCat("the length ", *length,
                                   " must be a multiple of the block size, ",
                                   source_->granularity()));
  }
  if (*length % destination_->granularity() != 0 && !options_.pad) {
    return UsageError(absl::StrCat(source_->name(), " has ", *length,
                                   " bytes, no multiple of the block size, ",
                                   destination_->granularity(),
                                   ": --pad fills the last block with zeroes"));
  }
  return length;
}

absl::Status Copier::Pass(
    const std::string& verb,
    absl::AnyInvocable<void(absl::AnyInvocable<void(absl::Status)>)> start,
    double* seconds) {
  const absl::Time began = absl::Now();
  absl::Status result;
  transport::Timer timer(home_.get(), [&] {
    progress_.Show(ProgressLine(verb, pipeline_->bytes_done(),
                                pipeline_->length(), absl::Now() - began));
    timer.ScheduleAfter(kProgressInterval);
  });
  home_->Post([&] {
    timer.ScheduleAfter(kProgressInterval);
    start([&](absl::Status status) {
      result = std::move(status);
      home_->Stop();
    });
  });
  {
    const InterruptScope interrupt([this] { pipeline_->Stop(); });
    home_->Run();
  }
  progress_.Clear();
  *seconds = absl::ToDoubleSeconds(absl::Now() - began);
  return result;
}

absl::Status Copier::OpenBoth() {
  auto home = transport::EpollReactor::Create(common_.reactor);
  if (!home.ok()) return home.status();
  home_ = *std::move(home);
  auto client = Client::Create(common_);
  if (!client.ok()) return client.status();
  client_ = *std::move(client);

  auto source = Open(Side::kSource);
  if (!source.ok()) return source.status();
  source_ = *std::move(source);
  auto destination = Open(Side::kDestination);
  if (!destination.ok()) return destination.status();
  destination_ = *std::move(destination);
  return absl::OkStatus();
}

void Copier::MakePipeline(std::optional<uint64_t> length) {
  PipelineOptions pipeline;
  pipeline.length = length;
  pipeline.piece_bytes = options_.piece_bytes;
  pipeline.depth = options_.depth;
  pipeline.pad = options_.pad;
  pipeline.sparse = options_.sparse;
  pipeline_ = std::make_unique<Pipeline>(pipeline);
  for (int i = 0; i < lun_count_; ++i) {
    sessions_[i]->UseMemory(pipeline_->memory(), pipeline_->memory_owner());
  }
}

absl::Status Copier::CopyAll(CopyReport* report) {
  absl::Status status = Pass(
      "copying",
      [this](auto done) {
        pipeline_->Copy(source_.get(), destination_.get(), std::move(done));
      },
      &report->seconds);
  if (!status.ok()) return status;
  report->bytes = pipeline_->bytes_done();
  const absl::Time finishing = absl::Now();
  status = destination_->Finish(report->bytes);
  if (!status.ok()) return status;
  report->seconds += absl::ToDoubleSeconds(absl::Now() - finishing);
  report->cut_short = InterruptedExitStatus() != 0;
  return status;
}

absl::Status Copier::Verify(CopyReport* report) {
  double seconds = 0;
  absl::Status status = Pass(
      "verifying",
      [this](auto done) {
        pipeline_->Verify(destination_.get(), std::move(done));
      },
      &seconds);
  if (!status.ok()) return status;
  report->cut_short = InterruptedExitStatus() != 0;
  if (!report->cut_short) report->verify_seconds = seconds;
  return status;
}

absl::StatusOr<CopyReport> Copier::Run() {
  absl::Status status = CheckOptions();
  if (status.ok()) status = OpenBoth();
  if (!status.ok()) return status;
  const auto length = Length();
  if (!length.ok()) return length.status();
  MakePipeline(*length);

  CopyReport report;
  report.source = options_.source;
  report.destination = options_.destination;
  status = CopyAll(&report);
  if (status.ok() && options_.verify && !report.cut_short) {
    status = Verify(&report);
  }
  if (!status.ok()) return status;
  return report;
}

}  // namespace

absl::StatusOr<CopyReport> Copy(const CommonOptions& common,
                                const CopyOptions& options) {
  return Copier(common, options).Run();
}

}  // namespace skiff::tools
