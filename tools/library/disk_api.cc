// The functions of skiff/disk.h.
#include <skiff/disk.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "protocol/negotiation/url.h"
#include "tools/library/context.h"
#include "tools/library/disk.h"
#include "tools/library/error.h"
#include "tools/library/handle.h"
#include "tools/library/io_check.h"
#include "tools/library/options.h"
#include "tools/library/session.h"

namespace skiff::library {
namespace {

constexpr uint32_t kMaxLun = 16383;

int NullArgument(absl::string_view name) {
  return Fail(EINVAL, absl::StrCat(name, " is NULL"));
}

// What one disk of a session is made with; strings are the session's.
skiff_disk_options WithoutStrings(skiff_disk_options options) {
  options.initiator_name = nullptr;
  options.initiator_alias = nullptr;
  return options;
}

// Ends a disk whose handle is closed.
void EndDisk(const std::shared_ptr<Disk>& disk, Ending::Done done) {
  disk->StopEvents();
  // In a later turn: callbacks run in there.
  disk->context()->Post(disk->reactor(), [disk, done] { disk->Close(done); });
}

// Opens a disk that was made.
int OpenDisk(const std::shared_ptr<Disk>& disk,
             std::optional<protocol::InitiatorOptions> login, Ending* ending,
             skiff_disk** handle) {
  *handle = static_cast<skiff_disk*>(Handles::Open(Kind::kDisk, disk));
  if (*handle == nullptr) {
    EndDisk(disk, {skiff_ignore, nullptr});
    return Fail(EMFILE, "this process has too many handles of Skiff open");
  }
  disk->set_handle(*handle);
  disk->context()->Run(disk->reactor(), [disk, login = std::move(login),
                                         done = ending->done()]() mutable {
    disk->Open(std::move(login), done);
  });
  const int result = ending->Finish();
  if (result == 0) return 0;
  // The caller waited, and has no disk to close. Its error stays the last.
  Handles::Close(std::exchange(*handle, nullptr));
  const std::string message = LastError();
  Ending end(disk->context().get(), nullptr, nullptr);
  EndDisk(disk, end.done());
  end.Finish();
  return Fail(-result, message);
}

// The one that `handle` names; null with a remembered error in `*error`.
std::shared_ptr<Disk> ShareDisk(skiff_disk* handle, int* error) {
  const Pinned<Disk> pinned(handle);
  *error = pinned.error();
  return *error == 0 ? pinned.Share() : nullptr;
}

// --- I/O.

// Several I/Os that one caller waits for.
class Group {
 public:
  Group(size_t count, Ending::Done done) : left_(count), done_(done) {}
  Ending::Done member() { return {OnOne, this}; }

 private:
  // All on the thread of the disk.
  static void OnOne(void* user, int result, const char* message) {
    auto* const self = static_cast<Group*>(user);
    if (result != 0 && self->result_ == 0) {
      self->result_ = result;
      self->message_ = message;
    }
    if (--self->left_ == 0) self->done_(self->result_, self->message_.c_str());
  }

