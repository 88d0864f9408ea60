#include "scsi/backend/medium_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "scsi/backend/device_name.h"
#include "transport/thread/background_threads.h"

namespace skiff::scsi {
namespace {

using transport::LogLevel;

constexpr char kAttribute[] = "user.skiff.medium";
constexpr char kBeside[] = ".skiff";
// What a disk that hangs may hold the end of the process.
constexpr std::chrono::seconds kWriteTimeout{5};

absl::Status Failed(absl::string_view what, absl::string_view path) {
  const int error = errno;
  return absl::ErrnoToStatus(error, absl::StrCat("cannot ", what, " ", path));
}

// A name for a file, that tells also people which device it is about.
std::string FileNameOf(absl::string_view device) {
  std::string name;
  for (const char c : device) {
    const bool plain = absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                       c == '-' || c == '.';
    name.push_back(plain ? c : '_');
  }
  constexpr size_t kMax = 120;
  if (name.size() > kMax) name = name.substr(name.size() - kMax);
  return absl::StrCat(name, "-", MediumIdentityOf(device).substr(0, 8),
                      ".medium");
}

// An open file that is closed in the end.
class File {
 public:
  File(const std::string& path, int flags, bool follow = false)
      : fd_(open(path.c_str(), flags | O_CLOEXEC | (follow ? 0 : O_NOFOLLOW),
                 S_IRUSR | S_IWUSR)) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  int fd() const { return fd_; }

 private:
  const int fd_;
};

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

absl::Status SyncDirectory(const MediumStore::Calls& calls,
                           const std::string& path) {
  const File directory(path, O_RDONLY | O_DIRECTORY);
  // EINVAL: the file system knows no such thing.
  if (directory.fd() < 0 ||
      (calls.fsync(directory.fd()) != 0 && errno != EINVAL)) {
    return Failed("sync", path);
  }
  return absl::OkStatus();
}

// Whether a file holds what is no record: somebody else's, if it is longer than
// one.
bool HoldsOther(int fd, bool* longer) {
  char text[kMediumRecordBytes + 1];
  const ssize_t n = pread(fd, text, sizeof(text), 0);
  if (n <= 0) return false;
  *longer = static_cast<size_t>(n) > kMediumRecordBytes;
  return !DecodeMediumRecord({text, static_cast<size_t>(n)}).has_value();
}

// Over what is there, in place: on a full disk there is room for nothing else.
absl::Status WriteFile(const MediumStore::Calls& calls, const std::string& path,
                       const std::string& text, bool replace) {
  const std::string directory = DirectoryOf(path);
  if (mkdir(directory.c_str(), S_IRWXU) == 0) {
    absl::Status status = SyncDirectory(calls, DirectoryOf(directory));
    if (!status.ok()) return status;
  } else if (errno != EEXIST) {
    return Failed("create", directory);
  }
  const File file(path, O_RDWR | O_CREAT | O_NONBLOCK);
  if (file.fd() < 0) return Failed("write", path);
  bool longer = false;
  if (HoldsOther(file.fd(), &longer) && (longer || !replace)) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is no record, and not written over"));
  }
  const ssize_t n = pwrite(file.fd(), text.data(), text.size(), 0);
  if (n >= 0 && n != static_cast<ssize_t>(text.size())) errno = ENOSPC;
  if (n != static_cast<ssize_t>(text.size()) || calls.fsync(file.fd()) != 0) {
    return Failed("write", path);
  }
  return SyncDirectory(calls, directory);
}

// Opens a file anew: such a descriptor takes no error away from others'.
File OpenAgain(int fd) {
  return File(absl::StrCat("/proc/self/fd/", fd), O_RDONLY, /*follow=*/true);
}

absl::Status WriteAttribute(const MediumStore::Calls& calls, int fd,
                            const std::string& text) {
  if (calls.fsetxattr(fd, kAttribute, text.data(), text.size(), 0) != 0) {
    return Failed("set", kAttribute);
  }
  // A first fsync may only tell that data could not be written, and do no more.
  const File own = OpenAgain(fd);
  if (own.fd() < 0 ||
      (calls.fsync(own.fd()) != 0 && calls.fsync(own.fd()) != 0)) {
    return Failed("sync", kAttribute);
  }
  return absl::OkStatus();
}

}  // namespace

// Shared with the thread that writes.
struct MediumStore::Writing {
  std::atomic<bool> begun{false};
  std::mutex mutex;
  std::condition_variable changed;
  bool ended = true;
};

