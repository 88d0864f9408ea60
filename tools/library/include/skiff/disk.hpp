/// @file
/// The initiator: disks of targets, by URL.
#ifndef SKIFF_DISK_HPP_
#define SKIFF_DISK_HPP_

#include <skiff/disk.h>

#include <cerrno>
#include <cstdint>
#include <functional>
#include <memory>
#include <skiff/bytes.hpp>
#include <skiff/context.hpp>
#include <skiff/status.hpp>
#include <string>
#include <utility>
#include <vector>

namespace skiff {

/// Told of a skiff_disk_event, and why, on the disk's thread. May close or
/// destroy the disk.
using DiskEvents = std::function<void(int event, const Status& why)>;

/// The members of skiff_disk_options; only `on_event` is a callable here, and
/// `event_user` means nothing.
struct DiskOptions : skiff_disk_options {
  DiskOptions() : skiff_disk_options(internal::Init<skiff_disk_options>()) {}
  DiskEvents on_event;  ///< Empty: nobody is told.
};

/// When the data of a write are stable.
enum class Durability : uint32_t {
  kFlushed = 0,            ///< After a flush, where the disk has a cache.
  kStable = SKIFF_IO_FUA,  ///< When the write ends.
};

/// One I/O: skiff_io, filled in. What it names has to stay until its end, the
/// array of iovecs until it was started.
struct Io : skiff_io {
  Io(skiff_io_op what, uint64_t at, uint64_t bytes, Iovecs memory = {})
      : skiff_io(internal::Init<skiff_io>()) {
    op = what;
    offset = at;
    length = bytes;
    iov = memory.data();
    iov_count = memory.size() > UINT32_MAX
                    ? UINT32_MAX  // Too many, as is said of it.
                    : static_cast<uint32_t>(memory.size());
  }
  static Io Read(uint64_t offset, Iovecs memory) {
    return Io(SKIFF_IO_READ, offset, memory.bytes(), memory);
  }
  static Io Write(uint64_t offset, Iovecs memory) {
    return Io(SKIFF_IO_WRITE, offset, memory.bytes(), memory);
  }
  static Io Flush() { return Io(SKIFF_IO_FLUSH, 0, 0); }
  static Io Unmap(uint64_t offset, uint64_t length) {
    return Io(SKIFF_IO_UNMAP, offset, length);
  }
  static Io WriteZeroes(uint64_t offset, uint64_t length) {
    return Io(SKIFF_IO_WRITE_ZEROES, offset, length);
  }
  /// `memory` has what is expected, then as much to be written.
  static Io CompareAndWrite(uint64_t offset, Iovecs memory) {
    return Io(SKIFF_IO_COMPARE_AND_WRITE, offset, memory.bytes() / 2, memory);
  }
};

/// A logical unit of a target. Move-only. See skiff/disk.h for the rules.
///
/// Each call that ends with `done...` takes a callable for the Status, or none.
/// With one it starts, and the callable runs on the disk's thread once it is
/// over, unless the call itself returns an error. Without one it blocks.
class Disk {
 public:
  /// Opens the logical unit of a URL: "iscsi://host[:port]/target-name/lun",
  /// "iser://…", "auto://…". Blocks. Errors: as of skiff_disk_open().
  static Result<Disk> Open(Context& context, const char* url,
                           const DiskOptions& options = {}) {
    return Make(
        options, [&](const skiff_disk_options* plain, skiff_disk** disk) {
          return internal::Start([&](skiff_done_fn run, void* user) {
            return skiff_disk_open(context.get(), url, plain, run, user, disk);
          });
        });
  }
  /// Starts to open it: I/O is ENOTCONN until `done` was called with success.
  /// Destroying the disk gives up.
  template <typename Done>
  static Result<Disk> Open(Context& context, const char* url,
                           const DiskOptions& options, Done&& done) {
    return Make(options, [&](const skiff_disk_options* plain,
                             skiff_disk** disk) {
      return internal::Start(
          [&](skiff_done_fn run, void* user) {
            return skiff_disk_open(context.get(), url, plain, run, user, disk);
          },
          std::forward<Done>(done));
    });
  }
  /// Opens another logical unit over the same session. `done...` as of Open().
  template <typename... Done>
  Result<Disk> OpenLun(uint32_t lun, const DiskOptions& options,
                       Done&&... done) {
    return Make(
        options, [&](const skiff_disk_options* plain, skiff_disk** disk) {
          return internal::Start(
              [&](skiff_done_fn run, void* user) {
                return skiff_disk_open_lun(disk_, lun, plain, run, user, disk);
              },
              std::forward<Done>(done)...);
        });
  }

