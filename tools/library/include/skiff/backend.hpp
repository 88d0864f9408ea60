/// @file
/// What a target's logical units are made of: memory, files, or a class of the
/// program's own.
#ifndef SKIFF_BACKEND_HPP_
#define SKIFF_BACKEND_HPP_

#include <skiff/backend.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <skiff/bytes.hpp>
#include <skiff/context.hpp>
#include <skiff/status.hpp>
#include <utility>

namespace skiff {

/// What is asked of a backend. Move-only. Completed once, on any thread; one
/// that is destroyed before is completed with EIO, so that nobody waits for it.
/// Its memory stays until then.
class Request {
 public:
  Request(skiff_backend* backend, const skiff_request* request)
      : backend_(backend), request_(request) {}
  Request(Request&& other) noexcept
      : backend_(other.backend_),
        request_(std::exchange(other.request_, nullptr)) {}
  Request& operator=(Request&& other) noexcept {
    if (this != &other) {
      Complete(-EIO);
      backend_ = other.backend_;
      request_ = std::exchange(other.request_, nullptr);
    }
    return *this;
  }
  ~Request() { Complete(-EIO); }

  /// Only before it was completed or moved from.
  uint64_t id() const { return request_->id; }
  skiff_request_op op() const {
    return static_cast<skiff_request_op>(request_->op);
  }
  uint64_t offset() const { return request_->offset; }  ///< Bytes.
  uint64_t length() const { return request_->length; }  ///< Bytes.
  /// See skiff_request: what to fill, or what to write.
  Iovecs iovecs() const { return Iovecs(request_->iov, request_->iov_count); }
  /// The data must be stable when it is completed.
  bool stable() const { return (request_->flags & SKIFF_REQUEST_FUA) != 0; }
  /// SKIFF_REQUEST_WRITE_ZEROES may free.
  bool may_unmap() const {
    return (request_->flags & SKIFF_REQUEST_MAY_UNMAP) != 0;
  }
  /// The number of the context's thread that it came on.
  uint32_t thread() const { return request_->thread; }

  /// Reads or writes where the whole medium is memory that begins at `medium`.
  /// Returns 0, or -EOPNOTSUPP for other requests: what Complete() takes.
  int CopyWith(void* medium) const {
    if (op() != SKIFF_REQUEST_READ && op() != SKIFF_REQUEST_WRITE) {
      return -EOPNOTSUPP;
    }
    char* at = static_cast<char*>(medium) + offset();
    for (const iovec& part : iovecs()) {
      if (op() == SKIFF_REQUEST_READ) {
        std::memcpy(part.iov_base, at, part.iov_len);
      } else {
        std::memcpy(at, part.iov_base, part.iov_len);
      }
      at += part.iov_len;
    }
    return 0;
  }

  /// Ends it: 0, or a negative errno, as of skiff_backend_complete(). Does
  /// nothing the second time.
  void Complete(int error = 0) noexcept {
    const skiff_request* request = std::exchange(request_, nullptr);
    if (request == nullptr) return;
    skiff_backend_complete(backend_, request->id, error > 0 ? -EIO : error);
  }

 private:
  skiff_backend* backend_;
  const skiff_request* request_;
};

/// Storage of the program's own: derive from it, and make a Medium of it. Its
/// functions run on threads of the context, on several at once where it has
/// several. They must not block or throw.
class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  /// Completes the request at any time, on any thread, also in here.
  virtual void Submit(Request request) = 0;
  /// Nobody waits for the request of this number any more: the sooner it is
  /// completed, with ECANCELED or as ever, the better. Another thread may be
  /// completing it just then.
  virtual void Cancel(uint64_t id) { static_cast<void>(id); }
  /// For GET LBA STATUS: whether the byte at `offset` is mapped; `*length`
  /// gets for how many bytes that goes on.
  virtual bool Mapped(uint64_t offset, uint64_t* length) {
    *length = UINT64_MAX - offset;
    return true;
  }
  /// It was served, and no logical unit serves it any more.
  virtual void Unused() {}
};

/// The members of skiff_backend_options; `user` means nothing.
struct BackendOptions : skiff_backend_options {
  explicit BackendOptions(uint64_t size)
      : skiff_backend_options(internal::Init<skiff_backend_options>()) {
    size_bytes = size;
  }
};
/// The members of skiff_ram_options.
struct RamOptions : skiff_ram_options {
  explicit RamOptions(uint64_t size)
      : skiff_ram_options(internal::Init<skiff_ram_options>()) {
    size_bytes = size;
  }
};
/// The members of skiff_file_options.
struct FileOptions : skiff_file_options {
  explicit FileOptions(const char* name)
      : skiff_file_options(internal::Init<skiff_file_options>()) {
    path = name;
  }
};