  size_t left_;
  const Ending::Done done_;
  int result_ = 0;
  std::string message_;
};

void Fill(const skiff_io& given, Io* io) {
  using Op = scsi::DiskIo::Op;
  static constexpr Op kOps[] = {
      Op::kRead,  Op::kRead,        Op::kWrite,          Op::kFlush,
      Op::kUnmap, Op::kWriteZeroes, Op::kCompareAndWrite};
  io->done = {given.done, given.user};
  io->io.op = kOps[given.op];
  io->io.fua = (given.flags & SKIFF_IO_FUA) != 0;
  io->io.may_unmap = (given.flags & SKIFF_IO_MAY_UNMAP) != 0;
  io->io.offset = given.offset;
  io->io.length = given.length;
  io->CopyIov(given.iov, given.iov_count);
}

const skiff_io* At(const skiff_io* ios, size_t index) {
  return reinterpret_cast<const skiff_io*>(
      reinterpret_cast<const uint8_t*>(ios) + index * ios->struct_size);
}

// Copies; most calls have one.
using Ios = absl::InlinedVector<skiff_io, 1>;

// 0, or a remembered error; all of them are alike in whether they wait.
int ReadAll(const skiff_io* given, size_t count, Ios* ios) {
  ios->resize(count);
  for (size_t i = 0; i < count; ++i) {
    const skiff_io* one = At(given, i);
    if (one->struct_size != given->struct_size) {
      return Fail(EINVAL,
                  absl::StrCat("skiff_io number ", i, " has struct_size ",
                               one->struct_size, ", but the first has ",
                               given->struct_size));
    }
    skiff_io* const known = &(*ios)[i];
    if (const int error = ReadIo(one, i, known)) return error;
    if ((known->done == nullptr) != (ios->front().done == nullptr)) {
      return Fail(EINVAL, absl::StrCat("skiff_io number ", i,
                                       known->done == nullptr ? " has no done"
                                                              : " has a done",
                                       ", unlike the first: set it in all, or "
                                       "in none"));
    }
  }
  return 0;
}

// Each has a `done`.
int StartAll(Disk* disk, const Ios& ios, uint64_t* ids) {
  if (const int error = disk->CheckReady(/*for_commands=*/false)) return error;
  if (const int error = disk->Reserve(ios.size())) return error;
  const bool here = disk->OnReactor();
  std::vector<Io*> batch;
  if (!here) batch.reserve(ios.size());
  for (size_t i = 0; i < ios.size(); ++i) {
    Io* const io = disk->NewIo();
    Fill(ios[i], io);
    io->id = disk->NextId();
    if (ids != nullptr) ids[i] = io->id;
    if (here) {
      disk->Start(io);
    } else {
      batch.push_back(io);
    }
  }
  if (!here) {
    disk->context()->Post(disk->reactor(), [disk, batch = std::move(batch)] {
      for (Io* io : batch) disk->Start(io);
    });
  }
  return 0;
}

int StartAndWait(const std::shared_ptr<Disk>& disk, Ios* ios, uint64_t* ids) {
  Ending ending(disk->context().get(), nullptr, nullptr);
  if (ending.error() != 0) return ending.error();
  Group group(ios->size(), ending.done());
  for (skiff_io& io : *ios) {
    io.done = group.member().function;
    io.user = group.member().user;
  }
  const int error = StartAll(disk.get(), *ios, ids);
  return error != 0 ? error : ending.Finish();
}

int SubmitOne(skiff_disk* disk, uint32_t op, uint64_t offset, void* data,
              size_t length, uint32_t flags, skiff_done_fn done, void* user) {
  const iovec iov = {data, length};
  skiff_io io;
  SKIFF_INIT(io);
  io.op = op;
  io.flags = flags;
  io.offset = offset;
  io.length = length;
  io.iov = &iov;
  io.iov_count = op == SKIFF_IO_FLUSH ? 0 : 1;
  io.done = done;
  io.user = user;
  return skiff_disk_submit(disk, &io, 1, nullptr);
}

}  // namespace
}  // namespace skiff::library

using namespace skiff::library;  // NOLINT(google-build-using-namespace)

int skiff_disk_open(skiff_context* context, const char* url,
                    const skiff_disk_options* options, skiff_done_fn done,
                    void* user, skiff_disk** disk) {
  if (disk == nullptr) return NullArgument("disk");
  *disk = nullptr;
  std::shared_ptr<Context> shared;
  {
    const Pinned<Context> pinned(context);
    if (pinned.error() != 0) return pinned.error();
    shared = pinned.Share();
  }
  if (url == nullptr) return NullArgument("url");
  skiff_disk_options known;
  if (const int error = ReadDiskOptions(*shared, options, &known)) return error;
  const auto endpoint = ParseUrl(*shared, url);
  if (!endpoint.ok()) return FailUrl(endpoint.status());
  if (!endpoint->has_lun) {
    return Fail(EINVAL, absl::StrCat(skiff::protocol::WithoutPasswords(url),
                                     " names no logical unit; write "
                                     "iscsi://host[:port]/target-name/lun"));
  }
  Ending ending(shared.get(), done, user);
  if (ending.error() != 0) return ending.error();
  auto session =
      std::make_shared<Session>(shared.get(), ReactorOf(shared.get(), known));
  const auto made = std::make_shared<Disk>(
      shared, std::move(session), WithoutStrings(known), endpoint->lun);
  return OpenDisk(made, MakeInitiatorOptions(*endpoint, known), &ending, disk);
}

