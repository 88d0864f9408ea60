/// @file
/// The target: logical units, the names that they are served under, and the
/// portals by which initiators come.
#ifndef SKIFF_TARGET_H_
#define SKIFF_TARGET_H_

#include <skiff/backend.h>
#include <skiff/common.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- SCSI targets and logical units ---- */

/// A SCSI target: logical units under one name. Belongs to one context.
typedef struct skiff_target skiff_target;

/// What an initiator may do with a logical unit; a set.
#define SKIFF_ACCESS_IDENTIFY (1u << 0)  ///< See it.
#define SKIFF_ACCESS_READ (1u << 1)
#define SKIFF_ACCESS_WRITE (1u << 2)
#define SKIFF_ACCESS_CONTROL (1u << 3)  ///< Reservations, resets.
#define SKIFF_ACCESS_ALL 15u

/// Who an initiator says it is. Made by the library; later versions append.
typedef struct skiff_initiator_id {
  const char* initiator;         ///< Its name: "iqn.…".
  const char* initiator_port;    ///< The name with its ISID.
  const char* target_port;       ///< Which of ours it uses.
  const char* authenticated_as;  ///< The name of CHAP; "": nobody asked.
  const char* address;           ///< "10.0.0.1"; "" where its network has none.
} skiff_initiator_id;

/// Who may do what. Both run on threads of the context, on several at once, and
/// must not block or call the target.
typedef struct skiff_access_ops {
  size_t struct_size;
  /// 0: may log in; -EACCES: may not; -EPERM: has not shown who it is. NULL:
  /// everybody may.
  int (*admit)(void* user, const skiff_initiator_id* who);
  /// SKIFF_ACCESS_* for as long as its session lasts. NULL: all.
  uint32_t (*rights)(void* user, const skiff_initiator_id* who, uint64_t lun);
  void* user;  ///< For both; stays until the target is closed.
} skiff_access_ops;

/// A logical unit that a rule shows.
typedef struct skiff_access_lun {
  uint64_t lun;        ///< The target's, up to 16383.
  uint64_t seen_as;    ///< The initiator's number for it, up to 16383.
  uint32_t read_only;  ///< Not 0: writes fail, also where the rule allows them.
  uint32_t reserved;   ///< 0.
} skiff_access_lun;

/// Who may come in, and what he sees. An initiator has to fit all conditions;
/// those that are left out fit everybody.
typedef struct skiff_access_rule {
  size_t struct_size;
  const char* initiator;         ///< Its name, "iqn.…", which it only says.
  const char* authenticated_as;  ///< The name of CHAP, which it has shown.
  /// It comes from one of these: "10.0.0.0/8", "fd00::1". At most 4096.
  const char* const* addresses;
  size_t address_count;
  /// NULL: all, under the target's numbers. Else those alone; none with
  /// `lun_count` 0.
  const skiff_access_lun* luns;
  size_t lun_count;
  /// Not 0: writes, resets and changes of mode pages fail.
  uint32_t read_only;
  uint32_t reserved;  ///< 0.
} skiff_access_rule;

/// Makes a target without logical units. `name` is an iSCSI name: "iqn.…",
/// "eui.…", "naa.…". `access` NULL: everybody may do everything.
///
/// @return 0; -EINVAL for a name that is none.
SKIFF_API int skiff_target_create(skiff_context* context, const char* name,
                                  const skiff_access_ops* access,
                                  skiff_target** target);

/// The same with rules in place of callbacks. Of those that an initiator fits,
/// the first one counts. Who fits none may not come in, and does not discover
/// the target; without rules, that is everybody. `rules` points to `count`
/// rules, at most 65536, and is copied.
SKIFF_API int skiff_target_create_with_rules(
    skiff_context* context, const char* name,
    const skiff_access_rule* const* rules, size_t count, skiff_target** target);

