// A library whose constructor takes signals to itself, as libpsm2's does.

#include <signal.h>
#include <unistd.h>

#include <initializer_list>

extern "C" int SkiffTestAnswer() { return 42; }

namespace {

void EndWithoutCore(int) { _exit(1); }

__attribute__((constructor)) void TakeSignals() {
  for (const int number : {SIGSEGV, SIGABRT, SIGHUP, SIGTERM, SIGUSR1}) {
    signal(number, EndWithoutCore);
  }
}

}  // namespace
