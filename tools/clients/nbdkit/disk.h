#ifndef SKIFF_TOOLS_CLIENTS_NBDKIT_DISK_H_
#define SKIFF_TOOLS_CLIENTS_NBDKIT_DISK_H_

#include <skiff/skiff.h>

/* The disk of one client's connection: a session of its own, so that clients
 * share nothing, and each sees the size that is there when it connects. */
struct disk {
  struct disk* next; /* The plugin's list. */
  skiff_disk* handle;
  skiff_disk_info info;
};

/* Of a message that says why. */
#define DISK_MAX_WHY 1536

/* Opens the disk that the settings name. 0, or -1 with the reason in `why`;
 * then nothing is left to close. */
int disk_open(skiff_context* context, struct disk* disk,
              char why[DISK_MAX_WHY]);

/* Logs out. */
void disk_close(struct disk* disk);

/* Whether nbdkit can start: opens the disk and closes it, or without the
 * setting `check` looks at the URL alone. Waits as long as the settings let it.
 * 0, or -1 with the reason in `why`.
 *
 * A child does it. What transports leave in a process, such as a provider's
 * threads, would not survive nbdkit's own fork. */
int disk_probe(char why[DISK_MAX_WHY]);

/* Gets the library's log: nbdkit shows it with -v. */
void disk_log(void* user, int level, const char* message);

#endif /* SKIFF_TOOLS_CLIENTS_NBDKIT_DISK_H_ */
