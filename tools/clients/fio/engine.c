// An engine for fio: a job's disks are those of iSCSI and iSER targets.
//
// Each job has one context, which the job's own thread drives while it waits
// for I/O (getevents). fio's options, its `thread` among them, decide what that
// thread is; nothing is shared between jobs. Only the C interface is used. The
// functions that fio calls are in the order in which it does.
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <skiff/skiff.h>
#include <stdlib.h>
#include <string.h>

#include "config-host.h"
#include "fio.h"
#include "optgroup.h"

// With the target at once. More of a job's I/O waits in the library.
#define MAX_COMMANDS 4096

// What a job file says. fio takes a member at offset 0 for none.
struct engine_options {
  struct thread_data* unused;
  char* url;
  char* initiator;
  unsigned header_digest;
  unsigned data_digest;
  unsigned spin;             // Flags of the context.
  unsigned command_timeout;  // Seconds.
  unsigned restore_timeout;
};

#define OPTION(member, title, kind, ...)                                \
  {                                                                     \
    .name = #member, .lname = title, .type = kind,                      \
    .off1 = offsetof(struct engine_options, member),                    \
    .category = FIO_OPT_C_ENGINE, .group = FIO_OPT_G_ISCSI, __VA_ARGS__ \
  }

static struct fio_option options_table[] = {
    OPTION(url, "URL of the disk", FIO_OPT_STR_STORE, .alias = "uri",
           .help = "iscsi://host[:port]/target/lun, or iser:// or auto://; "
                   "without it, each filename is a URL"),
    OPTION(initiator, "Initiator name", FIO_OPT_STR_STORE,
           .def = "iqn.2026-11.org.skiff:fio",
           .help = "The initiator's iSCSI name"),
    OPTION(header_digest, "Header digest", FIO_OPT_BOOL, .def = "0",
           .help = "Ask for CRC32C over headers"),
    OPTION(data_digest, "Data digest", FIO_OPT_BOOL, .def = "0",
           .help = "Ask for CRC32C over data"),
    OPTION(spin, "Spin", FIO_OPT_STR, .def = "auto",
           .help = "Look for answers instead of sleeping",
           .posval =
               {
                   {.ival = "auto",
                    .oval = SKIFF_CONTEXT_ADAPTIVE_SPIN,
                    .help = "Where they come soon"},
                   {.ival = "always",
                    .oval = SKIFF_CONTEXT_SPIN,
                    .help = "Always: never sleep"},
                   {.ival = "never", .oval = 0, .help = "Sleep at once"},
               }),
    OPTION(command_timeout, "Command timeout", FIO_OPT_INT, .def = "60",
           .minval = 1, .maxval = 86400,
           .help = "Seconds for one command, before it is aborted"),
    OPTION(restore_timeout, "Restore timeout", FIO_OPT_INT, .def = "30",
           .minval = 1, .maxval = 86400,
           .help = "Seconds that I/O waits for a lost session to be restored"),
    {.name = NULL},
};

struct job {
  skiff_context* context;
  skiff_disk** disks;  // That of a file, by its number.
  unsigned disk_count;
  unsigned depth;         // No more units than that are with the engine.
  skiff_io* queued;       // Not committed yet, with their vectors.
  struct iovec* vectors;  // One for each.
  unsigned queued_count;
  unsigned in_flight;   // Committed, and not ended.
  struct io_u** ended;  // A ring: getevents hands out, event reads.
  unsigned ended_head;
  unsigned ended_count;
  unsigned handed_out;  // Of those that ended: fio has them, or will now.
  void* memory;         // fio's buffers, which devices know.
  int last_error;       // Said already: a lost disk fails all its I/O.
};

// Says what a call could not do, and why. fio wants an errno without its sign.
static int failed(struct thread_data* td, const char* what, int result) {
  log_err("skiff: %s: %s\n", what, skiff_last_error());
  td_verror(td, -result, "skiff");
  return -result;
}

// The same of a mistake in the job's options.
static int refuse(struct thread_data* td) {
  td_verror(td, EINVAL, "skiff");
  return EINVAL;
}

static char* url_of(const struct thread_data* td, const struct fio_file* file) {
  const struct engine_options* options = td->eo;
  return options->url != NULL ? options->url : file->file_name;
}

// For people. Valid until the next call by the same thread.
static const char* shown(const char* url) {
  static __thread char text[1024];
  skiff_url_without_passwords(url, text, sizeof(text));
  return text;
}

// Lines of the library, such as of a session that was lost.
static void log_line(void* user, int level, const char* message) {
  (void)user;
  if (level == SKIFF_LOG_ERROR) {
    log_err("skiff: %s\n", message);
  } else {
    log_info("skiff: %s\n", message);
  }
}

