/* A shared object that uses the library, for unload.c. */
#include <unistd.h>

#include "loopback.h"

int plugin_run(void);

int plugin_run(void) {
  static loopback self;
  skiff_context* context = loopback_context(2);
  loopback_begin(&self, context);
  while (!loopback_finished(&self)) usleep(1000);
  loopback_end(context);
  return 0;
}
