/* What Skiff's libiscsi promises where things go wrong: sessions that end at
 * bad times, the child of a fork(), numbers that do not fit.
 *
 * Usage: trouble URL ONCE
 *
 * ONCE is a portal of the URL's target that serves one connection only. */
#include <stdint.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "testing/libiscsi/calls.h"

#define CHILD_SECONDS 20

static const char* once;

struct told {
  int left;
  int status;
};

static void note(struct iscsi_context* iscsi, int status, void* command_data,
                 void* private_data) {
  struct told* told = private_data;
  (void)iscsi;
  (void)command_data;
  told->status = status;
  --told->left;
}

static long now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* The event loop, for some time. */
static void serve_for(struct iscsi_context* iscsi, long ms) {
  const long end = now_ms() + ms;
  for (long left = ms; left > 0; left = end - now_ms()) {
    struct pollfd descriptor = {iscsi_get_fd(iscsi), 0, 0};
    descriptor.events = (short)iscsi_which_events(iscsi);
    if (poll(&descriptor, 1, (int)left) > 0) {
      EXPECT(iscsi_service(iscsi, descriptor.revents) == 0);
    }
  }
}

static void expect_good(struct iscsi_context* iscsi) {
  struct scsi_task* task = iscsi_testunitready_sync(iscsi, 0);
  EXPECT(task != NULL && task->status == SCSI_STATUS_GOOD);
  scsi_free_scsi_task(task);
}

/* ---- fork() ---- */

/* A child's end: as its checks went. */
static void end_child(void) { _exit(failures != 0); }

static void wait_for_child(pid_t child) {
  int status = -1;
  EXPECT(child > 0 && waitpid(child, &status, 0) == child);
  EXPECT(status == 0);
}

static void expect_refusal(struct iscsi_context* iscsi) {
  EXPECT(iscsi_testunitready_sync(iscsi, 0) == NULL);
  EXPECT_ERROR(iscsi, "parent");
  EXPECT(iscsi_service(iscsi, POLLIN) != 0);
  EXPECT(iscsi_which_events(iscsi) == 0);
  EXPECT(iscsi_reconnect_sync(iscsi) != 0);
}

static void fork_in_flight(void) {
  struct session session = connect_session();
  struct told told = {1, -1};
  struct scsi_task* task =
      iscsi_testunitready_task(session.iscsi, 0, note, &told);
  iscsi_which_events(session.iscsi);
  const pid_t child = fork();
  if (child == 0) {
    alarm(CHILD_SECONDS);
    expect_refusal(session.iscsi);
    EXPECT(iscsi_destroy_context(session.iscsi) == 0);
    EXPECT(told.left == 0 && told.status == SCSI_STATUS_CANCELLED);
    end_child();
  }
  wait_for_child(child);
  serve(session.iscsi, &told.left);
  EXPECT(told.status == SCSI_STATUS_GOOD);
  scsi_free_scsi_task(task);
  end_session(session);
}

static void fork_done(struct iscsi_context* iscsi, int status,
                      void* command_data, void* private_data) {
  (void)iscsi;
  (void)status;
  (void)command_data;
  *(pid_t*)private_data = fork();
}

/* A call that waits returns in the child, too. */
static void fork_inside_callback(void) {
  struct session session = connect_session();
  pid_t child = -1;
  EXPECT(iscsi_nop_out_async(session.iscsi, fork_done, NULL, 0, &child) == 0);
  alarm(CHILD_SECONDS);
  struct scsi_task* task = iscsi_testunitready_sync(session.iscsi, 0);
  if (child == 0) {
    EXPECT(task->status == SCSI_STATUS_CANCELLED ||
           task->status == SCSI_STATUS_GOOD);
    expect_refusal(session.iscsi);
    EXPECT(iscsi_destroy_context(session.iscsi) == 0);
    end_child();
  }
  alarm(0);
  EXPECT(task->status == SCSI_STATUS_GOOD);
  scsi_free_scsi_task(task);
  wait_for_child(child);
  expect_good(session.iscsi);
  end_session(session);
}