// Figures with a gap in them should say so.
static void on_event(void* url, skiff_disk* disk, int event, int result,
                     const char* message) {
  (void)disk;
  (void)result;
  if (event == SKIFF_DISK_LOST) {
    log_info("skiff: %s: the session is lost, and being restored: %s\n",
             shown(url), message);
  } else if (event == SKIFF_DISK_RESTORED) {
    log_info("skiff: %s: the session is there again\n", shown(url));
  }
}

static int open_context(struct thread_data* td, skiff_context** context) {
  const struct engine_options* given = td->eo;
  skiff_context_options options;
  SKIFF_INIT(options);
  options.flags = given->spin;
  options.log = log_line;
  options.log_level = SKIFF_LOG_WARNING;
  const int result = skiff_context_create(&options, context);
  return result < 0 ? failed(td, "a context", result) : 0;
}

static int open_disk(struct thread_data* td, skiff_context* context,
                     const struct fio_file* file, skiff_disk** disk) {
  const struct engine_options* given = td->eo;
  char* url = url_of(td, file);
  skiff_disk_options options;
  SKIFF_INIT(options);
  options.on_event = on_event;
  options.event_user = url;
  options.initiator_name = given->initiator;
  options.flags = (given->header_digest ? SKIFF_DISK_HEADER_DIGEST : 0) |
                  (given->data_digest ? SKIFF_DISK_DATA_DIGEST : 0);
  options.max_commands =
      td->o.iodepth < MAX_COMMANDS ? td->o.iodepth : MAX_COMMANDS;
  options.command_timeout_ms = 1000 * given->command_timeout;
  options.restore_timeout_ms = 1000 * given->restore_timeout;
  const int result = skiff_disk_open(context, url, &options, NULL, NULL, disk);
  return result < 0 ? failed(td, shown(url), result) : 0;
}

/* ---- What the disks are: setup ---- */

static int check_block_sizes(struct thread_data* td, const char* url,
                             unsigned block_size) {
  for_each_rw_ddir(ddir) {
    const bool used = ddir == DDIR_READ    ? td_read(td)
                      : ddir == DDIR_WRITE ? td_write(td)
                                           : td_trim(td);
    if (used && td->o.min_bs[ddir] % block_size != 0) {
      log_err(
          "skiff: %s: bs=%llu is no multiple of the disk's block, %u "
          "bytes\n",
          shown(url), td->o.min_bs[ddir], block_size);
      return refuse(td);
    }
  }
  return 0;
}

// Whether the disk can do what the job is going to.
static int check_disk(struct thread_data* td, const char* url,
                      const skiff_disk_info* info) {
  if (info->read_only && td_write(td)) {
    log_err("skiff: %s: the disk is read-only, and the job writes\n",
            shown(url));
    return refuse(td);
  }
  if (!info->unmap && td_trim(td)) {
    log_err("skiff: %s: the disk cannot unmap, and the job trims\n",
            shown(url));
    return refuse(td);
  }
  return check_block_sizes(td, url, info->block_size);
}

static int look_at_disk(struct thread_data* td, skiff_context* context,
                        struct fio_file* file) {
  skiff_disk* disk = NULL;
  int error = open_disk(td, context, file, &disk);
  if (error != 0) return error;
  skiff_disk_info info;
  SKIFF_INIT(info);
  const int result = skiff_disk_get_info(disk, &info);
  error = result < 0 ? failed(td, shown(url_of(td, file)), result)
                     : check_disk(td, url_of(td, file), &info);
  if (error == 0) {
    file->real_file_size = info.size_bytes;
    file->filetype = FIO_TYPE_BLOCK;
    fio_file_set_size_known(file);
  }
  skiff_disk_close(disk, NULL, NULL);
  return error;
}

// Whether the headers were those of this fio: its structs are no stable
// interface. FIO_BUILT_FOR is their version, such as "fio-3.33".
static int check_version(struct thread_data* td) {
  const size_t length = strlen(FIO_BUILT_FOR);
  if (strncmp(fio_version_string, FIO_BUILT_FOR, length) == 0 &&
      !isdigit((unsigned char)fio_version_string[length])) {
    return 0;
  }
  log_err("skiff: this engine was built for %s, and this is %s\n",
          FIO_BUILT_FOR, fio_version_string);
  return refuse(td);
}

