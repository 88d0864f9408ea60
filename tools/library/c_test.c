/* The headers are C11: everything of them that a compiler can look at. */
#include <errno.h>
#include <skiff/skiff.h>
#include <stdio.h>
#include <string.h>

static int failures = 0;

static void check(int ok, const char *what) {
  if (ok) return;
  failures++;
  printf("failed: %s (%s)\n", what, skiff_last_error());
}

int main(void) {
  skiff_context_options options;
  skiff_context *context = NULL;
  int timeout = 0;

  SKIFF_INIT(options);
  check(options.struct_size == sizeof(options), "SKIFF_INIT");
  check(strcmp(skiff_version(), SKIFF_VERSION) == 0, "skiff_version");
  check(skiff_context_create(&options, &context) == 0, "skiff_context_create");
  check(skiff_context_wait(context, 0) >= 0, "skiff_context_wait");
  check(skiff_context_timeout(context, &timeout) == 0, "skiff_context_timeout");
  check(skiff_disk_flush(NULL, NULL, NULL) == -EINVAL, "skiff_disk_flush");
  check(skiff_context_close(context) == 0, "skiff_context_close");
  return failures == 0 ? 0 : 1;
}
