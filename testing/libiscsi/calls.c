/* Calls libiscsi's interface as programs do, and prints what comes of it.
 *
 * Usage: calls URL both     what has to be the same with every libiscsi
 *        calls URL skiff    what Skiff's alone promises: mistakes, callbacks
 *                           that destroy what they are called by
 *
 * It is compiled with libiscsi's own headers. The URL's target has a second
 * logical unit, 1, and no unit 7. */
#include "testing/libiscsi/calls.h"

#include <stdint.h>

#define PARALLEL 64
#define IO_BYTES 4096

static void say(const char* what, long value) {
  printf("%s: %ld\n", what, value);
}

static void say_sense(struct scsi_task* task, const char* what) {
  printf("%s: status %d key %d ascq 0x%04x\n", what, task->status,
         task->sense.key, task->sense.ascq);
  scsi_free_scsi_task(task);
}

/* ---- The same for all ---- */

static void urls(void) {
  static const char* const bad[] = {"http://127.0.0.1/iqn.2026-11.x:y/0",
                                    "iscsi://127.0.0.1/iqn.2026-11.x:y",
                                    "iscsi://127.0.0.1/iqn.2026-11.x:y/z"};
  struct iscsi_context* iscsi = iscsi_create_context(NAME);
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); ++i) {
    EXPECT(iscsi_parse_full_url(iscsi, bad[i]) == NULL);
    EXPECT(strlen(iscsi_get_error(iscsi)) > 0);
  }
  struct iscsi_url* url =
      iscsi_parse_full_url(iscsi, "iscsi://host:42/iqn.2026-11.x%3Ay/7");
  printf("%s %s %d %d\n", url->portal, url->target, url->lun,
         (int)url->transport);
  iscsi_destroy_url(url);
  url = iscsi_parse_full_url(iscsi, "iser://host/iqn.2026-11.x:y/0");
  printf("%s %d\n", url->portal, (int)url->transport);
  iscsi_destroy_url(url);
  iscsi_destroy_context(iscsi);
}

static void identity(struct session session) {
  struct iscsi_context* iscsi = session.iscsi;
  struct scsi_task* task = iscsi_inquiry_sync(iscsi, 0, 0, 0, 255);
  struct scsi_inquiry_standard* standard = scsi_datain_unmarshall(task);
  printf("%d %s %s %d\n", standard->device_type,
         standard->vendor_identification, standard->product_identification,
         standard->cmdque);
  scsi_free_scsi_task(task);
  task = iscsi_inquiry_sync(iscsi, 0, 1, 0xb0, 4);
  say("whole page", scsi_datain_getfullsize(task));
  say("of it came", task->datain.size);
  scsi_free_scsi_task(task);
  task = iscsi_inquiry_sync(iscsi, 0, 1, 0xb0, 64);
  struct scsi_inquiry_block_limits* limits = scsi_datain_unmarshall(task);
  printf("%d %u %u %u\n", limits->max_cmp, limits->max_xfer_len,
         limits->max_unmap, limits->opt_unmap_gran);
  scsi_free_scsi_task(task);
  task = iscsi_readcapacity10_sync(iscsi, 0, 0, 0);
  struct scsi_readcapacity10* ten = scsi_datain_unmarshall(task);
  printf("%u %u\n", ten->lba, ten->block_size);
  scsi_free_scsi_task(task);
  task = iscsi_readcapacity16_sync(iscsi, 0);
  struct scsi_readcapacity16* sixteen = scsi_datain_unmarshall(task);
  printf("%llu %u %d %d\n", (unsigned long long)sixteen->returned_lba,
         sixteen->block_length, sixteen->lbpme, sixteen->lbppbe);
  scsi_free_scsi_task(task);
  task = iscsi_modesense6_sync(iscsi, 0, 1, SCSI_MODESENSE_PC_CURRENT,
                               SCSI_MODEPAGE_CACHING, 0, 255);
  struct scsi_mode_page* caching = scsi_modesense_get_page(
      scsi_datain_unmarshall(task), SCSI_MODEPAGE_CACHING, 0);
  printf("wce %d dra %d\n", caching->caching.wce, caching->caching.dra);
  scsi_free_scsi_task(task);
  task = iscsi_reportluns_sync(iscsi, 0, 64);
  struct scsi_reportluns_list* luns = scsi_datain_unmarshall(task);
  printf("%u luns: %u %u\n", luns->num, luns->luns[0], luns->luns[1]);
  scsi_free_scsi_task(task);
}

