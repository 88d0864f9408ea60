/// @file
/// What both roles share: versions, errors, contexts, memory.
#ifndef SKIFF_COMMON_H_
#define SKIFF_COMMON_H_

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SKIFF_API __attribute__((visibility("default")))

/// How many counts a skiff_latency has.
#define SKIFF_LATENCY_COUNTS 24

/// How long things took, in nanoseconds. The clock is read once in each turn of
/// an event loop: what ends in the turn in which it began took 0. This struct
/// never changes.
typedef struct skiff_latency {
  uint64_t sum_ns;
  uint64_t max_ns;
  /// The first is how many took less than 1024 ns. Each next one has those of
  /// up to twice as long as the one before; the last, all from 4.3 s on.
  uint64_t counts[SKIFF_LATENCY_COUNTS];
} skiff_latency;

/// The version of these headers.
#define SKIFF_VERSION_MAJOR 1
#define SKIFF_VERSION_MINOR 0
#define SKIFF_VERSION "1.0"

/// In an option that is a time: never, or for ever. Zero is the default.
#define SKIFF_NEVER UINT32_MAX

/// The rules that hold for every function, where it does not say otherwise:
///
/// - **Errors.** A function returns 0, or a number that is not negative, or the
///   negative of an errno. skiff_last_error() then says in words what was
///   wrong. A call that fails has done nothing, and its callback never runs.
/// - **Handles.** A handle that is NULL is -EINVAL. One of another kind, one
///   that was closed, and one that never was, is -EBADF.
/// - **Threads.** A function may be called on any thread, also on several at
///   once, unless it says "context's thread". That is, for a context without
///   threads of its own, the one thread that drives it (skiff_context_adopt());
///   on another one the call is -EPERM.
/// - **Callbacks** run on a thread of the context, never from inside the call
///   that started what they tell of, and one after another on each thread. They
///   may call any function and may close any handle but their context; they
///   must not block, and calls that would are -EDEADLK.
/// - **Completions.** A function with `done` starts something. `done` runs once
///   when it is over. Where `done` is NULL, the call blocks until then, and
///   returns the result. In a context without threads, it drives the context
///   meanwhile, so that other callbacks run.
/// - **Ownership.** Strings and structs are copied, unless it is said that they
///   have to stay. What a callback is given is valid during the callback.
/// - **Options.** The first member of a struct is its size: SKIFF_INIT() sets
///   it, and clears the rest. A zero or NULL member stands for the default.
/// - **fork().** A child has no part in its parent's contexts: each call with
///   one of its handles is -ECHILD, and touches nothing. A child may make
///   contexts of its own if its parent had no threads at the time, as
///   fork(2) demands; else it may only exec or _exit.
///
/// The library has no other state than its contexts and the table of handles.
/// It installs no signal handler, blocks all signals on its own threads, writes
/// to no standard stream, and does not change the environment.

/// Sets a struct's size and clears the rest: `skiff_disk_options o;
/// SKIFF_INIT(o);`
#define SKIFF_INIT(options) skiff_init(&(options), sizeof(options))

/// What SKIFF_INIT() does.
static inline void skiff_init(void* options, size_t size) {
  memset(options, 0, size);
  memcpy(options, &size, sizeof(size));
}

/// How something ended. `result` is 0 or a negative errno; `message` says the
/// error in words, and is "" without one.
typedef void (*skiff_done_fn)(void* user, int result, const char* message);

/// The library's version, such as "1.0"; in static memory.
SKIFF_API const char* skiff_version(void);

/// Writes a URL without its passwords to `text`, for logs: at most `size` bytes
/// with the zero at the end, cut if there is no room for more. 0, or -EINVAL
/// for NULL or a `size` of 0. Any thread.
SKIFF_API int skiff_url_without_passwords(const char* url, char* text,
                                          size_t size);

/// Whether this build has a transport: "tcp", "verbs", "libfabric", "auto". 1
/// or 0; also 0 for NULL. It says nothing about devices.
SKIFF_API int skiff_has_transport(const char* name);

/// What was wrong with the last call on this thread that failed. Valid until
/// the next call on this thread fails, or the thread ends. "" if none failed.
SKIFF_API const char* skiff_last_error(void);

/// A callback for those who do not want to know how something ends.
SKIFF_API void skiff_ignore(void* user, int result, const char* message);