MediumStore::MediumStore(int fd, const Options& options)
    : fd_(fd), options_(options), writing_(std::make_shared<Writing>()) {}

MediumStore::~MediumStore() {
  std::unique_lock<std::mutex> lock(writing_->mutex);
  writing_->changed.wait_for(lock, kWriteTimeout,
                             [this] { return writing_->ended; });
}

void MediumStore::Log(LogLevel level, absl::string_view message) const {
  if (options_.log)
    options_.log(level, absl::StrCat(options_.path, ": ", message));
}

absl::StatusOr<std::unique_ptr<MediumStore>> MediumStore::Open(
    int fd, const Options& options) {
  std::unique_ptr<MediumStore> store(new MediumStore(fd, options));
  struct stat facts = {};
  if (fstat(fd, &facts) == 0 && S_ISBLK(facts.st_mode)) {
    store->FindDevicePlaces();
  } else {
    store->FindFilePlaces();
  }
  if (absl::Status status = store->Load(); !status.ok()) return status;
  return store;
}

namespace {

void FindBirth(int fd, const char* path, uint64_t* inode, int64_t* born_ns) {
  struct statx facts = {};
  const int flags = fd >= 0 ? AT_EMPTY_PATH : 0;
  if (statx(fd >= 0 ? fd : AT_FDCWD, path, flags, STATX_INO | STATX_BTIME,
            &facts) != 0) {
    return;
  }
  *inode = facts.stx_ino;
  if ((facts.stx_mask & STATX_BTIME) != 0) {
    *born_ns = facts.stx_btime.tv_sec * 1000000000 +
               static_cast<int64_t>(facts.stx_btime.tv_nsec);
  }
}

}  // namespace

const char* MediumStore::Place::name() const {
  return kind == Kind::kAttribute ? kAttribute : path.c_str();
}

void MediumStore::FindFilePlaces() {
  FindBirth(fd_, "", &inode_, &born_ns_);
  // Asking for the length says whether there can be attributes. One that cannot
  // be read for another reason is there.
  const bool attributes =
      options_.calls.fgetxattr(fd_, kAttribute, nullptr, 0) >= 0 ||
      (errno != ENOTSUP && errno != ENOSYS);
  if (attributes) places_.push_back({Place::Kind::kAttribute});
  places_.push_back({Place::Kind::kFile, absl::StrCat(options_.path, kBeside),
                     /*spare=*/attributes});
  if (options_.state_directory.empty()) return;
  std::error_code error;
  const std::filesystem::path absolute =
      std::filesystem::absolute(options_.path, error);
  if (error) return;
  places_.push_back(
      {Place::Kind::kFile,
       absl::StrCat(options_.state_directory, "/",
                    FileNameOf(absl::StrCat("file-", absolute.string()))),
       /*spare=*/true});
}

void MediumStore::FindDevicePlaces() {
  struct stat facts = {};
  fstat(fd_, &facts);
  const DeviceName device = DeviceNameOf(facts.st_rdev, options_.path);
  if (device.unique) fixed_identity_ = MediumIdentityOf(device.name);
  if (!device.backing_file.empty()) {
    FindBirth(-1, device.backing_file.c_str(), &inode_, &born_ns_);
  }
  if (options_.state_directory.empty()) return;
  places_.push_back(
      {Place::Kind::kFile,
       absl::StrCat(options_.state_directory, "/", FileNameOf(device.name))});
}

absl::StatusOr<std::optional<MediumRecord>> MediumStore::Read(
    const Place& place) const {
  char text[kMediumRecordBytes + 1];
  ssize_t n = 0;
  if (place.kind == Place::Kind::kAttribute) {
    n = options_.calls.fgetxattr(fd_, kAttribute, text, sizeof(text));
    if (n < 0 && errno == ENODATA) return std::nullopt;
  } else {
    struct stat facts = {};
    if (lstat(place.path.c_str(), &facts) != 0) {
      // Nothing of ours is where only others may look.
      if (errno == ENOENT ||
          (place.spare && (errno == EACCES || errno == ENOTDIR))) {
        return std::nullopt;
      }
      return Failed("read", place.path);
    }
    const File file(place.path, O_RDONLY | O_NONBLOCK);
    n = file.fd() < 0 ? -1 : pread(file.fd(), text, sizeof(text), 0);
    // 0: it could not be written when it was made.
    if (n == 0 ||
        (place.spare && n > static_cast<ssize_t>(kMediumRecordBytes))) {
      return std::nullopt;
    }
  }
  if (n < 0) return Failed("read", place.name());
  std::optional<MediumRecord> record =
      DecodeMediumRecord({text, static_cast<size_t>(n)});
  if (!record.has_value()) {
    return absl::DataLossError(absl::StrCat(place.name(), " is no record"));
  }
  return record;
}