static void data(struct session session) {
  struct iscsi_context* iscsi = session.iscsi;
  static unsigned char out[8 * BLOCK], first[3 * BLOCK], rest[5 * BLOCK];
  for (size_t i = 0; i < sizeof(out); ++i) out[i] = (unsigned char)(i * 7);
  free_good(
      iscsi_write16_sync(iscsi, 0, 16, out, sizeof(out), BLOCK, 0, 0, 0, 0, 0),
      "write");
  struct scsi_task* task =
      iscsi_read10_sync(iscsi, 0, 16, sizeof(out), BLOCK, 0, 0, 0, 0, 0);
  EXPECT(task->datain.size == sizeof(out));
  EXPECT(memcmp(task->datain.data, out, sizeof(out)) == 0);
  free_good(task, "read");
  struct scsi_iovec parts[2] = {{first, sizeof(first)}, {rest, sizeof(rest)}};
  free_good(iscsi_read16_iov_sync(iscsi, 0, 16, sizeof(out), BLOCK, 0, 0, 0, 0,
                                  0, parts, 2),
            "read into iovecs");
  EXPECT(memcmp(first, out, sizeof(first)) == 0);
  EXPECT(memcmp(rest, out + sizeof(first), sizeof(rest)) == 0);
  memset(first, 0, sizeof(first));
  task = scsi_cdb_read16(16, sizeof(first), BLOCK, 0, 0, 0, 0, 0);
  EXPECT(scsi_task_add_data_in_buffer(task, BLOCK, first) == 0);
  EXPECT(scsi_task_add_data_in_buffer(task, 2 * BLOCK, first + BLOCK) == 0);
  EXPECT(iscsi_scsi_command_sync(iscsi, 0, task, NULL) == task);
  EXPECT(memcmp(first, out, sizeof(first)) == 0);
  free_good(task, "read into buffers");
  free_good(iscsi_write16_iov_sync(iscsi, 0, 32, NULL, sizeof(out), BLOCK, 0, 0,
                                   0, 0, 0, parts, 2),
            "write from iovecs");
  free_good(iscsi_synchronizecache10_sync(iscsi, 0, 0, 0, 0, 0), "flush");
  free_good(iscsi_writesame16_sync(iscsi, 0, 16, first, BLOCK, 8, 0, 0, 0, 0),
            "write same");
  free_good(iscsi_verify16_sync(iscsi, 0, first, BLOCK, 16, 0, 0, 1, BLOCK),
            "verify");
  struct unmap_list list = {16, 8};
  free_good(iscsi_unmap_sync(iscsi, 0, 0, 0, &list, 1), "unmap");
  task = iscsi_get_lba_status_sync(iscsi, 0, 16, 8 + 16);
  struct scsi_get_lba_status* status = scsi_datain_unmarshall(task);
  printf("%u: %llu %d\n", status->num_descriptors,
         (unsigned long long)status->descriptors[0].lba,
         (int)status->descriptors[0].provisioning);
  scsi_free_scsi_task(task);
}

