#ifndef SKIFF_TOOLS_CLIENTS_LIBISCSI_LOOP_H_
#define SKIFF_TOOLS_CLIENTS_LIBISCSI_LOOP_H_

#include <pthread.h>
#include <skiff/common.h>

#include <cstdint>
#include <memory>
#include <string>

namespace skiff::libiscsi {

// A context of Skiff without threads, and one descriptor that says all that
// there is to wait for: libiscsi's users know of no deadline.
class Loop {
 public:
  static constexpr int64_t kNever = INT64_MAX;

  // Null, with `*error` in words, where the system has nothing left.
  static std::unique_ptr<Loop> Create(skiff_log_fn log, void* log_user,
                                      std::string* error);
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;
  // Nothing of the context may be open.
  ~Loop();

  skiff_context* skiff() const { return skiff_; }
  int fd() const { return epoll_fd_; }
  // On CLOCK_MONOTONIC, in nanoseconds.
  static int64_t Now();

  // The calling thread drives it from now on. libiscsi's users see to it that
  // only one at a time is in a call.
  void Adopt();
  // In the child of a fork(): everything is the parent's, its descriptors too.
  bool forked() const;
  // Skiff is in a turn: it is its log function that calls.
  bool turning() const { return turning_; }
  // One turn without sleeping, and one that sleeps until something happens.
  // Negative: Skiff refuses, and nothing will happen.
  int Poll();
  int Wait(int timeout_ms);
  // Whether Skiff wants a turn at once, such as to send what was submitted.
  bool due() const;
  // Lets fd() be readable at once, or at `deadline` and when Skiff wants to.
  void Kick();
  void Arm(int64_t deadline);

 private:
  Loop() = default;
  void BeginTurn();
  template <typename Function>
  int Turn(const Function& function);

  skiff_context* skiff_ = nullptr;
  pthread_t owner_ = pthread_self();
  int epoll_fd_ = -1;
  int timer_fd_ = -1;
  int64_t armed_ = kNever;
  bool kicked_ = false;
  bool turning_ = false;
};

}  // namespace skiff::libiscsi

#endif  // SKIFF_TOOLS_CLIENTS_LIBISCSI_LOOP_H_