  Disk(Disk&& other) noexcept
      : disk_(std::exchange(other.disk_, nullptr)),
        events_(std::move(other.events_)) {}
  Disk& operator=(Disk&& other) noexcept {
    if (this != &other) {
      End();
      disk_ = std::exchange(other.disk_, nullptr);
      events_ = std::move(other.events_);
    }
    return *this;
  }
  /// Blocks until what is pending has ended with ECANCELED, and the logout is
  /// over. Where it must not block (in a callback, or on a thread that does not
  /// drive the context), that goes on without it.
  ~Disk() { End(); }

  /// Ends it. What is pending ends with ECANCELED before that.
  Status Close() {
    Status status = internal::Start([&](skiff_done_fn run, void* user) {
      return skiff_disk_close(disk_, run, user);
    });
    if (status.ok()) Forget();
    return status;
  }
  template <typename Done>
  Status Close(Done&& done) {
    // Events may be told on another thread until it is over.
    const std::shared_ptr<DiskEvents> events = events_;
    Status status = internal::Start(
        [&](skiff_done_fn run, void* user) {
          return skiff_disk_close(disk_, run, user);
        },
        [events, held = std::decay_t<Done>(std::forward<Done>(done))](
            Status end) mutable { std::move(held)(std::move(end)); });
    if (status.ok()) Forget();
    return status;
  }

  /// What the disk said about itself.
  Result<skiff_disk_info> Info() const {
    return Get<skiff_disk_info>(skiff_disk_get_info);
  }
  /// What it and its session did. On the context's thread.
  Result<skiff_disk_stats> Stats() const {
    return Get<skiff_disk_stats>(skiff_disk_get_stats);
  }
  /// Ends its session's connection, and restores it.
  Status Reconnect() { return Status::Last(skiff_disk_reconnect(disk_)); }
  /// Asks the device again what it is.
  template <typename... Done>
  Status Refresh(Done&&... done) {
    return internal::Start(
        [&](skiff_done_fn run, void* user) {
          return skiff_disk_refresh(disk_, run, user);
        },
        std::forward<Done>(done)...);
  }

  /// Reads into `memory`, which stays the caller's, and there until the end.
  template <typename... Done>
  Status Read(uint64_t offset, MutableBytes memory, Done&&... done) {
    return internal::Start(
        [&](skiff_done_fn run, void* user) {
          return skiff_disk_read(disk_, offset, memory.data(), memory.size(),
                                 run, user);
        },
        std::forward<Done>(done)...);
  }
  /// Writes `data`, which stay the caller's, and there until the end.
  Status Write(uint64_t offset, Bytes data,
               Durability durability = Durability::kFlushed) {
    return Status::Last(
        skiff_disk_write(disk_, offset, data.data(), data.size(),
                         static_cast<uint32_t>(durability), nullptr, nullptr));
  }
  template <typename Done>
  Status Write(uint64_t offset, Bytes data, Durability durability,
               Done&& done) {
    return internal::Start(
        [&](skiff_done_fn run, void* user) {
          return skiff_disk_write(disk_, offset, data.data(), data.size(),
                                  static_cast<uint32_t>(durability), run, user);
        },
        std::forward<Done>(done));
  }
  template <typename... Done>
  Status Flush(Done&&... done) {
    return internal::Start(
        [&](skiff_done_fn run, void* user) {
          return skiff_disk_flush(disk_, run, user);
        },
        std::forward<Done>(done)...);
  }
  /// Any I/O. Its `done` and `user` are set here.
  template <typename... Done>
  Status Submit(Io io, Done&&... done) {
    return SubmitAs(nullptr, io, std::forward<Done>(done)...);
  }
  /// The same, with a number in `*id` for Cancel(). It may have ended by then.
  template <typename Done>
  Status SubmitAs(uint64_t* id, Io io, Done&& done) {
    return internal::Start(
        [&](skiff_done_fn run, void* user) {
          io.done = run;
          io.user = user;
          return skiff_disk_submit(disk_, &io, 1, id);
        },
        std::forward<Done>(done));
  }

  /// Asks for I/O to be given up. Its callable runs in any case.
  Status Cancel(uint64_t id) {
    return Status::Last(skiff_disk_cancel(disk_, id));
  }
  /// The same, and tells what came of it: EALREADY: it ended by itself.
  template <typename... Done>
  Status Abort(uint64_t id, Done&&... done) {
    return internal::Start(
        [&](skiff_done_fn run, void* user) {
          return skiff_disk_abort(disk_, id, run, user);
        },
        std::forward<Done>(done)...);
  }
  /// Which blocks are mapped, from `offset` on: at most `capacity` extents, and
  /// as many as the device tells at once. Blocks.
  Result<std::vector<skiff_extent>> LbaStatus(uint64_t offset,
                                              size_t capacity = 64) {
    std::vector<skiff_extent> extents(capacity);
    size_t count = 0;
    const int result = skiff_disk_get_lba_status(
        disk_, offset, extents.data(), capacity, &count, nullptr, nullptr);
    if (result < 0) return Status::Last(result);
    extents.resize(count);
    return extents;
  }
  /// Resets the logical unit.
  template <typename... Done>
  Status Reset(Done&&... done) {
    return internal::Start(
        [&](skiff_done_fn run, void* user) {
          return skiff_disk_reset(disk_, run, user);
        },
        std::forward<Done>(done)...);
  }

