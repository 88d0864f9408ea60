// The functions of skiff/backend.h.

#include <skiff/backend.h>

#include <cerrno>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "scsi/backend/file_backend.h"
#include "scsi/backend/ram_backend.h"
#include "tools/library/backend.h"
#include "tools/library/error.h"
#include "tools/library/handle.h"
#include "tools/library/options.h"

namespace {

using skiff::library::Backend;
using skiff::library::CallbackBackend;
using skiff::library::Context;
using skiff::library::Fail;
using skiff::library::Handles;
using skiff::library::Kind;
using skiff::library::Pinned;
using skiff::library::ReadOptions;
using skiff::library::RequestTable;
using skiff::library::StringOf;
namespace scsi = skiff::scsi;

// What every function that makes a backend begins with.
int CheckOut(skiff_backend** backend) {
  if (backend == nullptr) {
    return Fail(EINVAL, "there is no place for the skiff_backend: it is NULL");
  }
  *backend = nullptr;
  return 0;
}

int Open(const std::shared_ptr<Context>& context,
         std::shared_ptr<scsi::Backend> medium, CallbackBackend* callbacks,
         skiff_backend** backend) {
  void* const handle = Handles::Open(
      Kind::kBackend,
      std::make_shared<Backend>(context, std::move(medium), callbacks));
  if (handle == nullptr) return Fail(EMFILE, "there are too many handles");
  *backend = static_cast<skiff_backend*>(handle);
  return 0;
}

int CheckMedium(uint64_t size_bytes, uint32_t* block_size) {
  if (*block_size == 0) *block_size = 512;
  if (*block_size != 512 && *block_size != 4096) {
    return Fail(EINVAL, absl::StrCat("block_size is ", *block_size,
                                     ": it has to be 512 or 4096"));
  }
  if (size_bytes == 0 || size_bytes % *block_size != 0) {
    return Fail(EINVAL, absl::StrCat("size_bytes is ", size_bytes,
                                     ": a positive multiple of ", *block_size,
                                     ", the block size, is needed"));
  }
  return 0;
}

constexpr bool IsPowerOfTwo(uint32_t value) {
  return value != 0 && (value & (value - 1)) == 0;
}

// `*out` is what the options say.
int ReadInfo(const skiff_backend_options& options, scsi::BackendInfo* out) {
  uint32_t block_size = options.block_size;
  if (const int error = CheckMedium(options.size_bytes, &block_size)) {
    return error;
  }
  if (const int error = skiff::library::CheckFlags(
          options.flags,
          SKIFF_BACKEND_READ_ONLY | SKIFF_BACKEND_WRITE_CACHE |
              SKIFF_BACKEND_THIN | SKIFF_BACKEND_ROTATIONAL,
          "skiff_backend_options")) {
    return error;
  }
  out->size_bytes = options.size_bytes;
  out->block_size = block_size;
  if (options.physical_block_size != 0) {
    out->physical_block_size = options.physical_block_size;
  }
  if (!IsPowerOfTwo(out->physical_block_size) ||
      out->physical_block_size < block_size) {
    return Fail(EINVAL, absl::StrCat("physical_block_size is ",
                                     out->physical_block_size,
                                     ": a power of two of ", block_size,
                                     ", the block size, or more is needed"));
  }
  if (options.unmap_granularity != 0) {
    out->unmap_granularity_bytes = options.unmap_granularity;
  }
  if (out->unmap_granularity_bytes % block_size != 0) {
    return Fail(EINVAL,
                absl::StrCat("unmap_granularity is ",
                             out->unmap_granularity_bytes, ": a multiple of ",
                             block_size, ", the block size, is needed"));
  }
  if (options.buffer_alignment != 0) {
    out->buffer_alignment = options.buffer_alignment;
  }
  constexpr uint32_t kMaxAlignment = 4096;
  if (!IsPowerOfTwo(out->buffer_alignment) ||
      out->buffer_alignment > kMaxAlignment) {
    return Fail(EINVAL,
                absl::StrCat("buffer_alignment is ", out->buffer_alignment,
                             ": a power of two of at most ", kMaxAlignment,
                             " is needed"));
  }
  out->read_only = (options.flags & SKIFF_BACKEND_READ_ONLY) != 0;
  out->volatile_write_cache = (options.flags & SKIFF_BACKEND_WRITE_CACHE) != 0;
  out->thin = (options.flags & SKIFF_BACKEND_THIN) != 0;
  out->rotational = (options.flags & SKIFF_BACKEND_ROTATIONAL) != 0;
  out->description = StringOf(options.description, "callbacks");
  out->identity = StringOf(options.identity, "");
  out->data_loss = StringOf(options.data_loss, "");
  return 0;
}

// Null for a backend without requests: the error is remembered.
RequestTable* RequestsOf(const Backend& backend) {
  if (backend.requests() == nullptr) {
    Fail(EINVAL, "the backend is not one of callbacks: it has no requests");
  }
  return backend.requests();
}

// An error of RequestTable, in words.
int Explain(int error) {
  switch (-error) {
    case 0:
      return 0;
    case EINVAL:
      return Fail(EINVAL,
                  "the error of a completion has to be 0 or a negative errno");
    case ENOENT:
      return Fail(ENOENT, "the backend was never given a request of that id");
    case EALREADY:
      return Fail(EALREADY, "the request was completed before");
    default:
      return Fail(-error,
                  "the request was cancelled, and cancel() let go of it");
  }
}

}  // namespace

