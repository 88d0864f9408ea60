/* A program in C. */
#include "loopback.h"

int main(void) {
  loopback_run();
  puts("plain: done");
  return 0;
}
