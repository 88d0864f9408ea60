/// @file
/// The initiator: disks of targets, by URL.
#ifndef SKIFF_DISK_H_
#define SKIFF_DISK_H_

#include <skiff/common.h>

#ifdef __cplusplus
extern "C" {
#endif

/// A logical unit of a target, used over a session. The session is restored
/// when its connection is lost, and I/O waits for that.
///
/// A disk lives on one thread of its context, where its callbacks run. Calls on
/// that thread are the cheapest; those from others are handed over.
typedef struct skiff_disk skiff_disk;

/// What happened to a disk without being asked for.
typedef enum skiff_disk_event {
  SKIFF_DISK_LOST = 1,      ///< The connection is gone, and is being restored.
  SKIFF_DISK_RESTORED = 2,  ///< It is there again.
  /// Not restored in time: I/O fails until it is. Restoring goes on.
  SKIFF_DISK_GIVEN_UP = 3,
  /// The target ended the session for good.
  SKIFF_DISK_ENDED = 4,
  /// The size changed: skiff_disk_get_info() has the new one.
  SKIFF_DISK_RESIZED = 5,
  /// The target told something else (a unit attention), or of an I/O that went
  /// well with trouble: the message says what.
  SKIFF_DISK_NOTICE = 6
} skiff_disk_event;

/// Told of an event. `result` and `message` say why.
typedef void (*skiff_disk_event_fn)(void* user, skiff_disk* disk, int event,
                                    int result, const char* message);

/// Does not ask what the disk is: only skiff_disk_command() works. For devices
/// that are no disks.
#define SKIFF_DISK_COMMANDS_ONLY (1u << 0)
/// Ask for CRC32C over headers, over data (iSCSI over TCP; RDMA has its own).
#define SKIFF_DISK_HEADER_DIGEST (1u << 1)
#define SKIFF_DISK_DATA_DIGEST (1u << 2)

/// How a disk, or a portal, is reached.
typedef struct skiff_disk_options {
  size_t struct_size;
  uint32_t flags;  ///< SKIFF_DISK_*.
  /// 1 is the first thread of the context, and so on. 0: the context chooses.
  uint32_t thread;
  const char* initiator_name;   ///< NULL: "iqn.2026-11.org.skiff:initiator".
  const char* initiator_alias;  ///< NULL: none.
  uint32_t max_commands;        ///< In flight; more I/O waits. 0: 64.
  uint32_t max_transfer_bytes;  ///< Longer I/O is split. 0: 1 MiB.
  /// How often a command is tried again that the device could not take just
  /// then. 0: 12; SKIFF_NEVER: never.
  uint32_t max_retries;
  uint32_t connect_timeout_ms;  ///< 0: 10 s.
  uint32_t login_timeout_ms;    ///< 0: 15 s.
  /// For one command, before it is aborted. 0: 60 s.
  uint32_t command_timeout_ms;
  uint32_t ping_interval_ms;  ///< After that much silence. 0: 5 s.
  uint32_t ping_timeout_ms;   ///< For the answer. 0: 5 s.
  /// How long I/O waits for a lost session to be restored. 0: 120 s.
  uint32_t restore_timeout_ms;
  uint32_t reserved;             ///< 0.
  skiff_disk_event_fn on_event;  ///< NULL: nobody is told.
  void* event_user;              ///< For `on_event`.
} skiff_disk_options;

/// Opens the logical unit of a URL:
///
///     iscsi://host[:port]/target-name/lun     over TCP
///     iser://host[:port]/target-name/lun      over RDMA (?transport=verbs, …)
///     auto://host[:port]/target-name/lun      over RDMA if it can be had
///
/// `?transport=NAME` may also name a transport of one's own: of byte streams
/// for iscsi://, of RDMA for iser://.
///
/// `*disk` is set before the call returns, so that the opening can be given up
/// by skiff_disk_close(); I/O before `done` is -ENOTCONN. If `done` tells an
/// error, the disk has to be closed all the same; not so if the call itself
/// failed, with `done` NULL or not: then `*disk` is NULL.
///
/// @return 0; -EINVAL for a URL that cannot be what was meant;
/// -EPROTONOSUPPORT where its transport is not there. Later: -ENOTCONN where no
/// connection or login succeeded; -EACCES where the target does not admit us;
/// -ENOENT where there is no such target or LUN; -ETIMEDOUT.
SKIFF_API int skiff_disk_open(skiff_context* context, const char* url,
                              const skiff_disk_options* options,
                              skiff_done_fn done, void* user,
                              skiff_disk** disk);

/// Opens another logical unit over the session of `sibling`; otherwise as
/// skiff_disk_open(). The session ends with the last disk that uses it. Of the
/// options, `flags`, `max_commands`, `max_transfer_bytes`, `max_retries` and
/// `on_event` count.
SKIFF_API int skiff_disk_open_lun(skiff_disk* sibling, uint32_t lun,
                                  const skiff_disk_options* options,
                                  skiff_done_fn done, void* user,
                                  skiff_disk** disk);

/// Ends a disk. The handle is invalid from the call on. I/O that is pending
/// ends with -ECANCELED before `done` runs, and no event comes any more.
/// Logging out is a part of it, and its errors are no errors: the result is 0.
SKIFF_API int skiff_disk_close(skiff_disk* disk, skiff_done_fn done,
                               void* user);

/// What a disk said about itself. Zero limits: it named none.
typedef struct skiff_disk_info {
  size_t struct_size;
  uint64_t size_bytes;
  uint32_t block_size;  ///< Bytes; offsets and lengths are multiples.
  uint32_t physical_block_size;
  uint32_t read_only;              ///< 1 or 0, as are the next ones.
  uint32_t rotational;             ///< Seeking costs time.
  uint32_t write_cache;            ///< Writes may be lost until flushed.
  uint32_t unmap;                  ///< SKIFF_IO_UNMAP works.
  uint32_t unmapped_reads_zeroes;  ///< What was unmapped reads as zeroes.
  uint32_t unmap_granularity;      ///< Bytes.
  uint64_t max_unmap_bytes;
  uint64_t max_transfer_bytes;
  uint64_t optimal_transfer_bytes;
  uint32_t max_compare_and_write_bytes;  ///< 0: it does not work.
  uint32_t lun;
  char vendor[16];
  char product[32];
  char revision[16];
  char serial[256];
  char identifier[256];  ///< "naa.6001405…": unique in the world, or "".
} skiff_disk_info;

/// Fills `*info`, whose size the caller has set. -ENOTCONN before the disk is
/// open.
SKIFF_API int skiff_disk_get_info(skiff_disk* disk, skiff_disk_info* info);

/// Asks the device again what it is.
SKIFF_API int skiff_disk_refresh(skiff_disk* disk, skiff_done_fn done,
                                 void* user);

/// What a session is, and what it has done since it began.
typedef struct skiff_disk_stats {
  size_t struct_size;
  uint32_t connected;  ///< 1: logged in just now.
  uint32_t reserved;
  uint64_t commands;
  uint64_t retries;
  uint64_t reconnects;
  uint64_t bytes_in;  ///< Payload, from the target.
  uint64_t bytes_out;
  uint64_t copied_bytes;   ///< Payload that was copied in memory.
  uint64_t rdma_commands;  ///< Whose data RDMA moved.
  uint64_t registrations;  ///< Of memory, for single commands.
  /// Of this disk: I/O that ended, how many of them failed, and how long they
  /// took, from submission to the end.
  uint64_t ios;
  uint64_t failed_ios;
  uint64_t latency_ns_sum;
  uint64_t latency_ns_max;
  char transport[32];   ///< "tcp".
  char data_model[16];  ///< "iSCSI" or "iSER".
  char device[64];      ///< Of RDMA, else "".
  char peer[128];       ///< "host:port", in numbers.
  char target[256];     ///< The target's name.
  /// Of this disk: I/O that reads and that writes, the bytes of what succeeded,
  /// and how long they took.
  uint64_t reads;
  uint64_t writes;
  uint64_t read_bytes;
  uint64_t written_bytes;
  skiff_latency read_latency;
  skiff_latency write_latency;
} skiff_disk_stats;

/// Fills `*stats`, whose size the caller has set. Context's thread; in a
/// callback on another thread of the context than the disk's, it is -EDEADLK.
SKIFF_API int skiff_disk_get_stats(skiff_disk* disk, skiff_disk_stats* stats);

/// Ends the connection of a disk's session as if it had been lost, and restores
/// it, for all disks of the session: for who knows before the session does that
/// its way has gone. SKIFF_DISK_LOST and SKIFF_DISK_RESTORED tell of it; I/O
/// waits for that. Where it is being restored already, nothing happens.
///
/// @return 0; -ENOTCONN before the disk is open.
SKIFF_API int skiff_disk_reconnect(skiff_disk* disk);

/* ---- I/O ---- */

/// What an I/O does.
typedef enum skiff_io_op {
  SKIFF_IO_READ = 1,
  SKIFF_IO_WRITE = 2,
  SKIFF_IO_FLUSH = 3,  ///< All writes that ended before are stable.
  SKIFF_IO_UNMAP = 4,  ///< Frees.
  SKIFF_IO_WRITE_ZEROES = 5,
  /// Writes if what is there is as expected, in one step that nothing gets
  /// between. The iovecs have what is expected, then what is to be written: 2 *
  /// length bytes. -EILSEQ: something else is there.
  SKIFF_IO_COMPARE_AND_WRITE = 6
} skiff_io_op;

/// The data are stable when it ends (writes of all kinds).
#define SKIFF_IO_FUA (1u << 0)
/// SKIFF_IO_WRITE_ZEROES may free.
#define SKIFF_IO_MAY_UNMAP (1u << 1)

/// One I/O. The struct and the array of iovecs are copied; the memory that the
/// iovecs name has to stay until `done`.
typedef struct skiff_io {
  size_t struct_size;
  uint32_t op;      ///< skiff_io_op.
  uint32_t flags;   ///< SKIFF_IO_FUA, SKIFF_IO_MAY_UNMAP.
  uint64_t offset;  ///< Bytes; as is length a multiple of the block size.
  uint64_t length;  ///< Bytes. 0 for SKIFF_IO_FLUSH.
  /// Sum up to `length` (see SKIFF_IO_COMPARE_AND_WRITE); NULL where no data
  /// move.
  const struct iovec* iov;
  uint32_t iov_count;  ///< At most 1024.
  uint32_t reserved;   ///< 0.
  skiff_done_fn done;
  void* user;  ///< For `done`.
} skiff_io;

/// Starts I/O, all or none. They run in parallel, and in any order: to have one
/// after another, start it when the other has ended.
///
/// `done` of all must be set, or of none: then the call blocks until all have
/// ended, and returns the first error. All structs have the same struct_size.
///
/// @param ids NULL, or gets `count` numbers for skiff_disk_cancel().
///
/// @return 0; -EINVAL for one that makes no sense (the message says which),
/// such as iovecs that don't add up; -ENOTCONN before the disk is open;
/// -ENOBUFS with 65,536 in flight. Later: -ERANGE beyond the end; -EIO for
/// errors of the medium; -ENOSPC; -EROFS; -EILSEQ; -EOPNOTSUPP for what the
/// device cannot; -EBADE for somebody else's reservation; -ETIMEDOUT; -ENOTCONN
/// where the session was lost and not restored in time; -EAGAIN where the
/// device was busy for too long; -ECANCELED.
SKIFF_API int skiff_disk_submit(skiff_disk* disk, const skiff_io* ios,
                                size_t count, uint64_t* ids);

/// Reads `length` bytes. As skiff_disk_submit() with one I/O.
SKIFF_API int skiff_disk_read(skiff_disk* disk, uint64_t offset, void* data,
                              size_t length, skiff_done_fn done, void* user);

/// Writes them. `flags` are those of skiff_io.
SKIFF_API int skiff_disk_write(skiff_disk* disk, uint64_t offset,
                               const void* data, size_t length, uint32_t flags,
                               skiff_done_fn done, void* user);

/// Flushes.
SKIFF_API int skiff_disk_flush(skiff_disk* disk, skiff_done_fn done,
                               void* user);

/// Asks for one I/O or command to be given up. Its `done` runs in any case,
/// with -ECANCELED if it did not end before.
///
/// @return 0; -ENOENT where it never was or, as far as the disk's own thread
/// asks, has ended already.
SKIFF_API int skiff_disk_cancel(skiff_disk* disk, uint64_t id);

/// As skiff_disk_cancel(), and tells what came of it, after the `done` of the
/// I/O. 0: it was given up, and the device has let go of it. -EALREADY: it
/// ended by itself, before or meanwhile, or since the device would not abort
/// it.
///
/// @return 0; -ENOENT: there never was one of this number.
SKIFF_API int skiff_disk_abort(skiff_disk* disk, uint64_t id,
                               skiff_done_fn done, void* user);

/// Resets the logical unit: it ends all commands, of other initiators, too.
/// Those of this disk are then tried again, or end with an error.
SKIFF_API int skiff_disk_reset(skiff_disk* disk, skiff_done_fn done,
                               void* user);

/* ---- What is mapped ---- */

/// Whether blocks have space of their own.
typedef enum skiff_extent_state {
  SKIFF_EXTENT_MAPPED = 0,       ///< Or it is not known.
  SKIFF_EXTENT_DEALLOCATED = 1,  ///< Unmapped.
  SKIFF_EXTENT_ANCHORED = 2      ///< Unmapped, with space set aside.
} skiff_extent_state;

/// Bytes in a row that are in one state. This struct never changes.
typedef struct skiff_extent {
  uint64_t offset;
  uint64_t length;
  uint32_t state;  ///< skiff_extent_state.
  uint32_t reserved;
} skiff_extent;

/// Asks which blocks are mapped, from `offset` on (GET LBA STATUS). Fills at
/// most `capacity` extents in ascending order, the first of which begins at
/// `offset`, and says in `*count` how many. The device says how far it tells:
/// for the rest, ask again from the end of the last one. Both have to stay
/// until `done`.
///
/// @return as skiff_disk_submit(); -EINVAL for an offset that is no multiple of
/// the block size; -ERANGE for one beyond the end. Later: -EOPNOTSUPP where the
/// device does not tell.
SKIFF_API int skiff_disk_get_lba_status(skiff_disk* disk, uint64_t offset,
                                        skiff_extent* extents, size_t capacity,
                                        size_t* count, skiff_done_fn done,
                                        void* user);

/* ---- SCSI commands ---- */

/// Not tried again by the library, neither when the device is busy nor when the
/// session was restored. Else it must do the same when carried out twice.
#define SKIFF_COMMAND_ONCE (1u << 0)

/// One SCSI command. The struct, the CDB and the arrays of iovecs are copied.
typedef struct skiff_command {
  size_t struct_size;
  const void* cdb;
  uint32_t cdb_length;  ///< 6 to 32, as its operation code says.
  uint32_t flags;       ///< SKIFF_COMMAND_ONCE.
  /// Data that go to the device, and that come from it.
  const struct iovec* data_out;
  const struct iovec* data_in;
  uint32_t data_out_count;
  uint32_t data_in_count;
} skiff_command;

/// What became of it. Filled before `done` runs.
typedef struct skiff_command_result {
  size_t struct_size;
  uint32_t status;          ///< SCSI's: 0 is GOOD, 2 is CHECK CONDITION.
  uint32_t sense_length;    ///< Bytes; 0 if there are none.
  uint64_t data_in_length;  ///< Bytes that came.
  uint64_t residual;        ///< Bytes that were not moved, or lacked room.
  uint32_t overflow;        ///< 1: the device had `residual` more for us.
  uint32_t answered;        ///< 1: the device answered; else status is nothing.
  uint8_t sense[256];       ///< SPC's, fixed or descriptor format.
} skiff_command_result;

/// Sends a command. `result` may be NULL; else its size is set, and it has to
/// stay until `done`. `id` may be NULL.
///
/// @return as skiff_disk_submit(); -EINVAL for a CDB of a wrong length.
SKIFF_API int skiff_disk_command(skiff_disk* disk, const skiff_command* command,
                                 skiff_command_result* result,
                                 skiff_done_fn done, void* user, uint64_t* id);

/* ---- Discovery ---- */

/// A target that a portal told of. Made by the library; later versions append.
typedef struct skiff_found_target {
  const char* name;
  /// "address:port,group", how it is reached; none: as the portal itself.
  const char* const* portals;
  size_t portal_count;
} skiff_found_target;

/// Asks a portal for its targets: "iscsi://host[:port]". `each` runs for each,
/// on a thread of the context, then `done` does. Options may be NULL.
SKIFF_API int skiff_discover(skiff_context* context, const char* url,
                             const skiff_disk_options* options,
                             void (*each)(void* user,
                                          const skiff_found_target* target),
                             skiff_done_fn done, void* user);

#ifdef __cplusplus
}
#endif

#endif  // SKIFF_DISK_H_
