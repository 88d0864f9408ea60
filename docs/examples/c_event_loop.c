/* Writes all of a LUN to standard output from a loop of its own, with eight
   reads in flight: c_event_loop iscsi://HOST[:PORT]/TARGET/LUN */
#include <skiff/skiff.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { SLOTS = 8, CHUNK = 128 * 1024 };

/* A read, and where its data go. */
struct slot {
  char *data;
  uint64_t offset;
  size_t length;
  int ready;
};

static skiff_disk *disk;
static uint64_t size, next_read, next_write;
static struct slot slots[SLOTS];
static int running = 1, exit_code = 0;

static void stop(const char *what, const char *why) {
  if (why != NULL) {
    fprintf(stderr, "%s: %s\n", what, why);
    exit_code = 1;
  }
  running = 0;
}

static void on_read(void *user, int result, const char *message);

/* The next part of the disk that nobody reads. */
static void start(struct slot *slot) {
  slot->ready = 0;
  slot->offset = next_read;
  slot->length = size - next_read < CHUNK ? size - next_read : CHUNK;
  if (slot->length == 0) return;
  next_read += slot->length;
  if (skiff_disk_read(disk, slot->offset, slot->data, slot->length, on_read,
                      slot) != 0) {
    stop("read", skiff_last_error());
  }
}

/* Reads end in any order; they are written in theirs. */
static void on_read(void *user, int result, const char *message) {
  if (result != 0) {
    stop("read", message);
    return;
  }
  ((struct slot *)user)->ready = 1;
  for (int i = 0; i < SLOTS; i++) {
    struct slot *slot = &slots[i];
    if (!slot->ready || slot->offset != next_write) continue;
    if (fwrite(slot->data, 1, slot->length, stdout) != slot->length) {
      stop("standard output", "cannot be written");
      return;
    }
    next_write += slot->length;
    start(slot);
    i = -1; /* Another one may be next now. */
  }
  if (next_write == size) stop(NULL, NULL);
}

static void on_open(void *user, int result, const char *message) {
  skiff_disk_info info;
  if (result != 0) {
    stop(user, message);
    return;
  }
  SKIFF_INIT(info);
  skiff_disk_get_info(disk, &info);
  size = info.size_bytes;
  for (int i = 0; i < SLOTS; i++) start(&slots[i]);
}

int main(int argc, char **argv) {
  skiff_context *context;
  void *memory;
  struct epoll_event event = {.events = EPOLLIN};
  int epoll = epoll_create1(EPOLL_CLOEXEC);

  if (argc != 2 || epoll < 0) return 2;
  if (skiff_context_create(NULL, &context) != 0 ||
      skiff_buffer_alloc(context, SLOTS * CHUNK, &memory) != 0 ||
      skiff_disk_open(context, argv[1], NULL, on_open, argv[1], &disk) != 0) {
    fprintf(stderr, "%s\n", skiff_last_error());
    return 1;
  }
  for (int i = 0; i < SLOTS; i++) slots[i].data = (char *)memory + i * CHUNK;

  epoll_ctl(epoll, EPOLL_CTL_ADD, skiff_context_fd(context), &event);
  while (running) {
    int timeout;
    skiff_context_timeout(context, &timeout);
    epoll_wait(epoll, &event, 1, timeout);
    skiff_context_poll(context);
  }
  skiff_disk_close(disk, NULL, NULL);
  skiff_buffer_free(context, memory);
  skiff_context_close(context);
  close(epoll);
  return exit_code;
}
