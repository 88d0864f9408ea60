#include "scsi/initiator/lun_lookup.h"

#include <utility>

#include "absl/types/span.h"
#include "scsi/initiator/cdb.h"
#include "scsi/initiator/parameter_data.h"
#include "scsi/lun.h"

namespace skiff::scsi {
namespace {

// Of all the numbers that there are, with the header.
constexpr uint32_t kListBytes = 8 + 16384 * 8;

}  // namespace

LunLookup::LunLookup(CommandPort* port, transport::Reactor* reactor,
                     const RetryOptions& retry)
    : environment_{port, reactor, /*lun=*/0, retry, nullptr, nullptr},
      command_(
          &environment_,
          [](RetryingCommand* command) {
            auto* const self = static_cast<LunLookup*>(command->context());
            const uint64_t lun = self->Answer();
            std::vector<uint8_t>().swap(self->list_);
            std::exchange(self->done_, nullptr)(lun);
          },
          this) {}

void LunLookup::Start(uint32_t number,
                      absl::AnyInvocable<void(uint64_t lun)> done) {
  number_ = number;
  done_ = std::move(done);
  list_.resize(kListBytes);
  room_ = {list_.data(), list_.size()};
  command_.Prepare();
  Command& command = *command_.command();
  SetCdb(cdb::ReportLuns(kListBytes), &command);
  command.data_in = &room_;
  command.data_in_count = 1;
  command.data_in_length = kListBytes;
  command_.Start();
}

uint64_t LunLookup::Answer() const {
  const uint64_t standard = EncodeLun(number_);
  if (!command_.status().ok()) return standard;
  const auto listed = ParseReportLuns(
      absl::MakeConstSpan(list_.data(), size_t{command_.received()}));
  if (!listed.ok()) return standard;
  for (const uint64_t lun : listed->luns) {
    if (SameLun(lun, standard)) return lun;
  }
  return standard;
}

}  // namespace skiff::scsi