int skiff_backend_create_ram(skiff_context* context,
                             const skiff_ram_options* options,
                             skiff_backend** backend) {
  if (const int error = CheckOut(backend)) return error;
  const Pinned<Context> pinned(context);
  if (pinned.error() != 0) return pinned.error();
  skiff_ram_options given;
  if (const int error = ReadOptions(options, "skiff_ram_options", &given)) {
    return error;
  }
  constexpr uint32_t kBothPages = SKIFF_RAM_HUGE_PAGES | SKIFF_RAM_SMALL_PAGES;
  if (const int error = skiff::library::CheckFlags(
          given.flags,
          SKIFF_BACKEND_READ_ONLY | SKIFF_RAM_KEEP_PAGES | kBothPages,
          "skiff_ram_options")) {
    return error;
  }
  if ((given.flags & kBothPages) == kBothPages) {
    return Fail(EINVAL,
                "SKIFF_RAM_HUGE_PAGES and SKIFF_RAM_SMALL_PAGES exclude each "
                "other");
  }
  if (const int error = CheckMedium(given.size_bytes, &given.block_size)) {
    return error;
  }
  scsi::RamBackendOptions ram;
  ram.size_bytes = given.size_bytes;
  ram.block_size = given.block_size;
  ram.read_only = (given.flags & SKIFF_BACKEND_READ_ONLY) != 0;
  ram.thin = (given.flags & SKIFF_RAM_KEEP_PAGES) == 0;
  if ((given.flags & kBothPages) != 0) {
    ram.huge_pages = (given.flags & SKIFF_RAM_HUGE_PAGES) != 0;
  }
  auto made = scsi::MakeRamBackend(ram);
  if (!made.ok()) return Fail(made.status());
  return Open(pinned.Share(), *std::move(made), nullptr, backend);
}

