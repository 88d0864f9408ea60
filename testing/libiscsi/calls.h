/* What the programs share that call libiscsi's interface. */
#ifndef SKIFF_TESTING_LIBISCSI_CALLS_H_
#define SKIFF_TESTING_LIBISCSI_CALLS_H_

#include <iscsi/iscsi.h>
#include <iscsi/scsi-lowlevel.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 512
#define NAME "iqn.2026-11.org.example:calls"

static const char* url_text;
static int failures;

#define EXPECT(condition)                                            \
  do {                                                               \
    if (!(condition)) {                                              \
      printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      ++failures;                                                    \
    }                                                                \
  } while (0)

#define EXPECT_ERROR(iscsi, words)                                      \
  do {                                                                  \
    if (strstr(iscsi_get_error(iscsi), words) == NULL) {                \
      printf("%s:%d: '%s' is not in '%s'\n", __FILE__, __LINE__, words, \
             iscsi_get_error(iscsi));                                   \
      ++failures;                                                       \
    }                                                                   \
  } while (0)

/* ---- Sessions ---- */

struct session {
  struct iscsi_context* iscsi;
  struct iscsi_url* url;
};

/* By a portal, which leads to the URL's target; NULL: the URL's own. */
static inline struct session connect_by(const char* portal) {
  struct session session;
  session.iscsi = iscsi_create_context(NAME);
  session.url = iscsi_parse_full_url(session.iscsi, url_text);
  if (session.url == NULL) {
    printf("%s\n", iscsi_get_error(session.iscsi));
    exit(1);
  }
  iscsi_set_targetname(session.iscsi, session.url->target);
  iscsi_set_session_type(session.iscsi, ISCSI_SESSION_NORMAL);
  iscsi_set_header_digest(session.iscsi, ISCSI_HEADER_DIGEST_NONE_CRC32C);
  if (iscsi_full_connect_sync(session.iscsi,
                              portal != NULL ? portal : session.url->portal,
                              session.url->lun) != 0) {
    printf("%s\n", iscsi_get_error(session.iscsi));
    exit(1);
  }
  return session;
}

static inline struct session connect_session(void) { return connect_by(NULL); }

static inline void end_session(struct session session) {
  iscsi_destroy_url(session.url);
  EXPECT(iscsi_logout_sync(session.iscsi) == 0);
  EXPECT(!iscsi_is_logged_in(session.iscsi));
  EXPECT(iscsi_destroy_context(session.iscsi) == 0);
}

/* As an event loop does: until *left is 0. */
static inline void serve(struct iscsi_context* iscsi, const int* left) {
  while (*left > 0) {
    struct pollfd descriptor = {iscsi_get_fd(iscsi), 0, 0};
    descriptor.events = (short)iscsi_which_events(iscsi);
    if (poll(&descriptor, 1, 5000) <= 0) {
      printf("nothing came\n");
      exit(1);
    }
    if (iscsi_service(iscsi, descriptor.revents) != 0) {
      printf("%s\n", iscsi_get_error(iscsi));
      exit(1);
    }
  }
}

static inline void free_good(struct scsi_task* task, const char* what) {
  printf("%s: status %d\n", what, task == NULL ? -1 : task->status);
  scsi_free_scsi_task(task);
}

#endif /* SKIFF_TESTING_LIBISCSI_CALLS_H_ */