static void errors(struct session session) {
  struct iscsi_context* iscsi = session.iscsi;
  static unsigned char block[2 * BLOCK];
  say_sense(
      iscsi_read16_sync(iscsi, 0, 1ull << 40, BLOCK, BLOCK, 0, 0, 0, 0, 0),
      "beyond the end");
  EXPECT(strstr(iscsi_get_error(iscsi), "LBA_OUT_OF_RANGE") != NULL);
  say_sense(iscsi_testunitready_sync(iscsi, 7), "no such LUN");
  say_sense(iscsi_compareandwrite_sync(iscsi, 0, 32, block, 2 * BLOCK, BLOCK, 0,
                                       0, 0, 0, 0),
            "other data are there");
  struct scsi_task* task = iscsi_testunitready_sync(iscsi, 1);
  if (task->status != SCSI_STATUS_GOOD) { /* Its first command. */
    scsi_free_scsi_task(task);
    task = iscsi_testunitready_sync(iscsi, 1);
  }
  free_good(task, "the second LUN");
  task = scsi_cdb_read10(0, BLOCK, BLOCK, 0, 0, 0, 0, 0);
  task->expxferlen = 4 * BLOCK;
  task = iscsi_scsi_command_sync(iscsi, 0, task, NULL);
  printf("underflow: %d %zu, %d came\n", (int)task->residual_status,
         task->residual, task->datain.size);
  scsi_free_scsi_task(task);
}

/* ---- With callbacks ---- */

struct io {
  struct scsi_task* task;
  unsigned char data[IO_BYTES];
  int* left;
  int status;
};

static void io_done(struct iscsi_context* iscsi, int status, void* command_data,
                    void* private_data) {
  struct io* io = private_data;
  (void)iscsi;
  EXPECT(command_data == io->task || command_data == NULL);
  io->status = status;
  --*io->left;
}

static void parallel(struct session session) {
  static struct io ios[PARALLEL];
  int left = PARALLEL;
  for (int i = 0; i < PARALLEL; ++i) {
    memset(ios[i].data, i + 1, IO_BYTES);
    ios[i].left = &left;
    ios[i].task = iscsi_write16_task(
        session.iscsi, 0, (uint64_t)i * IO_BYTES / BLOCK, ios[i].data, IO_BYTES,
        BLOCK, 0, 0, 0, 0, 0, io_done, &ios[i]);
    EXPECT(ios[i].task != NULL);
  }
  serve(session.iscsi, &left);
  for (int i = 0; i < PARALLEL; ++i) {
    EXPECT(ios[i].status == SCSI_STATUS_GOOD);
    scsi_free_scsi_task(ios[i].task);
    memset(ios[i].data, 0, IO_BYTES);
  }
  left = PARALLEL;
  static struct scsi_iovec iovecs[PARALLEL];
  for (int i = 0; i < PARALLEL; ++i) {
    iovecs[i].iov_base = ios[i].data;
    iovecs[i].iov_len = IO_BYTES;
    ios[i].task =
        iscsi_read16_task(session.iscsi, 0, (uint64_t)i * IO_BYTES / BLOCK,
                          IO_BYTES, BLOCK, 0, 0, 0, 0, 0, io_done, &ios[i]);
    scsi_task_set_iov_in(ios[i].task, &iovecs[i], 1);
  }
  serve(session.iscsi, &left);
  int wrong = 0;
  for (int i = 0; i < PARALLEL; ++i) {
    for (int j = 0; j < IO_BYTES; ++j) wrong += ios[i].data[j] != i + 1;
    scsi_free_scsi_task(ios[i].task);
  }
  say("wrong bytes of parallel reads", wrong);
}

static void chain_done(struct iscsi_context* iscsi, int status,
                       void* command_data, void* private_data) {
  int* left = private_data;
  EXPECT(status == SCSI_STATUS_GOOD);
  scsi_free_scsi_task(command_data);
  if (--*left > 0) {
    EXPECT(iscsi_testunitready_task(iscsi, 0, chain_done, left) != NULL);
  }
}

static void nop_done(struct iscsi_context* iscsi, int status,
                     void* command_data, void* private_data) {
  struct iscsi_data* echo = command_data;
  (void)iscsi;
  printf("nop: %d %.*s\n", status, (int)echo->size, (const char*)echo->data);
  --*(int*)private_data;
}

static void callbacks(struct session session) {
  int left = 10;
  EXPECT(iscsi_testunitready_task(session.iscsi, 0, chain_done, &left) != NULL);
  serve(session.iscsi, &left);
  say("left of a chain", left);
  left = 1;
  EXPECT(iscsi_nop_out_async(session.iscsi, nop_done, (unsigned char*)"ping", 4,
                             &left) == 0);
  serve(session.iscsi, &left);
  say("nops in flight", iscsi_get_nops_in_flight(session.iscsi));
}