int skiff_disk_open_lun(skiff_disk* sibling, uint32_t lun,
                        const skiff_disk_options* options, skiff_done_fn done,
                        void* user, skiff_disk** disk) {
  if (disk == nullptr) return NullArgument("disk");
  *disk = nullptr;
  int error = 0;
  const std::shared_ptr<Disk> other = ShareDisk(sibling, &error);
  if (error != 0) return error;
  skiff_disk_options known;
  if (const int wrong = ReadDiskOptions(*other->context(), options, &known)) {
    return wrong;
  }
  if (lun > kMaxLun) {
    return Fail(ERANGE,
                absl::StrCat("LUN ", lun, " is too large: at most ", kMaxLun));
  }
  Ending ending(other->context().get(), done, user);
  if (ending.error() != 0) return ending.error();
  const auto made = std::make_shared<Disk>(other->context(), other->session(),
                                           WithoutStrings(known), lun);
  return OpenDisk(made, std::nullopt, &ending, disk);
}

int skiff_disk_close(skiff_disk* disk, skiff_done_fn done, void* user) {
  int error = 0;
  const std::shared_ptr<Disk> closing = ShareDisk(disk, &error);
  if (error != 0) return error;
  Ending ending(closing->context().get(), done, user);
  if (ending.error() != 0) return ending.error();
  if (!Handles::Close(disk)) {
    return Fail(EBADF, "the skiff_disk is being closed by another thread");
  }
  EndDisk(closing, ending.done());
  return ending.Finish();
}

int skiff_disk_get_info(skiff_disk* disk, skiff_disk_info* info) {
  const Pinned<Disk> pinned(disk);
  if (pinned.error() != 0) return pinned.error();
  skiff_disk_info known = {};
  if (!pinned->GetInfo(&known)) {
    return Fail(ENOTCONN, "the disk is not open: nothing is known of it");
  }
  return WriteResult(info, "skiff_disk_info", known);
}

int skiff_disk_refresh(skiff_disk* disk, skiff_done_fn done, void* user) {
  int error = 0;
  const std::shared_ptr<Disk> shared = ShareDisk(disk, &error);
  if (error != 0) return error;
  if (const int wrong = shared->CheckReady(/*for_commands=*/false)) {
    return wrong;
  }
  Ending ending(shared->context().get(), done, user);
  if (ending.error() != 0) return ending.error();
  shared->context()->Post(shared->reactor(), [shared, ended = ending.done()] {
    shared->Refresh(ended);
  });
  return ending.Finish();
}

int skiff_disk_get_stats(skiff_disk* disk, skiff_disk_stats* stats) {
  int error = 0;
  const std::shared_ptr<Disk> shared = ShareDisk(disk, &error);
  if (error != 0) return error;
  if (!shared->OnReactor()) {
    if (const int wrong = shared->context()->CheckMayWait()) return wrong;
  }
  skiff_disk_stats known = {};
  shared->context()->RunAndWait(shared->reactor(),
                                [&] { shared->GetStats(&known); });
  return WriteResult(stats, "skiff_disk_stats", known);
}

int skiff_disk_reconnect(skiff_disk* disk) {
  const Pinned<Disk> pinned(disk);
  if (pinned.error() != 0) return pinned.error();
  if (const int error = pinned->CheckReady(/*for_commands=*/true)) return error;
  pinned->context()->Post(pinned->reactor(),
                          [shared = pinned.Share()] { shared->Reconnect(); });
  return 0;
}

int skiff_disk_submit(skiff_disk* disk, const skiff_io* ios, size_t count,
                      uint64_t* ids) {
  std::shared_ptr<Disk> waits;
  Ios known;
  {
    const Pinned<Disk> pinned(disk);
    if (pinned.error() != 0) return pinned.error();
    if (count == 0) return 0;
    if (ios == nullptr) return NullArgument("ios");
    if (count > Disk::kMaxInFlight) {
      return Fail(ENOBUFS,
                  absl::StrCat(count, " are too many at once: at most ",
                               Disk::kMaxInFlight));
    }
    if (const int error = ReadAll(ios, count, &known)) return error;
    if (known.front().done != nullptr) return StartAll(&*pinned, known, ids);
    waits = pinned.Share();
  }
  return StartAndWait(waits, &known, ids);
}

