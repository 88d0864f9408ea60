#include "tools/skiff/base/lun.h"

#include <sys/uio.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "scsi/initiator/parameter_data.h"
#include "scsi/lun.h"
#include "tools/common/completion.h"
#include "tools/common/stderr_log.h"
#include "tools/skiff/base/text.h"

namespace skiff::tools {
namespace {

constexpr uint32_t kMaxLuns = 16384;
constexpr uint16_t kVpdBytes = 0xfff0;
constexpr uint32_t kFirstLunListBytes = 8 + 8 * 256;
// 16384 LUNs of one level; a longer list is no list of ours.
constexpr uint32_t kMaxLunListBytes = 8 + 8 * kMaxLuns;

}  // namespace

absl::StatusOr<std::vector<uint8_t>> Fetch(Session* session, uint64_t wire,
                                           const scsi::Cdb& cdb,
                                           uint32_t allocated) {
  std::vector<uint8_t> data(allocated);
  const iovec iov = {data.data(), data.size()};
  scsi::Command command;
  command.lun = wire;
  scsi::SetCdb(cdb, &command);
  command.data_in = &iov;
  command.data_in_count = 1;
  command.data_in_length = allocated;
  const absl::Status status = session->Run(&command);
  if (!status.ok()) return status;
  // An overflow's residual is of what came besides.
  if (command.underflow) {
    data.resize(allocated - std::min(allocated, command.residual));
  }
  return data;
}

absl::StatusOr<scsi::InquiryData> FetchInquiry(Session* session,
                                               uint64_t wire) {
  constexpr uint16_t kBytes = 96;
  const auto data = Fetch(session, wire, scsi::cdb::Inquiry(kBytes), kBytes);
  if (!data.ok()) return data.status();
  return scsi::ParseInquiry(*data);
}

absl::StatusOr<std::vector<uint64_t>> FetchLuns(Session* session) {
  uint32_t bytes = kFirstLunListBytes;
  while (true) {
    const auto data = Fetch(session, 0, scsi::cdb::ReportLuns(bytes), bytes);
    if (!data.ok()) return data.status();
    auto list = scsi::ParseReportLuns(*data);
    if (!list.ok()) return list.status();
    if (list->needed_bytes <= bytes || bytes == kMaxLunListBytes) {
      return std::move(list->luns);
    }
    bytes = std::min(list->needed_bytes, kMaxLunListBytes);
  }
}

uint64_t WireLun(Session* session, uint32_t lun) {
  const uint64_t standard = scsi::EncodeLun(lun);
  if (lun <= 255) return standard;
  const auto luns = FetchLuns(session);
  if (!luns.ok()) return standard;  // Its use will say what is wrong.
  const auto listed = absl::c_find_if(*luns, [standard](uint64_t wire) {
    return scsi::SameLun(wire, standard);
  });
  return listed != luns->end() ? *listed : standard;
}

absl::StatusOr<std::vector<uint8_t>> FetchVpd(Session* session, uint64_t wire,
                                              uint8_t page) {
  return Fetch(session, wire, scsi::cdb::InquiryVpd(page, kVpdBytes),
               kVpdBytes);
}

absl::Status NoSuchLun(Session* session, uint32_t lun) {
  std::vector<std::string> others;
  if (const auto luns = FetchLuns(session); luns.ok()) {
    for (const uint64_t wire : *luns) {
      const std::optional<uint64_t> number = scsi::DecodeLun(wire);
      if (number.has_value()) others.push_back(absl::StrCat(*number));
    }
  }
  return absl::NotFoundError(
      absl::StrCat("the target has no LUN ", lun, "; it has ",
                   FirstFew(std::move(others), "ls lists")));
}

absl::StatusOr<std::unique_ptr<Lun>> Lun::Open(Session* session, uint32_t lun) {
  std::unique_ptr<Lun> self(new Lun(session, WireLun(session, lun)));
  scsi::DiskOptions options;
  options.lun = self->wire_;
  options.on_recovered_error = [lun =
                                    self.get()](const scsi::SenseData& sense) {
    lun->OnRecoveredError(sense);
  };
  const absl::Status status = session->Await([&](Session::Done done) {
    auto disk =
        scsi::Disk::Create(session->initiator(), session->reactor(), options);
    if (!disk.ok()) {
      done(disk.status());
      return;
    }
    self->disk_ = *std::move(disk);
    self->disk_->Open(std::move(done));
  });
  if (absl::IsNotFound(status)) return NoSuchLun(session, lun);
  if (!status.ok()) return status;
  return self;
}

Lun::~Lun() {
  session_->RunOnReactor([this] {
    if (disk_ != nullptr) disk_->Close();
    disk_.reset();
  });
  if (recovered_errors_ > 1) {
    LogToStderr(protocol::LogLevel::kWarning,
                absl::StrCat("the disk recovered from ", recovered_errors_,
                             " errors in all; look at its health"));
  }
}

// One line for the first: a disk that ails may tell of it with each command.
void Lun::OnRecoveredError(const scsi::SenseData& sense) {
  if (++recovered_errors_ > 1) return;
  LogToStderr(protocol::LogLevel::kWarning,
              absl::StrCat("the disk recovered from an error, no data are "
                           "lost: ",
                           scsi::DescribeSense(sense)));
}

absl::Status Lun::Flush() {
  Completion completion;
  scsi::DiskIo io;
  io.op = scsi::DiskIo::Op::kFlush;
  io.context = &completion;
  io.done = [](scsi::DiskIo* finished) {
    static_cast<Completion*>(finished->context)->Signal();
  };
  session_->RunOnReactor([&] { disk_->Submit(&io); });
  completion.Wait();
  return io.status;
}

}  // namespace skiff::tools