static void cancel(struct session session) {
  static struct io ios[4];
  int left = 4;
  for (int i = 0; i < 4; ++i) {
    ios[i].left = &left;
    ios[i].status = -1;
    ios[i].task = iscsi_read16_task(session.iscsi, 0, 0, IO_BYTES, BLOCK, 0, 0,
                                    0, 0, 0, io_done, &ios[i]);
  }
  EXPECT(iscsi_scsi_cancel_task(session.iscsi, ios[0].task) == 0);
  say("left after a cancel", left);
  say("its status", ios[0].status);
  EXPECT(iscsi_scsi_cancel_task(session.iscsi, ios[0].task) != 0);
  iscsi_scsi_cancel_all_tasks(session.iscsi);
  say("left after all were cancelled", left);
  for (int i = 0; i < 4; ++i) scsi_free_scsi_task(ios[i].task);
}

static void reset(struct session session) {
  say("LUN reset", iscsi_task_mgmt_lun_reset_sync(session.iscsi, 0));
  struct scsi_task* task = iscsi_testunitready_sync(session.iscsi, 0);
  scsi_free_scsi_task(task); /* It may tell of the reset. */
  free_good(iscsi_testunitready_sync(session.iscsi, 0), "after a reset");
}

static void destroy_in_flight(void) {
  struct session session = connect_session();
  static struct io ios[8];
  int left = 8;
  for (int i = 0; i < 8; ++i) {
    ios[i].left = &left;
    ios[i].task = iscsi_read16_task(session.iscsi, 0, 0, IO_BYTES, BLOCK, 0, 0,
                                    0, 0, 0, io_done, &ios[i]);
  }
  iscsi_destroy_url(session.url);
  EXPECT(iscsi_destroy_context(session.iscsi) == 0);
  say("left after the context", left);
  say("status of one", ios[7].status);
  for (int i = 0; i < 8; ++i) scsi_free_scsi_task(ios[i].task);
}

static void discovery(struct session session) {
  struct iscsi_context* iscsi = iscsi_create_context(NAME);
  iscsi_set_session_type(iscsi, ISCSI_SESSION_DISCOVERY);
  EXPECT(iscsi_connect_sync(iscsi, session.url->portal) == 0);
  EXPECT(iscsi_login_sync(iscsi) == 0);
  struct iscsi_discovery_address* all = iscsi_discovery_sync(iscsi);
  for (struct iscsi_discovery_address* at = all; at != NULL; at = at->next) {
    printf("%s %s\n", at->target_name, at->portals->portal);
  }
  iscsi_free_discovery_data(iscsi, all);
  EXPECT(iscsi_logout_sync(iscsi) == 0);
  iscsi_destroy_context(iscsi);
}

static void refused(void) {
  struct iscsi_context* iscsi = iscsi_create_context(NAME);
  iscsi_set_targetname(iscsi, "iqn.2026-11.org.example:none");
  iscsi_set_session_type(iscsi, ISCSI_SESSION_NORMAL);
  EXPECT(iscsi_full_connect_sync(iscsi, "127.0.0.1:1", 0) != 0);
  EXPECT(strlen(iscsi_get_error(iscsi)) > 0);
  EXPECT(!iscsi_is_logged_in(iscsi));
  iscsi_destroy_context(iscsi);
}

static void both(void) {
  urls();
  refused();
  struct session session = connect_session();
  EXPECT(iscsi_is_logged_in(session.iscsi));
  EXPECT(iscsi_get_fd(session.iscsi) >= 0);
  identity(session);
  data(session);
  errors(session);
  parallel(session);
  callbacks(session);
  cancel(session);
  reset(session);
  discovery(session);
  end_session(session);
  destroy_in_flight();
}

/* ---- What Skiff promises ---- */