/* ---- Contexts ---- */

/// Event loops, transports, and all that is made of them. A process may have
/// several; they share nothing.
typedef struct skiff_context skiff_context;

/// How grave a line of the log is.
typedef enum skiff_log_level {
  SKIFF_LOG_ERROR = 1,
  SKIFF_LOG_WARNING = 2,
  SKIFF_LOG_INFO = 3,
  SKIFF_LOG_DEBUG = 4
} skiff_log_level;

/// Gets a line for people, without a newline. On any thread, also on several at
/// once. It must not block, and must not call the library.
typedef void (*skiff_log_fn)(void* user, int level, const char* message);

/// Returns memory for I/O, aligned to `alignment` (a power of two), or NULL. On
/// the thread that calls skiff_buffer_alloc().
typedef void* (*skiff_alloc_fn)(void* user, size_t size, size_t alignment);
/// Takes it back, on any thread.
typedef void (*skiff_free_fn)(void* user, void* memory, size_t size);

/// Never sleep: threads, or polls, look for work all the time.
#define SKIFF_CONTEXT_SPIN (1u << 0)
/// Look for work before sleeping, but only where it came soon of late. Costs no
/// processor time when idle. Without threads, skiff_context_wait() does so, and
/// skiff_context_deadline() is 0 meanwhile. Not with SKIFF_CONTEXT_SPIN.
#define SKIFF_CONTEXT_ADAPTIVE_SPIN (1u << 1)
/// Allow skiff_context_start_trace(). Each connection pays for a look at
/// whether it runs, for each message or system call.
#define SKIFF_CONTEXT_TRACEABLE (1u << 2)

/// A transport of one's own. It is C++: OwnTransport() of
/// tools/library/own_transport.h makes this struct, which stays as it is.
typedef struct skiff_own_transport {
  const char* interface;      ///< What it was compiled with.
  void* (*make)(void* user);  ///< NULL from it: it cannot be made.
  void* user;                 ///< For `make`.
} skiff_own_transport;

/// What a context is made with.
typedef struct skiff_context_options {
  size_t struct_size;
  /// Threads of its own, at most 1024. 0: none, the caller drives the context.
  uint32_t threads;
  uint32_t flags;   ///< SKIFF_CONTEXT_*.
  const int* cpus;  ///< The CPU of each thread; NULL: the system places them.
  uint32_t cpu_count;  ///< 0, or as many as threads.
  /// The least grave level that `log` gets. 0: SKIFF_LOG_INFO.
  uint32_t log_level;
  skiff_log_fn log;         ///< NULL: silence.
  void* log_user;           ///< For `log`.
  const char* thread_name;  ///< NULL: "skiff"; the system keeps 15 characters.
  /// Where skiff_buffer_alloc() gets memory from; both or none.
  skiff_alloc_fn alloc;
  skiff_free_fn free;
  void* memory_user;  ///< For `alloc` and `free`.
  /// How long the end of the last context waits for threads that nobody can
  /// interrupt, such as one that looks up a name. 0: 30 s.
  uint32_t join_timeout_ms;
  uint32_t reserved;  ///< 0.
  /// Transports of one's own, beside those of the library, at most 64.
  const skiff_own_transport* transports;
  size_t transport_count;
} skiff_context_options;

/// Makes a context. `options` may be NULL. One without threads belongs to the
/// calling thread.
///
/// @return 0; -EINVAL for an option that makes no sense; -EMFILE, -ENOMEM or
/// -EAGAIN where the system has no descriptors, memory or threads left.
SKIFF_API int skiff_context_create(const skiff_context_options* options,
                                   skiff_context** context);

/// Changes from which level on `log` gets lines. Any thread, at any time.
///
/// @return 0; -EINVAL: it is not one of skiff_log_level.
SKIFF_API int skiff_context_set_log_level(skiff_context* context,
                                          uint32_t level);

/// Writes what connections carry from now on to a new file, for Wireshark
/// (pcapng), until skiff_context_stop_trace(). That is all data of disks: only
/// the file's owner may read it. A file system that is slow holds connections
/// up. May wait for it. Any thread.
///
/// @return 0; -EEXIST: the file is there; -EBUSY: a trace runs; -ENOTSUP: the
/// context was not made with SKIFF_CONTEXT_TRACEABLE; -ENOENT and its like.
SKIFF_API int skiff_context_start_trace(skiff_context* context,
                                        const char* path);

