/* nbdkit's plugin for disks of iSCSI and iSER targets: `nbdkit skiff URL`. */
#include <errno.h>
#include <pthread.h>
#include <skiff/skiff.h>
#include <stdio.h>
#include <stdlib.h>

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include "tools/clients/nbdkit/disk.h"
#include "tools/clients/nbdkit/extents.h"
#include "tools/clients/nbdkit/settings.h"

#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL

/* Made after nbdkit has forked: a child has no part in its parent's. */
static skiff_context* context;

/* The disks of all clients. */
static struct disk* first_disk;
static pthread_mutex_t first_disk_mutex = PTHREAD_MUTEX_INITIALIZER;

/* ---- Clients' connections ---- */

static void* plugin_open(int readonly) {
  (void)readonly;
  char why[DISK_MAX_WHY];
  struct disk* disk = calloc(1, sizeof(*disk));
  if (disk == NULL) {
    nbdkit_error("calloc: out of memory");
    return NULL;
  }
  if (disk_open(context, disk, why) != 0) {
    nbdkit_error("%s", why);
    free(disk);
    return NULL;
  }
  pthread_mutex_lock(&first_disk_mutex);
  disk->next = first_disk;
  first_disk = disk;
  pthread_mutex_unlock(&first_disk_mutex);
  return disk;
}

static void plugin_close(void* handle) {
  struct disk* disk = handle;
  pthread_mutex_lock(&first_disk_mutex);
  struct disk** place = &first_disk;
  while (*place != disk) place = &(*place)->next;
  *place = disk->next;
  pthread_mutex_unlock(&first_disk_mutex);
  disk_close(disk);
  free(disk);
}

/* ---- The plugin's life ---- */

static void plugin_load(void) { settings_init(); }

static int plugin_config_complete(void) {
  if (settings.url != NULL) {
    return skiff_url_without_passwords(settings.url, settings.shown,
                                       sizeof(settings.shown));
  }
  nbdkit_error(
      "the URL of a disk is missing: nbdkit skiff "
      "iscsi://HOST[:PORT]/TARGET/LUN");
  return -1;
}

/* What fails here is still seen on the terminal. */
static int plugin_get_ready(void) {
  char why[DISK_MAX_WHY];
  if (disk_probe(why) == 0) return 0;
  nbdkit_error("%s", why);
  return -1;
}

static int plugin_after_fork(void) {
  skiff_context_options options;
  SKIFF_INIT(options);
  options.threads = settings.threads;
  options.flags = settings.context_flags;
  options.log = disk_log;
  if (skiff_context_create(&options, &context) == 0) return 0;
  nbdkit_error("%s", skiff_last_error());
  return -1;
}

/* When nbdkit ends, no client is left, but it does not close their handles. */
static void plugin_cleanup(void) {
  while (first_disk != NULL) plugin_close(first_disk);
  if (context != NULL && skiff_context_close(context) != 0) {
    nbdkit_debug("close: %s", skiff_last_error());
  }
  context = NULL;
}

static void plugin_dump(void) {
  static const char* const kTransports[] = {"tcp", "verbs", "libfabric"};
  printf("skiff_version=%s\nskiff_transports=", skiff_version());
  const char* space = "";
  for (size_t i = 0; i < sizeof(kTransports) / sizeof(kTransports[0]); ++i) {
    if (!skiff_has_transport(kTransports[i])) continue;
    printf("%s%s", space, kTransports[i]);
    space = " ";
  }
  printf("\n");
}

/* ---- What a disk is ---- */

static int64_t plugin_get_size(void* handle) {
  const struct disk* disk = handle;
  return (int64_t)disk->info.size_bytes;
}

static int plugin_block_size(void* handle, uint32_t* minimum,
                             uint32_t* preferred, uint32_t* maximum) {
  enum { kPage = 4096, kMostPreferred = 32 << 20 };
  const skiff_disk_info* info = &((const struct disk*)handle)->info;
  const uint32_t physical = info->physical_block_size;
  *minimum = info->block_size;
  *preferred = info->block_size > kPage ? info->block_size : kPage;
  if (physical > *preferred && physical <= kMostPreferred &&
      (physical & (physical - 1)) == 0) {
    *preferred = physical;
  }
  /* The library splits what is longer than the device takes. */
  *maximum = UINT32_MAX;
  return 0;
}

static const char* plugin_export_description(void* handle) {
  const skiff_disk_info* info = &((const struct disk*)handle)->info;
  return nbdkit_printf_intern("%s %s", info->vendor, info->product);
}

static int plugin_can_write(void* handle) {
  return !((const struct disk*)handle)->info.read_only;
}

static int plugin_is_rotational(void* handle) {
  return (int)((const struct disk*)handle)->info.rotational;
}

static int plugin_can_trim(void* handle) {
  return (int)((const struct disk*)handle)->info.unmap;
}

static int plugin_can_flush(void* handle) {
  (void)handle;
  return 1;
}

static int plugin_can_fua(void* handle) {
  (void)handle;
  return NBDKIT_FUA_NATIVE;
}

static int plugin_can_fast_zero(void* handle) {
  (void)handle;
  return 1;
}

/* A flush is of the whole logical unit, whichever session wrote. */
static int plugin_can_multi_conn(void* handle) {
  (void)handle;
  return 1;
}

/* ---- Requests ---- */

/* NBD knows few errors, and nbdkit makes EINVAL of all others. */
static int error_for_nbd(int error, int writes) {
  switch (error) {
    case EINVAL:
    case ENOMEM:
    case ENOSPC:
    case EOPNOTSUPP:
      return error;
    case ERANGE: /* The disk is smaller now. */
      return writes ? ENOSPC : EINVAL;
    case EROFS:
    case EBADE:
    case EACCES:
      return EPERM;
    default:
      return EIO;
  }
}

