/// @file
/// What a target's logical units are made of: memory, files, or storage of the
/// caller's.
#ifndef SKIFF_BACKEND_H_
#define SKIFF_BACKEND_H_

#include <skiff/common.h>

#ifdef __cplusplus
extern "C" {
#endif

/// A medium of bytes. Belongs to one context. Logical units serve it, also
/// several at once.
typedef struct skiff_backend skiff_backend;

/// Writes are refused.
#define SKIFF_BACKEND_READ_ONLY (1u << 0)
/// Writes that were acknowledged may be lost until flushed. Flushes come only
/// then.
#define SKIFF_BACKEND_WRITE_CACHE (1u << 1)
/// Unmapping frees space.
#define SKIFF_BACKEND_THIN (1u << 2)
/// Seeking costs time.
#define SKIFF_BACKEND_ROTATIONAL (1u << 3)

/* ---- Memory and files ---- */

/// Unmapping writes zeroes, and frees nothing: for RDMA devices that pin pages.
#define SKIFF_RAM_KEEP_PAGES (1u << 8)
/// Pages of 2 MiB; never such pages. Neither: as the size suggests.
#define SKIFF_RAM_HUGE_PAGES (1u << 9)
#define SKIFF_RAM_SMALL_PAGES (1u << 10)

/// What a medium in memory is made with.
typedef struct skiff_ram_options {
  size_t struct_size;
  uint64_t size_bytes;  ///< A multiple of the block size.
  uint32_t block_size;  ///< 512 (0) or 4096.
  uint32_t flags;       ///< SKIFF_BACKEND_READ_ONLY, SKIFF_RAM_*.
} skiff_ram_options;

/// Makes a medium in memory: sparse, and gone with the backend.
///
/// @return 0; -EINVAL for a size that makes no sense; -ENOMEM.
SKIFF_API int skiff_backend_create_ram(skiff_context* context,
                                       const skiff_ram_options* options,
                                       skiff_backend** backend);

/// Past the page cache (O_DIRECT).
#define SKIFF_FILE_DIRECT (1u << 8)
/// Serve it although data may have been lost before.
#define SKIFF_FILE_CLEAR_DATA_LOSS (1u << 9)
/// A thread makes the system calls, not io_uring.
#define SKIFF_FILE_NO_URING (1u << 10)

/// How a file or block device is opened.
typedef struct skiff_file_options {
  size_t struct_size;
  const char* path;
  /// Nonzero: a file that is missing is made of this size, sparse; one that is
  /// there must have it. 0: it must be there.
  uint64_t size_bytes;
  uint32_t block_size;   ///< 512 (0) or 4096.
  uint32_t flags;        ///< SKIFF_BACKEND_READ_ONLY, SKIFF_FILE_*.
  uint32_t queue_depth;  ///< System calls in flight on each thread. 0: 128.
  uint32_t reserved;     ///< 0.
  /// Where is kept what must be known of a block device later. NULL: nowhere.
  const char* state_directory;
} skiff_file_options;

/// Opens a file or block device. Waits for the file system. Served for writing,
/// it is locked.
///
/// @return 0; a negative errno for what went wrong, with the path in the
/// message.
SKIFF_API int skiff_backend_create_file(skiff_context* context,
                                        const skiff_file_options* options,
                                        skiff_backend** backend);

/* ---- Storage of the caller's ---- */

/// What is asked of a backend.
typedef enum skiff_request_op {
  SKIFF_REQUEST_READ = 1,
  SKIFF_REQUEST_WRITE = 2,
  SKIFF_REQUEST_FLUSH = 3,  ///< All writes that ended before become stable.
  SKIFF_REQUEST_UNMAP = 4,  ///< Frees; reads as zeroes afterwards.
  SKIFF_REQUEST_WRITE_ZEROES = 5,
  /// Writes if what is there is as expected. -EILSEQ: it is not. -EOPNOTSUPP:
  /// the library reads, compares and writes, while no other write is under way.
  SKIFF_REQUEST_COMPARE_AND_WRITE = 6
} skiff_request_op;

/// The data must be stable when it is completed.
#define SKIFF_REQUEST_FUA (1u << 0)
/// SKIFF_REQUEST_WRITE_ZEROES may free.
#define SKIFF_REQUEST_MAY_UNMAP (1u << 1)

/// One request. Made by the library; later versions append. It and its memory
/// stay until it is completed, or cancel() has returned nonzero.
typedef struct skiff_request {
  uint64_t id;      ///< For skiff_backend_complete().
  uint32_t op;      ///< skiff_request_op.
  uint32_t flags;   ///< SKIFF_REQUEST_FUA, SKIFF_REQUEST_MAY_UNMAP.
  uint64_t offset;  ///< Bytes; as is length a multiple of the block size.
  uint64_t length;  ///< Bytes.
  /// READ: to be filled. WRITE: what is to be written. Both sum up to `length`.
  /// COMPARE_AND_WRITE: what is expected, then what is to be written: 2 *
  /// length bytes. Others: NULL.
  const struct iovec* iov;
  uint32_t iov_count;
  uint32_t thread;  ///< The number of the context's thread it came on, from 0.
  void* user;       ///< Of skiff_backend_options.
} skiff_request;

/// What a backend does. All run on threads of the context, on several at once
/// where it has several, and must not block.
typedef struct skiff_backend_ops {
  size_t struct_size;
  /// Required. Completes the request at any time, on any thread, also from
  /// inside: skiff_backend_complete().
  void (*submit)(void* user, const skiff_request* request);
  /// Nobody waits for the request any more. Nonzero: the backend has let go of
  /// it and of its memory, and must not complete it. 0: it completes it as
  /// ever, the sooner the better; also where another thread does that just now.
  /// NULL: always 0.
  int (*cancel)(void* user, const skiff_request* request);
  /// For GET LBA STATUS: nonzero where the byte at `offset` is mapped, and in
  /// `*length` for how many bytes that goes on. NULL: all is mapped.
  int (*provisioning)(void* user, uint64_t offset, uint64_t* length);
  /// It was served, and no logical unit serves it any more: no request is in
  /// flight. May be served again later. May be NULL.
  void (*unused)(void* user);
} skiff_backend_ops;

/// What storage of the caller's is.
typedef struct skiff_backend_options {
  size_t struct_size;
  uint64_t size_bytes;           ///< A multiple of the block size.
  uint32_t block_size;           ///< 512 (0) or 4096.
  uint32_t physical_block_size;  ///< 0: 4096.
  uint32_t flags;                ///< SKIFF_BACKEND_*.
  uint32_t unmap_granularity;    ///< Bytes. 0: 4096.
  uint32_t buffer_alignment;     ///< What iovecs are aligned to. 0: anything.
  uint32_t reserved;             ///< 0.
  const char* description;       ///< For logs. NULL: "callbacks".
  /// Of the medium, equal wherever it is served, at most 64 printable
  /// characters: logical units have serial numbers from it. NULL: none.
  const char* identity;
  /// Why data that were acknowledged may be lost: all access then ends in
  /// MEDIUM ERROR. NULL: they are not.
  const char* data_loss;
  /// The whole medium, where it is memory: `size_bytes`, which stay there until
  /// the backend is closed. Reads and writes then use it, and do not come to
  /// submit(). NULL: it is not.
  void* memory;
  void* user;  ///< For the operations.
} skiff_backend_options;

/// Makes a backend of callbacks.
///
/// @return 0; -EINVAL for options that make no sense, and without submit().
SKIFF_API int skiff_backend_create(skiff_context* context,
                                   const skiff_backend_ops* ops,
                                   const skiff_backend_options* options,
                                   skiff_backend** backend);

/// Ends a request. `error` is 0, or -EIO, -ENOSPC (the medium is full), -EILSEQ
/// (it compares unequal), -EOPNOTSUPP, -ENODEV (the medium is gone), -ENOMEM
/// (try later), -ECANCELED (as cancel() asked for); any other errno is told as
/// an error of the medium, with its reason. On any thread, in submit() too.
///
/// @return 0; -EALREADY: it was completed before; -ESTALE: it was cancelled;
/// -ENOENT: there never was one; -EINVAL: `error` is positive.
SKIFF_API int skiff_backend_complete(skiff_backend* backend, uint64_t id,
                                     int error);

/// The end of one request of several.
typedef struct skiff_completion {
  uint64_t id;
  int32_t error;  ///< As of skiff_backend_complete().
  uint32_t reserved;
  uint64_t error_offset;  ///< Bytes from the start of the medium.
} skiff_completion;

/// Ends many requests: each thread that waits is woken once.
///
/// @param done NULL, or gets how many were ended: all that can be.
///
/// @return 0, or the first error, as of skiff_backend_complete().
SKIFF_API int skiff_backend_complete_many(skiff_backend* backend,
                                          const skiff_completion* completions,
                                          size_t count, size_t* done);

/// The medium has another size: initiators are told (CAPACITY DATA HAS
/// CHANGED). One that grows does so before the call; one that shrinks, after
/// it.
///
/// @return 0; -EOPNOTSUPP for memory and files.
SKIFF_API int skiff_backend_resize(skiff_backend* backend, uint64_t size_bytes);

/// Ends a backend. -EBUSY: a logical unit serves it, or the removal of one is
/// not over.
SKIFF_API int skiff_backend_close(skiff_backend* backend);

#ifdef __cplusplus
}
#endif

#endif  // SKIFF_BACKEND_H_