/// Owns what logical units serve. Move-only.
class Medium {
 public:
  /// A class of the program's own. It is kept until the medium is closed.
  static Result<Medium> Create(Context& context,
                               std::shared_ptr<Backend> backend,
                               const BackendOptions& options) {
    if (backend == nullptr) return Status(-EINVAL, "the backend is null");
    Medium made;
    made.own_ = std::make_unique<Own>();
    made.own_->backend = std::move(backend);
    skiff_backend_options plain = options;
    plain.struct_size = sizeof(plain);
    plain.user = made.own_.get();
    const skiff_backend_ops ops = Ops();
    const int result =
        skiff_backend_create(context.get(), &ops, &plain, &made.own_->handle);
    if (result < 0) return Status::Last(result);
    made.medium_ = made.own_->handle;
    return made;
  }

  Medium(Medium&& other) noexcept
      : medium_(std::exchange(other.medium_, nullptr)),
        own_(std::move(other.own_)) {}
  Medium& operator=(Medium&& other) noexcept {
    if (this != &other) {
      End();
      medium_ = std::exchange(other.medium_, nullptr);
      own_ = std::move(other.own_);
    }
    return *this;
  }
  /// Does not block. Where a logical unit still serves it, it stays, with the
  /// backend, and the context cannot be closed: remove the logical unit before.
  ~Medium() { End(); }

  /// Ends it. EBUSY: a logical unit serves it; then it is as it was.
  Status Close() {
    const int result = skiff_backend_close(medium_);
    if (result < 0) return Status::Last(result);
    medium_ = nullptr;
    own_.reset();
    return Status();
  }
  /// The backend has another size. See skiff_backend_resize().
  Status Resize(uint64_t bytes) {
    return Status::Last(skiff_backend_resize(medium_, bytes));
  }

  /// For calls of the interface for C. Stays the medium's.
  skiff_backend* get() const { return medium_; }

 protected:
  Medium() = default;
  skiff_backend* medium_ = nullptr;

 private:
  struct Own {
    std::shared_ptr<Backend> backend;
    skiff_backend* handle = nullptr;
  };

  static Own* Of(void* user) { return static_cast<Own*>(user); }
  static skiff_backend_ops Ops() {
    skiff_backend_ops ops = internal::Init<skiff_backend_ops>();
    ops.submit = [](void* user, const skiff_request* request) noexcept {
      Of(user)->backend->Submit(Request(Of(user)->handle, request));
    };
    ops.cancel = [](void* user, const skiff_request* request) noexcept {
      Of(user)->backend->Cancel(request->id);
      return 0;
    };
    ops.provisioning = [](void* user, uint64_t offset,
                          uint64_t* length) noexcept {
      return Of(user)->backend->Mapped(offset, length) ? 1 : 0;
    };
    ops.unused = [](void* user) noexcept { Of(user)->backend->Unused(); };
    return ops;
  }
  void End() noexcept {
    if (medium_ == nullptr || skiff_backend_close(medium_) == 0) return;
    // It is in use: requests still come.
    static_cast<void>(own_.release());
  }

  std::unique_ptr<Own> own_;
};

/// A medium in memory, gone with it.
class RamBackend : public Medium {
 public:
  static Result<RamBackend> Create(Context& context,
                                   const RamOptions& options) {
    RamBackend made;
    skiff_ram_options plain = options;
    plain.struct_size = sizeof(plain);
    const int result =
        skiff_backend_create_ram(context.get(), &plain, &made.medium_);
    if (result < 0) return Status::Last(result);
    return made;
  }

 private:
  RamBackend() = default;
};

/// A file or a block device. Opening waits for the file system.
class FileBackend : public Medium {
 public:
  static Result<FileBackend> Create(Context& context,
                                    const FileOptions& options) {
    FileBackend made;
    skiff_file_options plain = options;
    plain.struct_size = sizeof(plain);
    const int result =
        skiff_backend_create_file(context.get(), &plain, &made.medium_);
    if (result < 0) return Status::Last(result);
    return made;
  }

 private:
  FileBackend() = default;
};

}  // namespace skiff

#endif  // SKIFF_BACKEND_HPP_