static int check_alignment(const struct disk* disk, const char* what,
                           uint32_t count, uint64_t offset) {
  const uint32_t block_size = disk->info.block_size;
  if (((count | offset) & (block_size - 1)) == 0) return 0;
  nbdkit_error(
      "%s of %u bytes at %llu: both have to be multiples of the block "
      "size, %u (--filter=blocksize is for clients that ignore it)",
      what, count, (unsigned long long)offset, block_size);
  nbdkit_set_error(EINVAL);
  return -1;
}

static int run(const struct disk* disk, const char* what, const skiff_io* io) {
  const int result = skiff_disk_submit(disk->handle, io, 1, NULL);
  if (result == 0) return 0;
  nbdkit_error("%s of %llu bytes at %llu: %s", what,
               (unsigned long long)io->length, (unsigned long long)io->offset,
               skiff_last_error());
  nbdkit_set_error(error_for_nbd(-result, io->op != SKIFF_IO_READ));
  return -1;
}

/* `data` is NULL where none move. */
static int transfer(const struct disk* disk, const char* what, skiff_io_op op,
                    uint32_t io_flags, void* data, uint32_t count,
                    uint64_t offset) {
  if (check_alignment(disk, what, count, offset) != 0) return -1;
  const struct iovec iov = {data, count};
  skiff_io io;
  SKIFF_INIT(io);
  io.op = op;
  io.flags = io_flags;
  io.offset = offset;
  io.length = count;
  if (data != NULL) {
    io.iov = &iov;
    io.iov_count = 1;
  }
  return run(disk, what, &io);
}

static uint32_t fua_of(uint32_t flags) {
  return flags & NBDKIT_FLAG_FUA ? SKIFF_IO_FUA : 0;
}

static int plugin_pread(void* handle, void* data, uint32_t count,
                        uint64_t offset, uint32_t flags) {
  (void)flags;
  return transfer(handle, "read", SKIFF_IO_READ, 0, data, count, offset);
}

static int plugin_pwrite(void* handle, const void* data, uint32_t count,
                         uint64_t offset, uint32_t flags) {
  /* An iovec has no const. */
  return transfer(handle, "write", SKIFF_IO_WRITE, fua_of(flags), (void*)data,
                  count, offset);
}

static int plugin_flush(void* handle, uint32_t flags) {
  (void)flags;
  skiff_io io;
  SKIFF_INIT(io);
  io.op = SKIFF_IO_FLUSH;
  return run(handle, "flush", &io);
}

static int plugin_trim(void* handle, uint32_t count, uint64_t offset,
                       uint32_t flags) {
  if (transfer(handle, "trim", SKIFF_IO_UNMAP, 0, NULL, count, offset) != 0) {
    return -1;
  }
  /* UNMAP has no bit for it (SBC-4). */
  return flags & NBDKIT_FLAG_FUA ? plugin_flush(handle, 0) : 0;
}

static int plugin_zero(void* handle, uint32_t count, uint64_t offset,
                       uint32_t flags) {
  const struct disk* disk = handle;
  uint32_t io_flags = fua_of(flags);
  if (flags & NBDKIT_FLAG_MAY_TRIM) io_flags |= SKIFF_IO_MAY_UNMAP;
  /* Zeroes that the device has to write may take as long as a client's. */
  const int fast = (flags & NBDKIT_FLAG_MAY_TRIM) && disk->info.unmap &&
                   disk->info.unmapped_reads_zeroes;
  if ((flags & NBDKIT_FLAG_FAST_ZERO) && !fast) {
    nbdkit_set_error(EOPNOTSUPP);
    return -1;
  }
  return transfer(disk, "zero", SKIFF_IO_WRITE_ZEROES, io_flags, NULL, count,
                  offset);
}

/* Where nothing is ever unmapped, all is allocated. */
static int plugin_can_extents(void* handle) {
  const skiff_disk_info* info = &((const struct disk*)handle)->info;
  return info->unmap && info->unmapped_reads_zeroes;
}

static int plugin_extents(void* handle, uint32_t count, uint64_t offset,
                          uint32_t flags, struct nbdkit_extents* extents) {
  (void)flags;
  int error = 0;
  if (extents_add(handle, count, offset, extents, &error) == 0) return 0;
  if (error != 0) nbdkit_set_error(error_for_nbd(error, 0));
  return -1;
}

static struct nbdkit_plugin plugin = {
    .name = "skiff",
    .longname = "disks of iSCSI and iSER targets",
    .version = SKIFF_VERSION,
    .load = plugin_load,
    .config = settings_set,
    .config_complete = plugin_config_complete,
    .config_help = kSettingsHelp,
    .magic_config_key = "url",
    .dump_plugin = plugin_dump,
    .get_ready = plugin_get_ready,
    .after_fork = plugin_after_fork,
    .cleanup = plugin_cleanup,
    .open = plugin_open,
    .close = plugin_close,
    .get_size = plugin_get_size,
    .block_size = plugin_block_size,
    .export_description = plugin_export_description,
    .can_write = plugin_can_write,
    .is_rotational = plugin_is_rotational,
    .can_trim = plugin_can_trim,
    .can_flush = plugin_can_flush,
    .can_fua = plugin_can_fua,
    .can_fast_zero = plugin_can_fast_zero,
    .can_multi_conn = plugin_can_multi_conn,
    .can_extents = plugin_can_extents,
    .pread = plugin_pread,
    .pwrite = plugin_pwrite,
    .flush = plugin_flush,
    .trim = plugin_trim,
    .zero = plugin_zero,
    .extents = plugin_extents,
};

NBDKIT_REGISTER_PLUGIN(plugin)