static void nulls(void) {
  EXPECT(iscsi_create_context(NULL) == NULL);
  EXPECT(iscsi_create_context("") == NULL);
  EXPECT(iscsi_service(NULL, POLLIN) != 0);
  EXPECT(iscsi_which_events(NULL) == 0);
  EXPECT(iscsi_get_fd(NULL) < 0);
  EXPECT(iscsi_full_connect_sync(NULL, "127.0.0.1", 0) != 0);
  EXPECT(iscsi_logout_sync(NULL) != 0);
  EXPECT(iscsi_reconnect(NULL) != 0);
  EXPECT(iscsi_testunitready_sync(NULL, 0) == NULL);
  EXPECT(iscsi_scsi_cancel_task(NULL, NULL) != 0);
  EXPECT(iscsi_parse_full_url(NULL, NULL) == NULL);
  EXPECT(iscsi_discovery_sync(NULL) == NULL);
  EXPECT(strlen(iscsi_get_error(NULL)) > 0);
  EXPECT(iscsi_destroy_context(NULL) == 0);
  EXPECT(scsi_datain_unmarshall(NULL) == NULL);
  EXPECT(scsi_create_task(17, (unsigned char*)"", 0, 0) == NULL);
  scsi_free_scsi_task(NULL);
  scsi_task_set_iov_in(NULL, NULL, 0);
  iscsi_destroy_url(NULL);
  iscsi_free_discovery_data(NULL, NULL);
}

static void refuse_url(struct iscsi_context* iscsi, const char* url,
                       const char* words) {
  EXPECT(iscsi_parse_full_url(iscsi, url) == NULL);
  EXPECT_ERROR(iscsi, words);
  EXPECT(strstr(iscsi_get_error(iscsi), "hidden") == NULL);
}

static void credentials(void) {
  struct iscsi_context* iscsi = iscsi_create_context(NAME);
  refuse_url(iscsi, "iscsi://me@host/iqn.2026-11.x:y/0", "belong together");
  refuse_url(iscsi, "iscsi://%hidden@host/iqn.2026-11.x:y/0", "no user");
  refuse_url(iscsi, "iscsi://me%hid@hidden@host/iqn.2026-11.x:y/0", "\"@\"");
  refuse_url(iscsi,
             "iscsi://me%hidden@host/iqn.2026-11.x:y/0?target_password=hidden",
             "belong together");
  refuse_url(iscsi,
             "iscsi://host/iqn.2026-11.x:y/0"
             "?target_user=a&target_password=hidden",
             "wants to know who asks");
  refuse_url(iscsi, "iscsi://me%hidden@host/iqn.2026-11.x:y", "LUN");
  EXPECT(iscsi_set_initiator_username_pwd(iscsi, "me", NULL) != 0);
  EXPECT_ERROR(iscsi, "belong together");
  EXPECT(iscsi_set_initiator_username_pwd(iscsi, "a@b", "hidden") != 0);
  EXPECT_ERROR(iscsi, "%@/?#");
  EXPECT(iscsi_set_target_username_pwd(iscsi, "", "hidden") != 0);
  EXPECT_ERROR(iscsi, "belong together");
  EXPECT(iscsi_set_initiator_username_pwd(iscsi, "", "") == 0);
  setenv("LIBISCSI_CHAP_USERNAME", "me", 1);
  refuse_url(iscsi, url_text, "belong together");
  unsetenv("LIBISCSI_CHAP_USERNAME");
  iscsi_destroy_context(iscsi);
}