/// Replaces all rules at once, also while initiators are logged in: the
/// sessions of those that fit none any more are closed. Others that see other
/// logical units are told (REPORTED LUNS DATA HAS CHANGED). Does not wait for
/// that.
///
/// @return 0; -EINVAL, and nothing has changed; -ENOTSUP: the target was not
/// made with rules.
SKIFF_API int skiff_target_set_rules(skiff_target* target,
                                     const skiff_access_rule* const* rules,
                                     size_t count);

/// Has skiff_access_ops asked again for all who are logged in, after its
/// answers have changed. They meet what skiff_target_set_rules() says.
SKIFF_API int skiff_target_review_access(skiff_target* target);

/// What initiators see of a logical unit.
typedef struct skiff_lun_options {
  size_t struct_size;
  const char* vendor;    ///< At most 8 characters. NULL: "SKIFF".
  const char* product;   ///< At most 16. NULL: "SKIFF DISK".
  const char* revision;  ///< At most 4. NULL: the library's version.
  const char* serial;  ///< NULL: from the medium's identity, or from the name.
  uint32_t max_transfer_bytes;  ///< Of one command. 0: 16 MiB.
  uint32_t max_tasks;           ///< Of one session. 0: 1024.
} skiff_lun_options;

/// Adds a logical unit, at once. `lun` is at most 16383; `options` may be NULL.
///
/// @return 0; -EEXIST: the LUN is taken; -ERANGE: it is too large; -EINVAL.
SKIFF_API int skiff_target_add_lun(skiff_target* target, uint64_t lun,
                                   skiff_backend* backend,
                                   const skiff_lun_options* options);

/// Removes it: its commands are given up, and new ones refused. When `done`
/// runs, nothing is in flight any more, and the backend may be closed, also in
/// there.
///
/// @return 0; -ENOENT: there is no such LUN.
SKIFF_API int skiff_target_remove_lun(skiff_target* target, uint64_t lun,
                                      skiff_done_fn done, void* user);

/// What became of commands. Each counter only grows, but for `in_flight`. Read
/// while commands run, they may differ by those of just now. This struct never
/// changes.
typedef struct skiff_command_counts {
  uint64_t reads;       ///< READ of all lengths, answered with whatever status.
  uint64_t writes;      ///< WRITE, and WRITE AND VERIFY.
  uint64_t others;      ///< All other commands.
  uint64_t read_bytes;  ///< Data of reads that succeeded.
  uint64_t written_bytes;
  uint64_t check_conditions;  ///< Answered with an error.
  uint64_t busy;              ///< Answered with BUSY or TASK SET FULL.
  /// Ended by task management, by a reset, with the session or with the logical
  /// unit: in none of those above.
  uint64_t aborted;
  uint64_t in_flight;          ///< Just now, until the answer has left.
  skiff_latency read_latency;  ///< From arrival to answer.
  skiff_latency write_latency;
} skiff_command_counts;

/// A logical unit, for operators. Made by the library; later versions append.
/// Counted since it was added.
typedef struct skiff_lun_info {
  uint64_t lun;
  const char* medium;     ///< What the backend is, in words.
  const char* serial;     ///< Its serial number.
  const char* data_loss;  ///< Why data may be lost; else "".
  uint64_t size_bytes;
  uint64_t failed_reads;  ///< Operations of the medium, as are the next ones.
  uint64_t failed_writes;
  uint64_t failed_flushes;
  uint64_t failed_unmaps;
  uint64_t failed_write_zeroes;
  uint64_t failed_compare_and_writes;
  skiff_command_counts counts;  ///< Of all sessions, also of past ones.
} skiff_lun_info;

/// Calls `each` for every logical unit, ascending, before it returns and on the
/// calling thread. Where `each` returns nonzero, that ends it, and is returned.
SKIFF_API int skiff_target_luns(skiff_target* target,
                                int (*each)(void* user,
                                            const skiff_lun_info* lun),
                                void* user);

/// Ends a target, with the logical units that are left. Their backends stay
/// busy until that is over: to be told, remove them before.
///
/// @return 0; -EBUSY: a server serves it.
SKIFF_API int skiff_target_close(skiff_target* target);

/* ---- Servers ---- */