int skiff_disk_read(skiff_disk* disk, uint64_t offset, void* data,
                    size_t length, skiff_done_fn done, void* user) {
  return SubmitOne(disk, SKIFF_IO_READ, offset, data, length, 0, done, user);
}

int skiff_disk_write(skiff_disk* disk, uint64_t offset, const void* data,
                     size_t length, uint32_t flags, skiff_done_fn done,
                     void* user) {
  // Only read from.
  return SubmitOne(disk, SKIFF_IO_WRITE, offset, const_cast<void*>(data),
                   length, flags, done, user);
}

int skiff_disk_flush(skiff_disk* disk, skiff_done_fn done, void* user) {
  return SubmitOne(disk, SKIFF_IO_FLUSH, 0, nullptr, 0, 0, done, user);
}

int skiff_disk_cancel(skiff_disk* disk, uint64_t id) {
  const Pinned<Disk> pinned(disk);
  if (pinned.error() != 0) return pinned.error();
  if (!pinned->Knows(id) || (pinned->OnReactor() && !pinned->Find(id))) {
    return Fail(ENOENT, absl::StrCat("nothing of number ", id,
                                     " is under way on this disk"));
  }
  // In a later turn: callbacks run in there.
  pinned->context()->Post(
      pinned->reactor(), [shared = pinned.Share(), id] { shared->Cancel(id); });
  return 0;
}

int skiff_disk_abort(skiff_disk* disk, uint64_t id, skiff_done_fn done,
                     void* user) {
  int error = 0;
  const std::shared_ptr<Disk> shared = ShareDisk(disk, &error);
  if (error != 0) return error;
  if (!shared->Knows(id)) {
    return Fail(ENOENT,
                absl::StrCat("this disk never had anything of number ", id));
  }
  Ending ending(shared->context().get(), done, user);
  if (ending.error() != 0) return ending.error();
  shared->context()->Post(
      shared->reactor(),
      [shared, id, ended = ending.done()] { shared->Abort(id, ended); });
  return ending.Finish();
}

int skiff_disk_reset(skiff_disk* disk, skiff_done_fn done, void* user) {
  int error = 0;
  const std::shared_ptr<Disk> shared = ShareDisk(disk, &error);
  if (error != 0) return error;
  if (const int wrong = shared->CheckReady(/*for_commands=*/true)) {
    return wrong;
  }
  Ending ending(shared->context().get(), done, user);
  if (ending.error() != 0) return ending.error();
  shared->context()->Post(shared->reactor(), [shared, ended = ending.done()] {
    shared->Reset(ended);
  });
  return ending.Finish();
}

int skiff_disk_command(skiff_disk* disk, const skiff_command* command,
                       skiff_command_result* result, skiff_done_fn done,
                       void* user, uint64_t* id) {
  int error = 0;
  const std::shared_ptr<Disk> shared = ShareDisk(disk, &error);
  if (error != 0) return error;
  skiff_command known;
  if (const int wrong = ReadCommand(command, &known)) return wrong;
  if (result != nullptr) {
    const skiff_command_result nothing = {};
    if (const int wrong =
            WriteResult(result, "skiff_command_result", nothing)) {
      return wrong;
    }
  }
  if (const int wrong = shared->CheckReady(/*for_commands=*/true)) {
    return wrong;
  }
  Ending ending(shared->context().get(), done, user);
  if (ending.error() != 0) return ending.error();
  if (const int wrong = shared->Reserve(1)) return wrong;
  auto raw = shared->NewCommand(known, result);
  raw->done = ending.done();
  raw->id = shared->NextId();
  if (id != nullptr) *id = raw->id;
  if (shared->OnReactor()) {
    shared->Start(std::move(raw));
  } else {
    shared->context()->Post(shared->reactor(),
                            [shared, raw = std::move(raw)]() mutable {
                              shared->Start(std::move(raw));
                            });
  }
  return ending.Finish();
}