static void mistakes(void) {
  struct iscsi_context* iscsi = iscsi_create_context(NAME);
  EXPECT(iscsi_testunitready_sync(iscsi, 0) == NULL);
  EXPECT_ERROR(iscsi, "not logged in");
  EXPECT(iscsi_full_connect_sync(iscsi, "127.0.0.1", 0) != 0);
  EXPECT_ERROR(iscsi, "target name");
  EXPECT(iscsi_disconnect(iscsi) != 0);
  EXPECT(iscsi_logout_sync(iscsi) != 0);
  EXPECT(iscsi_reconnect(iscsi) != 0);
  iscsi_destroy_context(iscsi);

  struct session session = connect_session();
  static unsigned char block[BLOCK];
  EXPECT(iscsi_connect_sync(session.iscsi, session.url->portal) != 0);
  EXPECT_ERROR(session.iscsi, "connected already");
  EXPECT(iscsi_set_targetname(session.iscsi, "iqn.2026-11.x:y") != 0);
  EXPECT(iscsi_scsi_command_async(session.iscsi, 0, NULL, NULL, NULL, NULL) !=
         0);
  EXPECT(iscsi_testunitready_sync(session.iscsi, -1) == NULL);
  EXPECT_ERROR(session.iscsi, "LUN");
  struct scsi_iovec little = {block, BLOCK / 2};
  EXPECT(iscsi_read16_iov_sync(session.iscsi, 0, 0, BLOCK, BLOCK, 0, 0, 0, 0, 0,
                               &little, 1) == NULL);
  EXPECT_ERROR(session.iscsi, "256 bytes, but 512");
  struct scsi_task* bare = iscsi_write16_sync(session.iscsi, 0, 0, NULL, BLOCK,
                                              BLOCK, 0, 0, 0, 0, 0);
  EXPECT(bare->status == SCSI_STATUS_ERROR);
  EXPECT_ERROR(session.iscsi, "has none");
  scsi_free_scsi_task(bare);
  EXPECT(iscsi_read16_sync(session.iscsi, 0, 0, BLOCK, 0, 0, 0, 0, 0, 0) ==
         NULL);
  struct scsi_task* task = iscsi_testunitready_sync(session.iscsi, 0);
  task->cdb_size = 99;
  EXPECT(iscsi_scsi_command_sync(session.iscsi, 0, task, NULL) == NULL);
  EXPECT_ERROR(session.iscsi, "99");
  scsi_free_scsi_task(task);
  EXPECT(iscsi_task_mgmt_target_cold_reset_sync(session.iscsi) != 0);
  EXPECT_ERROR(session.iscsi, "resets logical units");
  EXPECT(iscsi_logout_sync(session.iscsi) == 0);
  EXPECT(iscsi_testunitready_sync(session.iscsi, 0) == NULL);
  EXPECT_ERROR(session.iscsi, "not logged in");
  iscsi_destroy_url(session.url);
  iscsi_destroy_context(session.iscsi);
}

static void wait_inside_done(struct iscsi_context* iscsi, int status,
                             void* command_data, void* private_data) {
  EXPECT(status == SCSI_STATUS_GOOD);
  scsi_free_scsi_task(command_data);
  struct scsi_task* task = iscsi_testunitready_sync(iscsi, 0);
  EXPECT(task != NULL && task->status == SCSI_STATUS_GOOD);
  scsi_free_scsi_task(task);
  --*(int*)private_data;
}

static void cancelled_done(struct iscsi_context* iscsi, int status,
                           void* command_data, void* private_data) {
  (void)iscsi;
  EXPECT(status == SCSI_STATUS_CANCELLED);
  scsi_free_scsi_task(command_data);
  --*(int*)private_data;
}

struct victim {
  struct scsi_task* task;
  int* left;
};

static void cancel_inside_done(struct iscsi_context* iscsi, int status,
                               void* command_data, void* private_data) {
  struct victim* victim = private_data;
  EXPECT(status == SCSI_STATUS_GOOD);
  scsi_free_scsi_task(command_data);
  EXPECT(iscsi_scsi_cancel_task(iscsi, victim->task) == 0);
  --*victim->left;
}

static void destroy_inside_done(struct iscsi_context* iscsi, int status,
                                void* command_data, void* private_data) {
  (void)status;
  scsi_free_scsi_task(command_data);
  EXPECT(iscsi_destroy_context(iscsi) == 0);
  --*(int*)private_data;
}