// Runs before the job's thread or process is there. Nothing stays open: a child
// has no part in its parent's contexts.
static int engine_setup(struct thread_data* td) {
  const struct engine_options* options = td->eo;
  struct fio_file* file;
  unsigned i;
  int error = check_version(td);
  if (error != 0) return error;
  if (options->url != NULL && td->o.nr_files != 1) {
    log_err(
        "skiff: url= names one disk, but the job has %u files: name the "
        "disks by filename=\n",
        td->o.nr_files);
    return refuse(td);
  }
  if (options->url == NULL && td->o.filename == NULL) {
    log_err(
        "skiff: url= is missing, such as "
        "url=iscsi://192.0.2.7/iqn.2026-11.com.example:disks/0\n");
    return refuse(td);
  }
  skiff_context* context = NULL;
  error = open_context(td, &context);
  if (error != 0) return error;
  for_each_file(td, file, i) {
    error = look_at_disk(td, context, file);
    if (error != 0) break;
  }
  skiff_context_close(context);
  return error;
}

/* ---- In the job's thread: init, and the memory ---- */

static void destroy(struct job* job) {
  for (unsigned i = 0; i < job->disk_count; ++i) {
    skiff_disk_close(job->disks[i], NULL, NULL);
  }
  if (job->memory != NULL) skiff_buffer_free(job->context, job->memory);
  if (job->context != NULL) skiff_context_close(job->context);
  free(job->disks);
  free(job->queued);
  free(job->vectors);
  free(job->ended);
  free(job);
}

static struct job* create(unsigned depth, unsigned files) {
  struct job* job = calloc(1, sizeof(*job));
  if (job == NULL) return NULL;
  job->depth = depth;
  job->disks = calloc(files, sizeof(*job->disks));
  job->queued = calloc(depth, sizeof(*job->queued));
  job->vectors = calloc(depth, sizeof(*job->vectors));
  job->ended = calloc(depth, sizeof(*job->ended));
  if (job->disks == NULL || job->queued == NULL || job->vectors == NULL ||
      job->ended == NULL) {
    destroy(job);
    return NULL;
  }
  return job;
}

static int engine_init(struct thread_data* td) {
  struct job* job = create(td->o.iodepth, td->o.nr_files);
  if (job == NULL) {
    log_err("skiff: no memory for %u I/Os\n", td->o.iodepth);
    return ENOMEM;
  }
  int error = open_context(td, &job->context);
  struct fio_file* file;
  unsigned i;
  for_each_file(td, file, i) {
    if (error != 0) break;
    error = open_disk(td, job->context, file, &job->disks[i]);
    if (error == 0) ++job->disk_count;
  }
  if (error != 0) {
    destroy(job);
    return error;
  }
  td->io_ops_data = job;
  return 0;
}

static int engine_iomem_alloc(struct thread_data* td, size_t size) {
  struct job* job = td->io_ops_data;
  const int result = skiff_buffer_alloc(job->context, size, &job->memory);
  if (result < 0) return failed(td, "memory for I/O", result);
  td->orig_buffer = job->memory;
  return 0;
}

static void engine_iomem_free(struct thread_data* td) {
  struct job* job = td->io_ops_data;
  if (job == NULL || job->memory == NULL) return;
  skiff_buffer_free(job->context, job->memory);
  job->memory = NULL;
}

static void engine_cleanup(struct thread_data* td) {
  if (td->io_ops_data != NULL) destroy(td->io_ops_data);
  td->io_ops_data = NULL;
}

/* ---- I/O: queue, commit, getevents, event ---- */

// The same error again is not news.
static void end_unit(struct job* job, struct io_u* unit, int result,
                     const char* message) {
  if (result < 0 && result != job->last_error) {
    log_err("skiff: %s\n", message);
  }
  job->last_error = result;
  unit->error = -result;
  unit->resid = result < 0 ? unit->xfer_buflen : 0;
  job->ended[(job->ended_head + job->ended_count++) % job->depth] = unit;
}

static void io_done(void* user, int result, const char* message) {
  struct io_u* unit = user;
  struct job* job = unit->engine_data;
  --job->in_flight;
  end_unit(job, unit, result, message);
}

static uint32_t operation_of(enum fio_ddir direction) {
  switch (direction) {
    case DDIR_READ:
      return SKIFF_IO_READ;
    case DDIR_WRITE:
      return SKIFF_IO_WRITE;
    case DDIR_TRIM:
      return SKIFF_IO_UNMAP;
    default:  // All kinds of sync.
      return SKIFF_IO_FLUSH;
  }
}

static enum fio_q_status engine_queue(struct thread_data* td,
                                      struct io_u* unit) {
  struct job* job = td->io_ops_data;
  fio_ro_check(td, unit);
  if (job->queued_count == job->depth) return FIO_Q_BUSY;
  struct iovec* vector = &job->vectors[job->queued_count];
  skiff_io* io = &job->queued[job->queued_count++];
  SKIFF_INIT(*io);
  io->op = operation_of(unit->ddir);
  io->done = io_done;
  io->user = unit;
  unit->engine_data = job;
  if (io->op == SKIFF_IO_FLUSH) return FIO_Q_QUEUED;
  io->offset = unit->offset;
  io->length = unit->xfer_buflen;
  if (io->op == SKIFF_IO_UNMAP) return FIO_Q_QUEUED;
  vector->iov_base = unit->xfer_buf;
  vector->iov_len = unit->xfer_buflen;
  io->iov = vector;
  io->iov_count = 1;
  if (io->op == SKIFF_IO_WRITE && td->o.sync_io) io->flags = SKIFF_IO_FUA;
  return FIO_Q_QUEUED;
}

