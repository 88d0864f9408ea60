/* A program that leaves the work to threads of the library's. */
#include <unistd.h>

#include "loopback.h"

int main(void) {
  static loopback self;
  skiff_context* context = loopback_context(2);
  loopback_begin(&self, context);
  while (!loopback_finished(&self)) usleep(1000);
  loopback_end(context);
  puts("threads: done");
  return 0;
}
