#include "scsi/backend/medium_store.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "scsi/backend/device_name.h"

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
  File(const std::string& path, int flags)
      : fd_(open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW,
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

// Over what is there, in place: on a full disk there is room for nothing else.
absl::Status WriteFile(const std::string& path, const std::string& text) {
  const std::string directory = DirectoryOf(path);
  if (mkdir(directory.c_str(), S_IRWXU) != 0 && errno != EEXIST) {
    return Failed("create", directory);
  }
  const File file(path, O_WRONLY | O_CREAT);
  if (file.fd() < 0) return Failed("write", path);
  const ssize_t n = pwrite(file.fd(), text.data(), text.size(), 0);
  if (n >= 0 && n != static_cast<ssize_t>(text.size())) errno = ENOSPC;
  if (n != static_cast<ssize_t>(text.size()) || fsync(file.fd()) != 0) {
    return Failed("write", path);
  }
  const File parent(directory, O_RDONLY | O_DIRECTORY);
  if (parent.fd() >= 0) fsync(parent.fd());  // Some file systems have no such.
  return absl::OkStatus();
}

absl::Status WriteAttribute(int fd, const std::string& text) {
  if (fsetxattr(fd, kAttribute, text.data(), text.size(), 0) != 0) {
    return Failed("set", kAttribute);
  }
  // A descriptor of its own, which takes no error away from others'. A first
  // fsync may only tell that data could not be written, and do no more.
  const std::string again = absl::StrCat("/proc/self/fd/", fd);
  const int own = open(again.c_str(), O_RDONLY | O_CLOEXEC);
  if (own < 0) return absl::OkStatus();
  if (fsync(own) != 0) fsync(own);
  close(own);
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
    store->FindDevicePlace();
  } else {
    store->FindFilePlace();
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

void MediumStore::FindFilePlace() {
  FindBirth(fd_, "", &inode_, &born_ns_);
  // Asking for the length says whether there can be attributes.
  const bool attributes =
      fgetxattr(fd_, kAttribute, nullptr, 0) >= 0 || errno == ENODATA;
  if (attributes) {
    place_.kind = Place::Kind::kAttribute;
  } else {
    place_ = {Place::Kind::kFile, absl::StrCat(options_.path, kBeside)};
  }
}

void MediumStore::FindDevicePlace() {
  struct stat facts = {};
  fstat(fd_, &facts);
  const DeviceName device = DeviceNameOf(facts.st_rdev, options_.path);
  if (device.unique) fixed_identity_ = MediumIdentityOf(device.name);
  if (!device.backing_file.empty()) {
    FindBirth(-1, device.backing_file.c_str(), &inode_, &born_ns_);
  }
  if (options_.state_directory.empty()) return;
  place_ = {Place::Kind::kFile, absl::StrCat(options_.state_directory, "/",
                                             FileNameOf(device.name))};
}

absl::StatusOr<std::string> MediumStore::Read() const {
  char text[kMediumRecordBytes + 1];
  ssize_t n = 0;
  if (place_.kind == Place::Kind::kAttribute) {
    n = fgetxattr(fd_, kAttribute, text, sizeof(text));
    if (n < 0 && errno == ENODATA) return std::string();
  } else if (place_.kind == Place::Kind::kFile) {
    const File file(place_.path, O_RDONLY | O_NONBLOCK);
    if (file.fd() < 0 && errno == ENOENT) return std::string();
    n = file.fd() < 0 ? -1 : pread(file.fd(), text, sizeof(text), 0);
  }
  if (n < 0)
    return Failed("read", place_.path.empty() ? kAttribute : place_.path);
  return std::string(text, static_cast<size_t>(n));
}

absl::Status MediumStore::Write(int fd, const Place& place,
                                const MediumRecord& record) {
  const std::string text = EncodeMediumRecord(record);
  switch (place.kind) {
    case Place::Kind::kAttribute:
      return WriteAttribute(fd, text);
    case Place::Kind::kFile:
      return WriteFile(place.path, text);
    case Place::Kind::kNone:
      break;
  }
  return absl::FailedPreconditionError("there is no state_directory");
}

bool MediumStore::BelongsHere(const MediumRecord& record) const {
  if (record.inode != inode_) return false;
  return record.born_ns == 0 || born_ns_ == 0 || record.born_ns == born_ns_;
}

absl::Status MediumStore::Load() {
  const absl::StatusOr<std::string> text = Read();
  std::optional<MediumRecord> found;
  if (text.ok() && !text->empty()) found = DecodeMediumRecord(*text);
  if (!text.ok() || (!text->empty() && !found.has_value())) {
    // Not ours to write over.
    Log(LogLevel::kError,
        absl::StrCat("what is kept with it cannot be understood, and nothing "
                     "will be: a failed flush would be forgotten (",
                     text.ok() ? "no such record" : text.status().message(),
                     "); remove ",
                     place_.path.empty() ? kAttribute : place_.path));
    place_ = {};
  } else if (found.has_value() && BelongsHere(*found)) {
    record_ = *found;
  } else if (found.has_value()) {
    Log(LogLevel::kWarning,
        absl::StrCat("is a copy of, or stands in the place of, the medium ",
                     found->identity, ": it is another disk"));
    // What is missing in a medium is missing in its copies. A file beside it is
    // no part of it.
    record_ = *found;
    Begin(/*keep_loss=*/place_.kind == Place::Kind::kAttribute);
  } else {
    Begin(/*keep_loss=*/false);
  }
  if (!fixed_identity_.empty()) record_.identity = fixed_identity_;
  return options_.clear_data_loss ? Clear() : absl::OkStatus();
}

void MediumStore::Begin(bool keep_loss) {
  if (!keep_loss) record_.lost_at = record_.lost_for = 0;
  record_.identity.clear();
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
  record_.identity =
      fixed_identity_.empty() ? MakeMediumIdentity() : fixed_identity_;
  absl::Status written = Write(fd_, place_, record_);
  if (!written.ok() && place_.kind == Place::Kind::kAttribute) {
    place_ = {Place::Kind::kFile, absl::StrCat(options_.path, kBeside)};
    written = Write(fd_, place_, record_);
  }
  if (written.ok()) return;
  record_.identity.clear();
  Log(LogLevel::kError,
      absl::StrCat("nothing can be kept with it (", written.message(),
                   "): a failed flush would be forgotten when this process "
                   "ends, and the serial comes from target name and LUN"));
}

absl::Status MediumStore::Clear() {
  if (record_.lost_at == 0) {
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
  const absl::Status written = Write(fd_, place_, cleared);
  if (!written.ok()) {
    return absl::Status(
        written.code(),
        absl::StrCat(options_.path,
                     ": the data loss cannot be cleared: ", written.message()));
  }
  Log(LogLevel::kWarning, absl::StrCat("served again although ", data_loss(),
                                       ", as was asked for"));
  record_ = cleared;
  return absl::OkStatus();
}

std::string MediumStore::data_loss() const {
  if (record_.lost_at == 0) return "";
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
  if (lost.identity.empty()) lost.identity = MakeMediumIdentity();
  // The descriptor may be closed before the thread has ended.
  const int fd = fcntl(fd_, F_DUPFD_CLOEXEC, 3);
  {
    const std::lock_guard<std::mutex> lock(writing_->mutex);
    writing_->ended = false;
  }
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([writing = writing_, place = place_, lost, fd, log = options_.log,
               path = options_.path] {
    const absl::Status written = Write(fd, place, lost);
    if (fd >= 0) close(fd);
    if (log) {
      log(LogLevel::kError,
          written.ok()
              ? absl::StrCat(path,
                             ": that data may be lost is remembered; after the "
                             "next start the LUN says so until it is cleared")
              : absl::StrCat(path,
                             ": that data may be lost CANNOT BE REMEMBERED (",
                             written.message(),
                             "): the next start will not know of it"));
    }
    const std::lock_guard<std::mutex> lock(writing->mutex);
    writing->ended = true;
    writing->changed.notify_all();
  }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace skiff::scsi