  /// Sends a SCSI command. `result` may be NULL; else it has to stay until the
  /// end, and its size is set here.
  template <typename... Done>
  Status Command(const skiff_command& command, skiff_command_result* result,
                 Done&&... done) {
    if (result != nullptr) *result = internal::Init<skiff_command_result>();
    skiff_command sized = command;
    sized.struct_size = sizeof(sized);
    return internal::Start(
        [&](skiff_done_fn run, void* user) {
          return skiff_disk_command(disk_, &sized, result, run, user, nullptr);
        },
        std::forward<Done>(done)...);
  }

  /// For calls of the interface for C, such as batches. Stays the disk's.
  skiff_disk* get() const { return disk_; }

 private:
  Disk() = default;

  template <typename Call>
  static Result<Disk> Make(const DiskOptions& options, Call&& open) {
    Disk made;
    skiff_disk_options plain = options;
    plain.struct_size = sizeof(plain);
    if (options.on_event) {
      made.events_ = std::make_shared<DiskEvents>(options.on_event);
      plain.event_user = made.events_.get();
      plain.on_event = [](void* user, skiff_disk*, int event, int result,
                          const char* message) noexcept {
        (*static_cast<DiskEvents*>(user))(event, Status(result, message));
      };
    }
    // Where it blocks and fails, there is no disk.
    Status status = open(&plain, &made.disk_);
    if (!status.ok()) return status;
    return made;
  }
  template <typename Struct, typename Call>
  Result<Struct> Get(Call call) const {
    Struct filled = internal::Init<Struct>();
    const int result = call(disk_, &filled);
    if (result < 0) return Status::Last(result);
    return filled;
  }
  Status SubmitAs(uint64_t* id, Io io) {
    return Status::Last(skiff_disk_submit(disk_, &io, 1, id));
  }
  void Forget() {
    disk_ = nullptr;
    events_.reset();
  }
  void End() noexcept {
    if (disk_ == nullptr || Close().ok()) return;
    static_cast<void>(Close([](const Status&) {}));
  }

  skiff_disk* disk_ = nullptr;
  std::shared_ptr<DiskEvents> events_;
};

/// A target that a portal told of.
struct FoundTarget {
  std::string name;
  std::vector<std::string> portals;  ///< "address:port,group"; may be empty.
};

namespace internal {

inline FoundTarget Found(const skiff_found_target& target) {
  FoundTarget one{target.name, {}};
  for (size_t i = 0; i < target.portal_count; ++i) {
    one.portals.emplace_back(target.portals[i]);
  }
  return one;
}

inline skiff_disk_options ForDiscovery(const DiskOptions& options) {
  skiff_disk_options plain = options;
  plain.struct_size = sizeof(plain);
  plain.on_event = nullptr;
  return plain;
}

}  // namespace internal

/// Asks a portal, "iscsi://host[:port]", for its targets. Blocks.
inline Result<std::vector<FoundTarget>> Discover(
    Context& context, const char* url, const DiskOptions& options = {}) {
  std::vector<FoundTarget> found;
  const skiff_disk_options plain = internal::ForDiscovery(options);
  const int result = skiff_discover(
      context.get(), url, &plain,
      [](void* user, const skiff_found_target* target) noexcept {
        static_cast<std::vector<FoundTarget>*>(user)->push_back(
            internal::Found(*target));
      },
      nullptr, &found);
  if (result < 0) return Status::Last(result);
  return found;
}

/// The same, and calls `done` with a Result of them, on a thread of the
/// context. Not if the call itself failed.
template <typename Done>
Status Discover(Context& context, const char* url, const DiskOptions& options,
                Done&& done) {
  using Held = internal::Gathering<FoundTarget, std::decay_t<Done>>;
  const skiff_disk_options plain = internal::ForDiscovery(options);
  return Held::Start(
      [&](Held* held) {
        return skiff_discover(
            context.get(), url, &plain,
            [](void* user, const skiff_found_target* target) noexcept {
              static_cast<Held*>(user)->all.push_back(internal::Found(*target));
            },
            &Held::Finish, held);
      },
      std::forward<Done>(done));
}

}  // namespace skiff

#endif  // SKIFF_DISK_HPP_
