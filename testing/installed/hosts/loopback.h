#ifndef SKIFF_TESTING_INSTALLED_HOSTS_LOOPBACK_H_
#define SKIFF_TESTING_INSTALLED_HOSTS_LOOPBACK_H_

/* What each host does with the library: it serves a disk in memory over TCP,
   writes to it and reads it back, and ends all that it made. Of callbacks, so
   that it runs on any loop. */

#include <skiff/skiff.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOPBACK_TARGET "iqn.2026-11.org.example:host"
#define LOOPBACK_BYTES 65536

typedef struct loopback {
  skiff_context* context;
  skiff_backend* backend;
  skiff_target* target;
  skiff_server* server;
  skiff_disk* disk;
  char written[LOOPBACK_BYTES];
  char read[LOOPBACK_BYTES];
  atomic_int finished;
} loopback;

/* Ends the program, and says why. */
static inline void loopback_check(int ok, const char* what,
                                  const char* message) {
  if (ok) return;
  fprintf(stderr, "%s: %s\n", what, message);
  exit(1);
}

/* The same for a call of the library. */
static inline void loopback_done(int result, const char* what) {
  loopback_check(result == 0, what, skiff_last_error());
}

static inline void loopback_lun_removed(void* user, int result,
                                        const char* message) {
  loopback* self = user;
  loopback_check(result == 0, "removing the LUN", message);
  loopback_done(skiff_target_close(self->target), "skiff_target_close");
  loopback_done(skiff_backend_close(self->backend), "skiff_backend_close");
  atomic_store(&self->finished, 1);
}

static inline void loopback_server_closed(void* user, int result,
                                          const char* message) {
  loopback* self = user;
  loopback_check(result == 0, "closing the server", message);
  loopback_done(
      skiff_target_remove_lun(self->target, 0, loopback_lun_removed, self),
      "skiff_target_remove_lun");
}

static inline void loopback_disk_closed(void* user, int result,
                                        const char* message) {
  loopback* self = user;
  loopback_check(result == 0, "closing the disk", message);
  loopback_done(
      skiff_server_close(self->server, 0, loopback_server_closed, self),
      "skiff_server_close");
}

static inline void loopback_read(void* user, int result, const char* message) {
  loopback* self = user;
  loopback_check(result == 0, "reading", message);
  loopback_check(memcmp(self->read, self->written, LOOPBACK_BYTES) == 0,
                 "comparing", "what was read is not what was written");
  loopback_done(skiff_disk_close(self->disk, loopback_disk_closed, self),
                "skiff_disk_close");
}

static inline void loopback_written(void* user, int result,
                                    const char* message) {
  loopback* self = user;
  loopback_check(result == 0, "writing", message);
  loopback_done(skiff_disk_read(self->disk, LOOPBACK_BYTES, self->read,
                                LOOPBACK_BYTES, loopback_read, self),
                "skiff_disk_read");
}

static inline void loopback_opened(void* user, int result,
                                   const char* message) {
  loopback* self = user;
  loopback_check(result == 0, "opening the disk", message);
  loopback_done(skiff_disk_write(self->disk, LOOPBACK_BYTES, self->written,
                                 LOOPBACK_BYTES, 0, loopback_written, self),
                "skiff_disk_write");
}

/* Begins. `finished` is set when nothing is left but the context. */
static inline void loopback_begin(loopback* self, skiff_context* context) {
  skiff_ram_options ram;
  char portal[256];
  char url[512];

  memset(self, 0, sizeof(*self));
  self->context = context;
  for (size_t i = 0; i < LOOPBACK_BYTES; ++i) {
    self->written[i] = (char)(i * 7 + i / 256);
  }
  SKIFF_INIT(ram);
  ram.size_bytes = 1 << 20;
  loopback_done(skiff_backend_create_ram(context, &ram, &self->backend),
                "skiff_backend_create_ram");
  loopback_done(
      skiff_target_create(context, LOOPBACK_TARGET, NULL, &self->target),
      "skiff_target_create");
  loopback_done(skiff_target_add_lun(self->target, 0, self->backend, NULL),
                "skiff_target_add_lun");
  loopback_done(skiff_server_create(context, NULL, &self->server),
                "skiff_server_create");
  loopback_done(skiff_server_add_target(self->server, self->target, NULL),
                "skiff_server_add_target");
  loopback_done(skiff_server_listen(self->server, "tcp://127.0.0.1:0", portal,
                                    sizeof(portal)),
                "skiff_server_listen");
  snprintf(url, sizeof(url), "iscsi://%s/%s/0", strstr(portal, "://") + 3,
           LOOPBACK_TARGET);
  loopback_done(
      skiff_disk_open(context, url, NULL, loopback_opened, self, &self->disk),
      "skiff_disk_open");
}

static inline int loopback_finished(loopback* self) {
  return atomic_load(&self->finished);
}

/* Ends the context, with which the host began. */
static inline void loopback_end(skiff_context* context) {
  loopback_done(skiff_context_close(context), "skiff_context_close");
}

static inline skiff_context* loopback_context(uint32_t threads) {
  skiff_context_options options;
  skiff_context* context = NULL;
  SKIFF_INIT(options);
  options.threads = threads;
  loopback_done(skiff_context_create(&options, &context),
                "skiff_context_create");
  return context;
}

/* All of it, on a context without threads of its own. */
static inline void loopback_run(void) {
  static loopback self;
  skiff_context* context = loopback_context(0);
  loopback_begin(&self, context);
  while (!loopback_finished(&self)) {
    loopback_check(skiff_context_wait(context, -1) >= 0, "skiff_context_wait",
                   skiff_last_error());
  }
  loopback_end(context);
}

#endif  // SKIFF_TESTING_INSTALLED_HOSTS_LOOPBACK_H_