static void inside_callbacks(void) {
  struct session session = connect_session();
  int left = 1;
  EXPECT(iscsi_testunitready_task(session.iscsi, 0, wait_inside_done, &left) !=
         NULL);
  serve(session.iscsi, &left);
  left = 2;
  struct victim victim = {NULL, &left};
  EXPECT(iscsi_testunitready_task(session.iscsi, 0, cancel_inside_done,
                                  &victim) != NULL);
  victim.task = iscsi_read16_task(session.iscsi, 0, 0, IO_BYTES, BLOCK, 0, 0, 0,
                                  0, 0, cancelled_done, &left);
  serve(session.iscsi, &left);
  left = 3;
  EXPECT(iscsi_testunitready_task(session.iscsi, 0, destroy_inside_done,
                                  &left) != NULL);
  iscsi_read16_task(session.iscsi, 0, 0, 1 << 20, BLOCK, 0, 0, 0, 0, 0,
                    cancelled_done, &left);
  iscsi_read16_task(session.iscsi, 0, 0, 1 << 20, BLOCK, 0, 0, 0, 0, 0,
                    cancelled_done, &left);
  struct pollfd descriptor = {iscsi_get_fd(session.iscsi), POLLIN, 0};
  while (left > 0) {
    iscsi_which_events(session.iscsi);
    poll(&descriptor, 1, 5000);
    iscsi_service(session.iscsi, POLLIN);
  }
  iscsi_destroy_url(session.url);
}

static void response_done(struct iscsi_context* iscsi, int status,
                          void* command_data, void* private_data) {
  (void)iscsi;
  EXPECT(status == SCSI_STATUS_GOOD);
  EXPECT(*(uint32_t*)command_data == ISCSI_TMR_FUNC_COMPLETE ||
         *(uint32_t*)command_data == ISCSI_TMR_TASK_DOES_NOT_EXIST);
  --*(int*)private_data;
}

static void aborting(void) {
  struct session session = connect_session();
  static struct io io;
  int left = 1;
  int of_command = 1;
  io.left = &of_command;
  io.task = iscsi_read16_task(session.iscsi, 0, 0, IO_BYTES, BLOCK, 0, 0, 0, 0,
                              0, io_done, &io);
  EXPECT(iscsi_task_mgmt_abort_task_async(session.iscsi, io.task, response_done,
                                          &left) == 0);
  serve(session.iscsi, &left);
  /* As QEMU does: the command is still there, unless it has ended. */
  if (of_command != 0) {
    EXPECT(iscsi_scsi_cancel_task(session.iscsi, io.task) == 0);
    EXPECT(io.status == SCSI_STATUS_CANCELLED);
  }
  EXPECT(of_command == 0);
  scsi_free_scsi_task(io.task);
  free_good(iscsi_testunitready_sync(session.iscsi, 0), "after an abort");
  end_session(session);
}

static void reconnecting(void) {
  struct session session = connect_session();
  static struct io ios[8];
  int left = 8;
  for (int i = 0; i < 8; ++i) {
    ios[i].left = &left;
    ios[i].task = iscsi_read16_task(session.iscsi, 0, 0, IO_BYTES, BLOCK, 0, 0,
                                    0, 0, 0, io_done, &ios[i]);
  }
  EXPECT(iscsi_reconnect(session.iscsi) == 0);
  serve(session.iscsi, &left);
  for (int i = 0; i < 8; ++i) {
    EXPECT(ios[i].status == SCSI_STATUS_GOOD ||
           ios[i].status == SCSI_STATUS_CHECK_CONDITION);
    scsi_free_scsi_task(ios[i].task);
  }
  EXPECT(iscsi_reconnect_sync(session.iscsi) == 0);
  scsi_free_scsi_task(iscsi_testunitready_sync(session.iscsi, 0));
  free_good(iscsi_testunitready_sync(session.iscsi, 0), "after a reconnect");
  end_session(session);
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  setvbuf(stdout, NULL, _IONBF, 0);
  url_text = argv[1];
  if (strcmp(argv[2], "both") == 0) {
    both();
  } else {
    nulls();
    credentials();
    mistakes();
    inside_callbacks();
    aborting();
    reconnecting();
  }
  if (failures != 0) return 1;
  printf("calls: done\n");
  return 0;
}