/// Ends it, and closes the file. May wait for the file system. Any thread.
///
/// @return 0; -ENOENT: no trace runs; -EIO: the file is readable, but not
/// complete: the message says why.
SKIFF_API int skiff_context_stop_trace(skiff_context* context);

/// Ends a context: its threads are joined. After the end of the last context of
/// the process, no thread is left that runs code of the library, which may be
/// unloaded then (dlclose). Not in its callbacks (-EDEADLK). Context's thread.
///
/// @return 0; -EBUSY where something of it is still open: the message says
/// what. -ETIMEDOUT: it is closed, but a thread in the background has not ended
/// in time; to wait longer before unloading, make and close another context.
SKIFF_API int skiff_context_close(skiff_context* context);

/// A descriptor that is readable when skiff_context_poll() has something to do.
/// It is the context's: wait for it with poll(2), epoll or io_uring, and
/// neither read nor close it.
///
/// @return the descriptor; -EOPNOTSUPP for a context with threads of its own.
SKIFF_API int skiff_context_fd(skiff_context* context);

/// When skiff_context_poll() has to be called next although the descriptor is
/// quiet: on CLOCK_MONOTONIC, in nanoseconds. INT64_MAX: never; 0: at once.
/// Each call that starts something, and each poll, may change it. Context's
/// thread.
SKIFF_API int skiff_context_deadline(skiff_context* context, int64_t* deadline);

/// The same as poll(2) and epoll_wait(2) want it: milliseconds from now,
/// rounded up, or -1 for never. Context's thread.
SKIFF_API int skiff_context_timeout(skiff_context* context, int* timeout_ms);

/// One turn of the loop, without sleeping: callbacks run in here. Context's
/// thread, not in a callback (-EDEADLK).
///
/// @return how many events it handled.
SKIFF_API int skiff_context_poll(skiff_context* context);

/// Turns until something was done, or `timeout_ms` passed (-1: without end).
/// Context's thread, not in a callback (-EDEADLK).
///
/// @return how many events it handled; 0 after the timeout.
SKIFF_API int skiff_context_wait(skiff_context* context, int timeout_ms);

/// From now on the calling thread drives the context. No other thread may be in
/// a call with it. -EOPNOTSUPP for a context with threads of its own.
SKIFF_API int skiff_context_adopt(skiff_context* context);

/// Runs `function` on the context's thread number `thread` (0 without threads
/// of its own), in a later turn. Calls of one thread keep their order. Also
/// wakes skiff_context_wait().
///
/// @return 0; -ERANGE where there is no such thread.
SKIFF_API int skiff_context_post(skiff_context* context, uint32_t thread,
                                 void (*function)(void* user), void* user);

/* ---- Memory for I/O ---- */

/// Any memory will do for I/O. RDMA devices are faster with memory that they
/// know: that is registered once for each device, not once for each I/O.

/// Allocates memory for I/O, of pages, and registers it as
/// skiff_memory_register() does.
///
/// @return 0; -EINVAL for no bytes; -ENOMEM.
SKIFF_API int skiff_buffer_alloc(skiff_context* context, size_t size,
                                 void** buffer);

/// Frees it. No I/O may use it any more. -ENOENT: it is no such buffer. The
/// memory itself goes a little later, when no device knows it any more.
SKIFF_API int skiff_buffer_free(skiff_context* context, void* buffer);

/// Lets all disks of a context, also those to come, register memory of the
/// caller's once. I/O may use any part of it. The memory has to stay until it
/// was unregistered. A device that refuses it is told to the log: I/O works all
/// the same.
///
/// @return 0; -EEXIST where it overlaps memory that is registered already.
SKIFF_API int skiff_memory_register(skiff_context* context, void* data,
                                    size_t size);

/// Takes it back, before it is freed or mapped anew. No I/O may use it any
/// more. `done` runs when no device knows it.
///
/// @return 0; -ENOENT where no registered memory begins at `data`.
SKIFF_API int skiff_memory_unregister(skiff_context* context, void* data,
                                      skiff_done_fn done, void* user);

#ifdef __cplusplus
}
#endif

#endif  // SKIFF_COMMON_H_