absl::Status MediumStore::Write(const Calls& calls, int fd, const Place& place,
                                const MediumRecord& record) {
  const std::string text = EncodeMediumRecord(record);
  if (place.kind == Place::Kind::kAttribute) {
    return WriteAttribute(calls, fd, text);
  }
  return WriteFile(calls, place.path, text, /*replace=*/place.unreadable);
}

bool MediumStore::BelongsHere(const MediumRecord& record) const {
  if (record.inode != inode_) return false;
  return record.born_ns == 0 || born_ns_ == 0 || record.born_ns == born_ns_;
}

absl::Status MediumStore::Load() {
  std::optional<MediumRecord> own;
  std::optional<MediumRecord> other;
  MediumRecord lost;  // If lost_at is not 0.
  size_t home = 0;
  for (size_t i = 0; i < places_.size(); ++i) {
    Place& place = places_[i];
    const absl::StatusOr<std::optional<MediumRecord>> found = Read(place);
    if (!found.ok()) {
      place.unreadable = true;
      if (unreadable_.empty())
        unreadable_ = std::string(found.status().message());
      continue;
    }
    if (!found->has_value()) continue;
    const MediumRecord& record = **found;
    if (BelongsHere(record)) {
      if (!own.has_value()) home = i;
      if (!own.has_value()) own = record;
    } else {
      if (!other.has_value()) other = record;
      // What is missing in a medium is missing in its copies, which have its
      // attribute. A file beside it may be left from another, but whoever
      // restores a medium may give it another inode.
      if (place.kind == Place::Kind::kFile && own.has_value()) continue;
    }
    place.says_lost = record.lost_at != 0;
    if (lost.lost_at == 0) lost = record;
  }
  if (own.has_value()) {
    std::rotate(places_.begin(), places_.begin() + static_cast<ptrdiff_t>(home),
                places_.begin() + static_cast<ptrdiff_t>(home) + 1);
    record_ = *own;
  }
  record_.lost_at = lost.lost_at;
  record_.lost_for = lost.lost_for;
  if (!own.has_value() && unreadable_.empty()) {
    if (other.has_value()) {
      Log(LogLevel::kWarning,
          absl::StrCat("is a copy of, or stands in the place of, the medium ",
                       other->identity, ": it is another disk"));
    }
    Begin();
  }
  if (!fixed_identity_.empty()) record_.identity = fixed_identity_;
  return options_.clear_data_loss ? Clear() : absl::OkStatus();
}

void MediumStore::Begin() {
  record_.inode = inode_;
  record_.born_ns = born_ns_;
  if (options_.read_only) {
    if (!fixed_identity_.empty()) return;
    Log(LogLevel::kWarning,
        "has no identity of its own, and gets none while it is served "
        "read-only: the serial comes from target name and LUN, unless one is "
        "given");
    return;
  }
  NoteUnwritten();
  record_.identity =
      fixed_identity_.empty() ? MakeMediumIdentity() : fixed_identity_;
  std::string why = places_.empty() ? "there is no state_directory" : "";
  for (size_t i = 0; i < places_.size(); ++i) {
    const absl::Status written =
        Write(options_.calls, fd_, places_[i], record_);
    if (written.ok()) {
      places_[i].says_lost = record_.lost_at != 0;
      std::rotate(places_.begin(), places_.begin() + static_cast<ptrdiff_t>(i),
                  places_.begin() + static_cast<ptrdiff_t>(i) + 1);
      return;
    }
    absl::StrAppend(&why, why.empty() ? "" : "; ", written.message());
  }
  record_.identity.clear();
  Log(LogLevel::kError,
      absl::StrCat("nothing can be kept with it (", why,
                   "): a failed flush would be forgotten when this process "
                   "ends",
                   fixed_identity_.empty()
                       ? ", and the serial comes from target name and LUN, "
                         "unless one is given"
                       : ""));
}