static unsigned file_number(const skiff_io* io) {
  const struct io_u* unit = io->user;
  return unit->file->fileno;
}

// For fio's latencies: this is when I/O begins.
static void note_issue(struct thread_data* td, struct job* job) {
  struct timespec now;
  if (!fio_fill_issue_time(td)) return;
  fio_gettime(&now, NULL);
  for (unsigned i = 0; i < job->queued_count; ++i) {
    struct io_u* unit = job->queued[i].user;
    unit->issue_time = now;
    io_u_queued(td, unit);
  }
  if (td->o.read_iolog_file != NULL) td->last_issue = now;
}

// Starts neighbours that are for one disk. What cannot be started ends with an
// error: fio would wait for it otherwise. A call takes all or none, so one unit
// that makes no sense must not take the others with it.
static void submit(struct job* job, const skiff_io* ios, unsigned count) {
  skiff_disk* disk = job->disks[file_number(ios)];
  int result = skiff_disk_submit(disk, ios, count, NULL);
  if (result == 0) {
    job->in_flight += count;
    return;
  }
  for (unsigned i = 0; i < count; ++i) {
    result = skiff_disk_submit(disk, &ios[i], 1, NULL);
    if (result == 0) {
      ++job->in_flight;
      continue;
    }
    end_unit(job, ios[i].user, result, skiff_last_error());
  }
}

static int engine_commit(struct thread_data* td) {
  struct job* job = td->io_ops_data;
  if (job->queued_count == 0) return 0;
  note_issue(td, job);
  for (unsigned first = 0, end; first < job->queued_count; first = end) {
    const skiff_io* ios = &job->queued[first];
    end = first + 1;
    while (end < job->queued_count &&
           file_number(&job->queued[end]) == file_number(ios)) {
      ++end;
    }
    submit(job, ios, end - first);
  }
  io_u_mark_submit(td, job->queued_count);
  job->queued_count = 0;
  return 0;
}

static int wait_ms(const struct timespec* timeout) {
  if (timeout == NULL) return -1;
  const long long ms = timeout->tv_sec * 1000LL + timeout->tv_nsec / 1000000;
  return ms < INT_MAX ? (int)ms : INT_MAX;
}

// fio has seen what it was handed out the last time.
static int engine_getevents(struct thread_data* td, unsigned min, unsigned max,
                            const struct timespec* timeout) {
  struct job* job = td->io_ops_data;
  job->ended_head = (job->ended_head + job->handed_out) % job->depth;
  job->ended_count -= job->handed_out;
  job->handed_out = 0;
  // What has ended is handed out first: fio's next I/O then goes out together.
  int result = min == 0 ? skiff_context_poll(job->context) : 0;
  while (result >= 0 && job->ended_count < min && job->in_flight > 0) {
    result = skiff_context_wait(job->context, wait_ms(timeout));
    if (result == 0 && timeout != NULL) break;
  }
  if (result < 0) return -failed(td, "waiting", result);
  job->handed_out = job->ended_count < max ? job->ended_count : max;
  return (int)job->handed_out;
}

static struct io_u* engine_event(struct thread_data* td, int event) {
  struct job* job = td->io_ops_data;
  return job->ended[(job->ended_head + (unsigned)event) % job->depth];
}

// Disks are open from init on, and nothing is cached here.
static int nothing_to_do(struct thread_data* td, struct fio_file* file) {
  (void)td;
  (void)file;
  return 0;
}

__attribute__((visibility("default"))) struct ioengine_ops ioengine = {
    .name = "skiff",
    .version = FIO_IOOPS_VERSION,
    .flags = FIO_RAWIO | FIO_DISKLESSIO | FIO_NOEXTEND | FIO_NODISKUTIL |
             FIO_NO_OFFLOAD | FIO_ASYNCIO_SETS_ISSUE_TIME,
    .setup = engine_setup,
    .init = engine_init,
    .iomem_alloc = engine_iomem_alloc,
    .iomem_free = engine_iomem_free,
    .open_file = nothing_to_do,
    .close_file = nothing_to_do,
    .invalidate = nothing_to_do,
    .queue = engine_queue,
    .commit = engine_commit,
    .getevents = engine_getevents,
    .event = engine_event,
    .cleanup = engine_cleanup,
    .option_struct_size = sizeof(struct engine_options),
    .options = options_table,
};