/* The parent's timer is about to expire, and the child turns first. */
static void fork_before_deadline(struct iscsi_context* iscsi) {
  struct pollfd descriptor = {iscsi_get_fd(iscsi), 0, 0};
  descriptor.events = (short)iscsi_which_events(iscsi);
  const pid_t child = fork();
  if (child == 0) {
    alarm(CHILD_SECONDS);
    EXPECT(poll(&descriptor, 1, 5000) == 1);
    EXPECT(iscsi_service(iscsi, descriptor.revents) != 0);
    EXPECT(iscsi_destroy_context(iscsi) == 0);
    end_child();
  }
  wait_for_child(child);
  EXPECT(poll(&descriptor, 1, 5000) == 1);
}

/* ---- Ends of sessions ---- */

static void disconnect_between_attempts(void) {
  struct session session = connect_by(once);
  struct told nop = {1, -1};
  EXPECT(iscsi_reconnect(session.iscsi) == 0);
  EXPECT(iscsi_nop_out_async(session.iscsi, note, NULL, 0, &nop) == 0);
  serve_for(session.iscsi, 300);
  EXPECT(!iscsi_is_logged_in(session.iscsi));
  EXPECT(nop.left == 1);
  fork_before_deadline(session.iscsi);
  serve_for(session.iscsi, 300);
  EXPECT(iscsi_disconnect(session.iscsi) == 0);
  struct told connected = {1, -1};
  EXPECT(iscsi_full_connect_async(session.iscsi, session.url->portal,
                                  session.url->lun, note, &connected) == 0);
  serve(session.iscsi, &connected.left);
  EXPECT(connected.status == SCSI_STATUS_GOOD);
  EXPECT(nop.left == 0 && nop.status == SCSI_STATUS_CANCELLED);
  serve_for(session.iscsi, 1500); /* Longer than between two attempts. */
  expect_good(session.iscsi);
  end_session(session);
}

static void aborted_before_the_end(void) {
  struct session session = connect_session();
  struct told told = {1, -1};
  struct told response = {1, -1};
  struct scsi_task* task = iscsi_read16_task(session.iscsi, 0, 0, BLOCK, BLOCK,
                                             0, 0, 0, 0, 0, note, &told);
  EXPECT(iscsi_task_mgmt_abort_task_async(session.iscsi, task, note,
                                          &response) == 0);
  EXPECT(iscsi_disconnect(session.iscsi) == 0);
  EXPECT(iscsi_full_connect_sync(session.iscsi, session.url->portal,
                                 session.url->lun) == 0);
  EXPECT(response.left == 0);
  EXPECT(told.left == 0 && told.status == SCSI_STATUS_CANCELLED);
  scsi_free_scsi_task(task);
  EXPECT(iscsi_task_mgmt_abort_task_set_sync(session.iscsi, 0) == 0);
  expect_good(session.iscsi);
  end_session(session);
}

static void disconnect_done(struct iscsi_context* iscsi, int status,
                            void* command_data, void* private_data) {
  (void)status;
  (void)command_data;
  EXPECT(iscsi_disconnect(iscsi) == 0);
  --*(int*)private_data;
}

static void disconnect_while_reconnecting(void) {
  struct session session = connect_session();
  int left = 1;
  EXPECT(iscsi_nop_out_async(session.iscsi, disconnect_done, NULL, 0, &left) ==
         0);
  alarm(CHILD_SECONDS);
  EXPECT(iscsi_reconnect_sync(session.iscsi) != 0);
  alarm(0);
  EXPECT(left == 0);
  iscsi_destroy_url(session.url);
  EXPECT(iscsi_destroy_context(session.iscsi) == 0);
}

/* What it comes to is told late, and is of no session that is there. */
static void late_discovery(void) {
  struct iscsi_context* iscsi = iscsi_create_context(NAME);
  struct iscsi_url* url = iscsi_parse_full_url(iscsi, url_text);
  struct told late = {2, -1};
  for (int i = 0; i < 2; ++i) {
    iscsi_set_session_type(iscsi, ISCSI_SESSION_DISCOVERY);
    EXPECT(iscsi_connect_async(iscsi, "127.0.0.1:1", note, &late) == 0);
    EXPECT(iscsi_disconnect(iscsi) == 0);
  }
  EXPECT(iscsi_connect_sync(iscsi, url->portal) == 0);
  struct iscsi_discovery_address* all = iscsi_discovery_sync(iscsi);
  EXPECT(all != NULL && strcmp(all->target_name, url->target) == 0);
  iscsi_free_discovery_data(iscsi, all);
  EXPECT(late.left == 0 && late.status == SCSI_STATUS_ERROR);
  EXPECT(iscsi_logout_sync(iscsi) == 0);
  iscsi_destroy_url(url);
  EXPECT(iscsi_destroy_context(iscsi) == 0);
}

