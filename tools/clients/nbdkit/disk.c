#include "tools/clients/nbdkit/disk.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include "tools/clients/nbdkit/settings.h"

/* NBD's limit for the block size that a client has to keep to. */
#define MAX_BLOCK_SIZE 65536

void disk_log(void* user, int level, const char* message) {
  (void)user;
  (void)level;
  nbdkit_debug("%s", message);
}

static void told(void* user, skiff_disk* handle, int event, int result,
                 const char* message) {
  (void)user;
  (void)handle;
  (void)result;
  switch (event) {
    case SKIFF_DISK_LOST:
      nbdkit_error("%s: the connection is lost: %s", settings.shown, message);
      break;
    case SKIFF_DISK_GIVEN_UP:
      nbdkit_error("%s: requests fail until the target is back: %s",
                   settings.shown, message);
      break;
    case SKIFF_DISK_ENDED:
      nbdkit_error(
          "%s: the target ended the session, clients have to connect "
          "again: %s",
          settings.shown, message);
      break;
    case SKIFF_DISK_RESTORED:
      nbdkit_debug("%s: the connection is restored", settings.shown);
      break;
    case SKIFF_DISK_RESIZED:
      nbdkit_debug("%s: the size changed, as clients see that connect from now",
                   settings.shown);
      break;
    default:
      nbdkit_debug("%s: %s", settings.shown, message);
  }
}

static int explain(char why[DISK_MAX_WHY]) {
  snprintf(why, DISK_MAX_WHY, "%s: %s", settings.shown, skiff_last_error());
  return -1;
}

/* What NBD cannot say to a client. */
static int check_info(const skiff_disk_info* info, char why[DISK_MAX_WHY]) {
  const uint32_t size = info->block_size;
  if (size != 0 && (size & (size - 1)) == 0 && size <= MAX_BLOCK_SIZE &&
      info->size_bytes <= INT64_MAX) {
    return 0;
  }
  snprintf(
      why, DISK_MAX_WHY,
      "%s: %llu bytes in blocks of %u: NBD needs blocks of a power of two, "
      "up to %d, and less than 2^63 bytes",
      settings.shown, (unsigned long long)info->size_bytes, size,
      MAX_BLOCK_SIZE);
  return -1;
}

int disk_open(skiff_context* context, struct disk* disk,
              char why[DISK_MAX_WHY]) {
  skiff_disk_options options = settings.disk;
  options.on_event = told;
  if (skiff_disk_open(context, settings.url, &options, NULL, NULL,
                      &disk->handle) != 0) {
    return explain(why);
  }
  SKIFF_INIT(disk->info);
  int failed = 0;
  if (skiff_disk_get_info(disk->handle, &disk->info) != 0) {
    failed = explain(why);
  } else {
    failed = check_info(&disk->info, why);
  }
  if (failed != 0) disk_close(disk);
  return failed;
}

void disk_close(struct disk* disk) {
  if (skiff_disk_close(disk->handle, NULL, NULL) != 0) {
    nbdkit_debug("close: %s", skiff_last_error());
  }
}

/* In the child. */
static int probe(char why[DISK_MAX_WHY]) {
  skiff_context_options options;
  SKIFF_INIT(options);
  options.log = disk_log;
  skiff_context* context = NULL;
  struct disk disk = {0};
  if (skiff_context_create(&options, &context) != 0) return explain(why);
  if (settings.check) {
    if (disk_open(context, &disk, why) != 0) return -1;
    disk_close(&disk);
    return 0;
  }
  /* A URL that cannot be right fails at once. */
  const int failed = skiff_disk_open(context, settings.url, &settings.disk,
                                     skiff_ignore, NULL, &disk.handle);
  return failed == 0 ? 0 : explain(why);
}

/* Reads until the end; how much it was. */
static size_t read_all(int fd, char* data, size_t size) {
  size_t length = 0;
  while (length < size) {
    const ssize_t count = read(fd, data + length, size - length);
    if (count == 0 || (count < 0 && errno != EINTR)) break;
    if (count > 0) length += (size_t)count;
  }
  return length;
}

int disk_probe(char why[DISK_MAX_WHY]) {
  int ends[2];
  if (pipe(ends) != 0) {
    snprintf(why, DISK_MAX_WHY, "pipe: %s", strerror(errno));
    return -1;
  }
  const pid_t child = fork();
  if (child == 0) {
    why[0] = '\0';
    /* All of the string, and its end: an empty one is success. */
    const int failed = probe(why);
    const size_t length = failed == 0 ? 1 : strlen(why) + 1;
    _exit(write(ends[1], why, length) == (ssize_t)length ? 0 : 1);
  }
  close(ends[1]);
  size_t length = 0;
  if (child > 0) {
    length = read_all(ends[0], why, DISK_MAX_WHY);
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
    }
  }
  close(ends[0]);
  if (length == 0 || why[length - 1] != '\0') {
    snprintf(why, DISK_MAX_WHY, "%s: it could not be checked: %s",
             settings.shown,
             child < 0 ? strerror(errno) : "the process ended early");
    return -1;
  }
  return why[0] == '\0' ? 0 : -1;
}