int skiff_backend_create_file(skiff_context* context,
                              const skiff_file_options* options,
                              skiff_backend** backend) {
  if (const int error = CheckOut(backend)) return error;
  std::shared_ptr<Context> shared;
  {
    const Pinned<Context> pinned(context);
    if (pinned.error() != 0) return pinned.error();
    shared = pinned.Share();
  }
  skiff_file_options given;
  if (const int error = ReadOptions(options, "skiff_file_options", &given)) {
    return error;
  }
  if (given.path == nullptr || given.path[0] == '\0') {
    return Fail(EINVAL, "skiff_file_options has no path");
  }
  if (const int error = skiff::library::CheckFlags(
          given.flags,
          SKIFF_BACKEND_READ_ONLY | SKIFF_FILE_DIRECT |
              SKIFF_FILE_CLEAR_DATA_LOSS | SKIFF_FILE_NO_URING,
          "skiff_file_options")) {
    return error;
  }
  scsi::FileBackendOptions file;
  file.path = given.path;
  file.size_bytes = given.size_bytes;
  if (given.block_size != 0) file.block_size = given.block_size;
  file.read_only = (given.flags & SKIFF_BACKEND_READ_ONLY) != 0;
  file.direct = (given.flags & SKIFF_FILE_DIRECT) != 0;
  file.clear_data_loss = (given.flags & SKIFF_FILE_CLEAR_DATA_LOSS) != 0;
  if ((given.flags & SKIFF_FILE_NO_URING) != 0) {
    file.io = scsi::FileIo::kHelperThread;
  }
  if (given.queue_depth != 0) file.queue_depth = given.queue_depth;
  file.state_directory = StringOf(given.state_directory, "");
  file.log = shared->log();
  auto made = scsi::MakeFileBackend(file);
  if (!made.ok()) return Fail(made.status());
  return Open(shared, *std::move(made), nullptr, backend);
}

int skiff_backend_create(skiff_context* context, const skiff_backend_ops* ops,
                         const skiff_backend_options* options,
                         skiff_backend** backend) {
  if (const int error = CheckOut(backend)) return error;
  const Pinned<Context> pinned(context);
  if (pinned.error() != 0) return pinned.error();
  skiff_backend_ops callbacks;
  if (const int error = ReadOptions(ops, "skiff_backend_ops", &callbacks)) {
    return error;
  }
  if (callbacks.submit == nullptr) {
    return Fail(EINVAL, "skiff_backend_ops has no submit(): it is required");
  }
  skiff_backend_options given;
  if (const int error = ReadOptions(options, "skiff_backend_options", &given)) {
    return error;
  }
  scsi::BackendInfo info;
  if (const int error = ReadInfo(given, &info)) return error;
  auto made = std::make_shared<CallbackBackend>(
      callbacks, given.user, given.memory, std::move(info), pinned->reactors());
  CallbackBackend* const medium = made.get();
  return Open(pinned.Share(), std::move(made), medium, backend);
}

int skiff_backend_complete(skiff_backend* backend, uint64_t id, int error) {
  const Pinned<Backend> pinned(backend);
  if (pinned.error() != 0) return pinned.error();
  RequestTable* const requests = RequestsOf(*pinned);
  if (requests == nullptr) return -EINVAL;
  return Explain(requests->Complete(id, error));
}

int skiff_backend_complete_many(skiff_backend* backend,
                                const skiff_completion* completions,
                                size_t count, size_t* done) {
  size_t taken = 0;
  if (done == nullptr) done = &taken;
  *done = 0;
  const Pinned<Backend> pinned(backend);
  if (pinned.error() != 0) return pinned.error();
  RequestTable* const requests = RequestsOf(*pinned);
  if (requests == nullptr) return -EINVAL;
  if (completions == nullptr && count > 0) {
    return Fail(EINVAL,
                absl::StrCat("completions is NULL, and count is ", count));
  }
  return Explain(requests->Complete({completions, count}, done));
}

int skiff_backend_resize(skiff_backend* backend, uint64_t size_bytes) {
  const Pinned<Backend> pinned(backend);
  if (pinned.error() != 0) return pinned.error();
  return pinned->Resize(size_bytes);
}

int skiff_backend_close(skiff_backend* backend) {
  const Pinned<Backend> pinned(backend);
  if (pinned.error() != 0) return pinned.error();
  if (const int error = pinned->Shut()) return error;
  Handles::Close(backend);
  return 0;
}
