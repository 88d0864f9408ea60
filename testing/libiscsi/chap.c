/* Logs in with credentials that it was given, and prints whether it may.
 *
 * Usage: chap URL USER PASSWORD [TARGET_USER TARGET_PASSWORD]
 *
 * Exit status 1 and the error: it may not. */
#include "testing/libiscsi/calls.h"

/* Nothing of the log may have a secret, either. */
static void print(int level, const char* message) {
  printf("%d: %s\n", level, message);
}

int main(int argc, char** argv) {
  if (argc != 4 && argc != 6) return 2;
  struct iscsi_context* iscsi = iscsi_create_context(NAME);
  iscsi_set_log_level(iscsi, 10);
  iscsi_set_log_fn(iscsi, print);
  struct iscsi_url* url = iscsi_parse_full_url(iscsi, argv[1]);
  if (url == NULL) return 2;
  iscsi_set_session_type(iscsi, ISCSI_SESSION_NORMAL);
  EXPECT(iscsi_set_initiator_username_pwd(iscsi, argv[2], argv[3]) == 0);
  if (argc == 6) {
    EXPECT(iscsi_set_target_username_pwd(iscsi, argv[4], argv[5]) == 0);
  }
  if (iscsi_full_connect_sync(iscsi, url->portal, url->lun) != 0) {
    printf("%s\n", iscsi_get_error(iscsi));
    return 1;
  }
  free_good(iscsi_testunitready_sync(iscsi, url->lun), "ready");
  /* The next login has to show it anew. */
  EXPECT(iscsi_reconnect_sync(iscsi) == 0);
  struct session session = {iscsi, url};
  end_session(session);
  return failures != 0;
}
