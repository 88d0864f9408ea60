#ifndef SKIFF_TRANSPORT_THREAD_SIGNALS_BLOCKED_H_
#define SKIFF_TRANSPORT_THREAD_SIGNALS_BLOCKED_H_

#include <pthread.h>
#include <signal.h>

namespace skiff::transport {

// Blocks all signals for the calling thread, and for the threads it makes.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_THREAD_SIGNALS_BLOCKED_H_
