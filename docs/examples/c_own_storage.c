/* Serves storage of one's own: c_own_storage [tcp://HOST:PORT] */
#include <errno.h>
#include <signal.h>
#include <skiff/skiff.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char medium[64 << 20];

/* On threads of the context. A medium that is slower than memory hands the
   request to a thread of its own, which completes it. */
static void submit(void* user, const skiff_request* request) {
  skiff_backend** backend = user;
  char* at = medium + request->offset;
  int result = 0;
  uint32_t i;
  for (i = 0; i < request->iov_count; ++i) {
    const struct iovec piece = request->iov[i];
    if (request->op == SKIFF_REQUEST_READ) {
      memcpy(piece.iov_base, at, piece.iov_len);
    } else if (request->op == SKIFF_REQUEST_WRITE) {
      memcpy(at, piece.iov_base, piece.iov_len);
    } else {
      result = -EOPNOTSUPP;
    }
    at += piece.iov_len;
  }
  if (request->op == SKIFF_REQUEST_WRITE_ZEROES) result = -EOPNOTSUPP;
  skiff_backend_complete(*backend, request->id, result);
}

static void check(int result) {
  if (result >= 0) return;
  fprintf(stderr, "%s\n", skiff_last_error());
  exit(1);
}

int main(int argc, char** argv) {
  const char* address = argc > 1 ? argv[1] : "tcp://127.0.0.1:3260";
  const char* name = "iqn.2026-11.org.example:c";
  skiff_context_options options;
  skiff_backend_options disk;
  skiff_backend_ops ops;
  skiff_context* context;
  skiff_backend* backend;
  skiff_target* target;
  skiff_server* server;
  char bound[256];
  sigset_t ends;
  int signal_number;

  sigemptyset(&ends); /* Before there are threads. */
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  sigprocmask(SIG_BLOCK, &ends, NULL);

  SKIFF_INIT(options);
  options.threads = 2;
  check(skiff_context_create(&options, &context));
  SKIFF_INIT(disk);
  disk.size_bytes = sizeof(medium);
  disk.user = &backend;
  SKIFF_INIT(ops);
  ops.submit = submit;
  check(skiff_backend_create(context, &ops, &disk, &backend));
  check(skiff_target_create(context, name, NULL, &target));
  check(skiff_target_add_lun(target, 0, backend, NULL));
  check(skiff_server_create(context, NULL, &server));
  check(skiff_server_add_target(server, target, NULL));
  check(skiff_server_listen(server, address, bound, sizeof(bound)));
  printf("serving %s at %s\n", name, bound);
  fflush(stdout);

  sigwait(&ends, &signal_number);
  check(skiff_server_close(server, 1000, NULL, NULL)); /* Waits. */
  check(skiff_target_remove_lun(target, 0, NULL, NULL));
  check(skiff_target_close(target));
  check(skiff_backend_close(backend));
  check(skiff_context_close(context));
  return 0;
}