/// Serves targets by portals. Belongs to one context, and uses all its threads.
typedef struct skiff_server skiff_server;

/// Digests of CHAP; a set. The strongest that the initiator has is used.
#define SKIFF_CHAP_MD5 (1u << 0)
#define SKIFF_CHAP_SHA1 (1u << 1)
#define SKIFF_CHAP_SHA256 (1u << 2)
#define SKIFF_CHAP_SHA3_256 (1u << 3)
#define SKIFF_CHAP_ALL 15u
/// In place of a set: nobody has to authenticate himself.
#define SKIFF_CHAP_EVERYBODY (1u << 31)

/// Who wants to log in, as far as he has said. Made by the library; later
/// versions append.
typedef struct skiff_login_attempt {
  const char* initiator;  ///< The name that it gives itself: "iqn.…".
  const char* target;     ///< "": for discovery.
  const char* peer;       ///< Where from: "host:port".
} skiff_login_attempt;

/// Who has to authenticate himself, and by which secrets. Asked for each login,
/// on threads of the context, on several at once. Neither may block.
typedef struct skiff_authenticator_ops {
  size_t struct_size;
  /// Asked first: SKIFF_CHAP_* for this login. 0: it is refused. NULL:
  /// SKIFF_CHAP_ALL.
  uint32_t (*terms)(void* user, const skiff_login_attempt* who);
  /// Who is called `chap_name` to this target? The answer goes to
  /// skiff_server_answer_login(), with this `login`, in here or later, on any
  /// thread. Without one, the login ends with the server's `login_timeout_ms`.
  ///
  /// Only the name of CHAP is shown to be true, not that of the initiator.
  /// Where it matters that both belong together, answer -ENOENT to a pair that
  /// does not.
  void (*find)(void* user, const skiff_login_attempt* who,
               const char* chap_name, uint64_t login);
  void* user;  ///< For both; stays until the server's end is told.
} skiff_authenticator_ops;

/// A user, by his secret of 12 to 255 bytes. Copied, and the copies are
/// overwritten after use; the caller's own is the caller's to overwrite.
typedef struct skiff_chap_account {
  size_t struct_size;
  const void* secret;
  size_t secret_size;
  /// Who the target is to this user, where he asks; both or none. Another
  /// secret than his.
  const char* target_name;
  const void* target_secret;
  size_t target_secret_size;
} skiff_chap_account;

/// The limits of a server. In a time, SKIFF_NEVER stands for never.
typedef struct skiff_server_options {
  size_t struct_size;
  uint32_t max_connections;
  uint32_t max_logins;  ///< Of them, connections that log in just now.
  uint32_t max_discovery_sessions;
  uint32_t max_sessions_per_peer;  ///< From one address.
  uint32_t queue_depth;            ///< Commands of one session. 0: 128.
  uint32_t login_timeout_ms;       ///< 0: 15 s.
  uint32_t ping_interval_ms;       ///< After that much silence. 0: 30 s.
  uint32_t ping_timeout_ms;        ///< For the answer. 0: 15 s.
  uint32_t send_timeout_ms;  ///< A connection that takes no byte. 0: 60 s.
  uint32_t data_timeout_ms;  ///< For data that a write was asked for. 0: 60 s.
  /// How long the end of a server waits for its backends. 0: 5 s.
  uint32_t backend_patience_ms;
  uint32_t listen_retry_ms;  ///< Where a device went away. 0: 2 s.
  uint64_t memory_budget;  ///< Bytes, of all connections. 0: by the machine's.
  uint64_t buffer_bytes;   ///< Bounce buffers of each thread. 0: 64 MiB.
  /// Copied. NULL: nobody has to authenticate himself.
  const skiff_authenticator_ops* authenticator;
} skiff_server_options;

/// Makes a server without portals and targets. `options` may be NULL.
///
/// @return 0; -EINVAL for an option that makes no sense; -ENOMEM.
SKIFF_API int skiff_server_create(skiff_context* context,
                                  const skiff_server_options* options,
                                  skiff_server** server);