// Data of a process before this one may not have been written, and the kernel
// tells that to the first who asks: to the descriptor that makes the record
// stable, and not to those that are opened after it.
void MediumStore::NoteUnwritten() {
  const File own = OpenAgain(fd_);
  if (own.fd() < 0 || options_.calls.fsync(own.fd()) == 0 || errno == EINVAL) {
    return;
  }
  const int error = errno;
  Log(LogLevel::kError, absl::StrCat("what was written before it was served "
                                     "could not be made stable: ",
                                     std::strerror(error)));
  if (record_.lost_at != 0) return;
  record_.lost_at = absl::ToUnixSeconds(absl::Now());
  record_.lost_for = error;
}

absl::Status MediumStore::Clear() {
  const std::string loss = data_loss();
  if (loss.empty()) {
    Log(LogLevel::kInfo, "nothing is known to be lost: nothing to clear");
    return absl::OkStatus();
  }
  if (options_.read_only) {
    return absl::FailedPreconditionError(
        absl::StrCat(options_.path,
                     " is served read-only: clear its data loss where it is "
                     "served read-write"));
  }
  MediumRecord cleared = record_;
  cleared.lost_at = cleared.lost_for = 0;
  cleared.inode = inode_;
  cleared.born_ns = born_ns_;
  if (cleared.identity.empty()) cleared.identity = MakeMediumIdentity();
  absl::Status written =
      places_.empty()
          ? absl::FailedPreconditionError("there is no state_directory")
          : absl::OkStatus();
  for (size_t i = 0; i < places_.size() && written.ok(); ++i) {
    Place& place = places_[i];
    if (i > 0 && !place.says_lost && !place.unreadable) continue;
    written = Write(options_.calls, fd_, place, cleared);
    if (written.ok()) place.says_lost = place.unreadable = false;
  }
  if (!written.ok()) {
    return absl::Status(
        written.code(),
        absl::StrCat(options_.path,
                     ": the data loss cannot be cleared: ", written.message()));
  }
  Log(LogLevel::kWarning,
      absl::StrCat("served again although ", loss, ", as was asked for",
                   record_.identity.empty() ? "; its identity is new" : ""));
  record_ = cleared;
  unreadable_.clear();
  return absl::OkStatus();
}

std::string MediumStore::data_loss() const {
  if (record_.lost_at == 0 && unreadable_.empty()) return "";
  if (record_.lost_at == 0) {
    return absl::StrCat("what is kept with it cannot be read: ", unreadable_);
  }
  return absl::StrCat(
      "data that were acknowledged may be lost: a flush failed at ",
      absl::FormatTime("%Y-%m-%dT%H:%M:%SZ",
                       absl::FromUnixSeconds(record_.lost_at),
                       absl::UTCTimeZone()),
      " (", std::strerror(record_.lost_for), ")");
}

void MediumStore::NoteDataLoss(int error) {
  if (writing_->begun.exchange(true)) return;
  MediumRecord lost = record_;
  lost.lost_at = absl::ToUnixSeconds(absl::Now());
  lost.lost_for = error;
  lost.inode = inode_;
  lost.born_ns = born_ns_;
  if (lost.identity.empty()) lost.identity = MakeMediumIdentity();
  // The descriptor may be closed before the thread has ended.
  const int fd = fcntl(fd_, F_DUPFD_CLOEXEC, 3);
  {
    const std::lock_guard<std::mutex> lock(writing_->mutex);
    writing_->ended = false;
  }
  transport::StartBackgroundThread([writing = writing_, places = places_, lost,
                                    fd, log = options_.log,
                                    path = options_.path,
                                    calls = options_.calls] {
    std::string why = places.empty() ? "there is no state_directory" : "";
    const char* kept = nullptr;
    for (const Place& place : places) {
      absl::Status written =
          place.unreadable
              ? absl::DataLossError(absl::StrCat("cannot read ", place.name()))
              : Write(calls, fd, place, lost);
      if (written.ok()) {
        kept = place.name();
        break;
      }
      absl::StrAppend(&why, why.empty() ? "" : "; ", written.message());
    }
    if (fd >= 0) close(fd);
    if (log) {
      log(LogLevel::kError,
          kept != nullptr
              ? absl::StrCat(path, ": that data may be lost is remembered in ",
                             kept,
                             "; after the next start the LUN says so until it "
                             "is cleared")
              : absl::StrCat(path,
                             ": that data may be lost CANNOT BE REMEMBERED (",
                             why, "): the next start will not know of it"));
    }
    const std::lock_guard<std::mutex> lock(writing->mutex);
    writing->ended = true;
    writing->changed.notify_all();
  });
}

}  // namespace skiff::scsi
