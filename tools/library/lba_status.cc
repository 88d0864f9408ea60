// skiff_disk_get_lba_status(): a command, and what its answer says.
#include <skiff/disk.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "scsi/initiator/cdb.h"
#include "scsi/initiator/parameter_data.h"
#include "tools/library/context.h"
#include "tools/library/disk.h"
#include "tools/library/error.h"
#include "tools/library/handle.h"

namespace skiff::library {
namespace {

// What is asked for at once, with the header (SBC-3 section 5.6.2).
constexpr uint32_t kMaxExtents = 256;
constexpr uint32_t kAnswerBytes = 8 + kMaxExtents * 16;

// One question. It is its own until it was answered.
struct Query {
  uint64_t offset;
  uint32_t block_size;
  uint64_t size_bytes;
  skiff_extent* extents;
  size_t capacity;
  size_t* count;
  Ending::Done done;
  std::vector<uint8_t> answer;
  skiff_command_result result;
};

// 0, or what is wrong with the answer.
absl::Status Read(const Query& query) {
  const auto parsed = scsi::ParseGetLbaStatus(absl::MakeConstSpan(
      query.answer.data(), static_cast<size_t>(query.result.data_in_length)));
  if (!parsed.ok()) return parsed.status();
  uint64_t next = query.offset / query.block_size;
  for (const scsi::LbaStatus& status : *parsed) {
    // Whoever asks on from the end of the last one must get ahead.
    const bool follows = status.lba == next && status.blocks > 0 &&
                         status.lba <= query.size_bytes / query.block_size;
    if (*query.count == query.capacity || !follows) break;
    next += status.blocks;
    skiff_extent& extent = query.extents[(*query.count)++];
    extent.offset = status.lba * query.block_size;
    extent.length = std::min(uint64_t{status.blocks} * query.block_size,
                             query.size_bytes - extent.offset);
    // Later standards have more, of which none says that there are no data.
    extent.state = status.provisioning > SKIFF_EXTENT_ANCHORED
                       ? uint32_t{SKIFF_EXTENT_MAPPED}
                       : status.provisioning;
    extent.reserved = 0;
  }
  if (*query.count > 0 && query.extents[0].offset == query.offset) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat(
      "the answer to GET LBA STATUS does not begin at byte ", query.offset));
}

void OnAnswer(void* user, int result, const char* message) {
  const std::unique_ptr<Query> query(static_cast<Query*>(user));
  if (result != 0) return query->done(result, message);
  query->done(Read(*query));
}

// 0, or a remembered error.
int CheckQuery(const skiff_disk_info& info, uint64_t offset,
               const skiff_extent* extents, size_t capacity,
               const size_t* count) {
  if (extents == nullptr || capacity == 0 || count == nullptr) {
    return Fail(EINVAL, "there is no place for extents and their count");
  }
  if (offset % info.block_size != 0) {
    return Fail(EINVAL, absl::StrCat("offset ", offset,
                                     " is no multiple of the block size, ",
                                     info.block_size));
  }
  if (offset >= info.size_bytes) {
    return Fail(ERANGE,
                absl::StrCat("byte ", offset, " is not on the disk, which has ",
                             info.size_bytes));
  }
  return 0;
}

}  // namespace
}  // namespace skiff::library

using namespace skiff::library;  // NOLINT(google-build-using-namespace)

int skiff_disk_get_lba_status(skiff_disk* disk, uint64_t offset,
                              skiff_extent* extents, size_t capacity,
                              size_t* count, skiff_done_fn done, void* user) {
  std::shared_ptr<Disk> shared;
  {
    const Pinned<Disk> pinned(disk);
    if (pinned.error() != 0) return pinned.error();
    shared = pinned.Share();
  }
  if (const int error = shared->CheckReady(/*for_commands=*/false)) {
    return error;
  }
  skiff_disk_info info = {};
  if (!shared->GetInfo(&info)) {
    return Fail(ENOTCONN, "the disk is not open: nothing is known of it");
  }
  if (const int error = CheckQuery(info, offset, extents, capacity, count)) {
    return error;
  }
  Ending ending(shared->context().get(), done, user);
  if (ending.error() != 0) return ending.error();
  if (const int error = shared->Reserve(1)) return error;
  *count = 0;
  auto query = std::make_unique<Query>(Query{offset,
                                             info.block_size,
                                             info.size_bytes,
                                             extents,
                                             capacity,
                                             count,
                                             ending.done(),
                                             std::vector<uint8_t>(kAnswerBytes),
                                             {}});
  SKIFF_INIT(query->result);
  const skiff::scsi::Cdb cdb =
      skiff::scsi::cdb::GetLbaStatus(offset / info.block_size, kAnswerBytes);
  const iovec room = {query->answer.data(), query->answer.size()};
  skiff_command command;
  SKIFF_INIT(command);
  command.cdb = cdb.bytes.data();
  command.cdb_length = cdb.length;
  command.data_in = &room;
  command.data_in_count = 1;
  auto raw = shared->NewCommand(command, &query->result);
  raw->done = {OnAnswer, query.release()};
  raw->id = shared->NextId();
  shared->context()->Run(shared->reactor(),
                         [shared, raw = std::move(raw)]() mutable {
                           shared->Start(std::move(raw));
                         });
  return ending.Finish();
}