/// Answers skiff_authenticator_ops::find, once. Any thread; does not block.
///
/// @param result 0: `account` is the user's. -ENOENT: there is no such user,
/// which the initiator cannot tell from a wrong secret. Another negative errno:
/// nobody can say; the login ends with "service unavailable", and is logged.
/// @param account NULL with an error.
///
/// @return 0; -ENOENT: no such login waits: it was answered before, or has
/// ended; -EINVAL: the answer is none, and the login goes on waiting.
SKIFF_API int skiff_server_answer_login(skiff_server* server, uint64_t login,
                                        int result,
                                        const skiff_chap_account* account);

/// Opens a portal: "tcp://0.0.0.0:3260", "verbs://…", "auto://…". Port 0: the
/// system chooses. Context's thread; of a context with threads of its own, any
/// thread but these, unless it is the first (-EDEADLK).
///
/// @param bound NULL with `bound_size` 0, or gets the address with the port
/// that was bound.
///
/// @return 0; -EADDRINUSE and its like; -ERANGE: `bound` is too small, and the
/// portal is not open.
SKIFF_API int skiff_server_listen(skiff_server* server, const char* address,
                                  char* bound, size_t bound_size);

/// Closes a portal, named as skiff_server_listen() was given it, or gave it.
/// Sessions that came by it go on.
///
/// @return 0; -ENOENT: there is no such portal.
SKIFF_API int skiff_server_close_portal(skiff_server* server,
                                        const char* address, skiff_done_fn done,
                                        void* user);

/// Serves a target, by all portals. `alias` is for people, and may be NULL.
///
/// @return 0; -EEXIST: one of this name is served.
SKIFF_API int skiff_server_add_target(skiff_server* server,
                                      skiff_target* target, const char* alias);

/// Serves it no more: its sessions are asked to log out, and dropped after
/// `grace_ms`. When `done` runs, none is left, and the target may be closed.
///
/// @return 0; -ENOENT: it is not served.
SKIFF_API int skiff_server_remove_target(skiff_server* server,
                                         skiff_target* target,
                                         uint32_t grace_ms, skiff_done_fn done,
                                         void* user);

/// A session, for operators. Made by the library; later versions append.
typedef struct skiff_session_info {
  uint64_t id;  ///< For skiff_server_drop_session().
  const char* initiator;
  const char* initiator_alias;
  const char* target;  ///< "": for discovery.
  const char* portal;  ///< Ours.
  const char* peer;
  const char* transport;   ///< "tcp".
  const char* data_model;  ///< "iSCSI" or "iSER".
  const char* device;      ///< Of RDMA, else "".
  uint8_t isid[6];
  uint16_t tsih;
  uint64_t commands;
  uint64_t bytes_in;  ///< Payload.
  uint64_t bytes_out;
  uint64_t wire_bytes_in;  ///< With headers.
  uint64_t wire_bytes_out;
  skiff_command_counts counts;   ///< Of commands that got to a logical unit.
  const char* authenticated_as;  ///< The name of CHAP; "": nobody asked.
} skiff_session_info;

/// Calls `each` for every session, on a thread of the context, then `done`.
/// Where `each` returns nonzero, that ends it, and is the result.
SKIFF_API int skiff_server_sessions(skiff_server* server,
                                    int (*each)(void* user,
                                                const skiff_session_info* info),
                                    skiff_done_fn done, void* user);

/// Drops a session, without more ado. The result is -ENOENT where there is none
/// of that number.
SKIFF_API int skiff_server_drop_session(skiff_server* server, uint64_t id,
                                        skiff_done_fn done, void* user);

/// Ends a server: no new connections; initiators are asked to log out, and
/// dropped after `grace_ms`. The handle is invalid from the call on. When
/// `done` runs, the targets may be closed.
SKIFF_API int skiff_server_close(skiff_server* server, uint32_t grace_ms,
                                 skiff_done_fn done, void* user);

#ifdef __cplusplus
}
#endif

#endif  // SKIFF_TARGET_H_