/* ---- Mistakes ---- */

static struct iscsi_context* logging;
static int refused;
static int lines;

static void call_back(int level, const char* message) {
  (void)level;
  (void)message;
  ++lines;
  if (iscsi_service(logging, POLLIN) != 0) ++refused;
}

static void calls_of_a_log_function(void) {
  logging = iscsi_create_context(NAME);
  struct iscsi_url* url = iscsi_parse_full_url(logging, url_text);
  iscsi_set_log_level(logging, 10);
  iscsi_set_log_fn(logging, call_back);
  iscsi_set_targetname(logging, url->target);
  iscsi_set_session_type(logging, ISCSI_SESSION_NORMAL);
  alarm(CHILD_SECONDS);
  EXPECT(iscsi_full_connect_sync(logging, url->portal, url->lun) == 0);
  expect_good(logging);
  alarm(0);
  EXPECT(lines > 0 && refused == lines);
  iscsi_set_log_fn(logging, NULL);
  iscsi_destroy_url(url);
  EXPECT(iscsi_destroy_context(logging) == 0);
}

/* One block more than the CDB can count. */
static void lengths(void) {
  EXPECT(scsi_cdb_read10(0, 65536u * BLOCK, BLOCK, 0, 0, 0, 0, 0) == NULL);
  EXPECT(scsi_cdb_write10(0, 65536u * BLOCK, BLOCK, 0, 0, 0, 0, 0) == NULL);
  EXPECT(scsi_cdb_verify10(0, 65536u * BLOCK, 0, 0, 1, BLOCK) == NULL);
  EXPECT(scsi_cdb_writeatomic16(0, 65536u * BLOCK, BLOCK, 0, 0, 0, 0) == NULL);
  EXPECT(scsi_cdb_compareandwrite(0, 512u * BLOCK, BLOCK, 0, 0, 0, 0, 0) ==
         NULL);
  EXPECT(scsi_cdb_read16(0, UINT32_MAX, BLOCK, 0, 0, 0, 0, 0) == NULL);
  EXPECT(scsi_cdb_synchronizecache10(0, 65536, 0, 0) == NULL);
  EXPECT(scsi_cdb_prefetch10(0, 65536, 0, 0) == NULL);
  EXPECT(scsi_cdb_prefetch16(0, -1, 0, 0) == NULL);
  EXPECT(scsi_cdb_sanitize(0, 0, 1, 65536) == NULL);
  EXPECT(scsi_cdb_modeselect6(1, 0, 256) == NULL);
  EXPECT(scsi_cdb_modeselect10(1, 0, 65536) == NULL);
  EXPECT(scsi_cdb_inquiry(0, 0, 65536) == NULL);
  struct scsi_task* task =
      scsi_cdb_compareandwrite(0, 510u * BLOCK, BLOCK, 0, 0, 0, 0, 0);
  EXPECT(task != NULL && task->cdb[13] == 255);
  scsi_free_scsi_task(task);
  task = scsi_cdb_read10(0, 65535u * BLOCK, BLOCK, 0, 0, 0, 0, 0);
  EXPECT(task != NULL && task->cdb[7] == 255 && task->cdb[8] == 255);
  scsi_free_scsi_task(task);
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  setvbuf(stdout, NULL, _IONBF, 0);
  url_text = argv[1];
  once = argv[2];
  lengths();
  fork_in_flight();
  fork_inside_callback();
  disconnect_between_attempts();
  aborted_before_the_end();
  disconnect_while_reconnecting();
  late_discovery();
  calls_of_a_log_function();
  if (failures != 0) return 1;
  printf("trouble: done\n");
  return 0;
}
