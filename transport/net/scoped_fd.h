#ifndef SKIFF_TRANSPORT_NET_SCOPED_FD_H_
#define SKIFF_TRANSPORT_NET_SCOPED_FD_H_

#include <unistd.h>

#include <utility>

namespace skiff::transport {

// Owns a descriptor and closes it.
class ScopedFd {
 public:
  ScopedFd() = default;
  // Takes it over; a negative one is none.
  explicit ScopedFd(int fd) : fd_(fd) {}
  ScopedFd(ScopedFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ScopedFd& operator=(ScopedFd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~ScopedFd() { reset(); }

  // Stays this object's; -1 if there is none.
  int get() const { return fd_; }
  // Whether there is one.
  bool valid() const { return fd_ >= 0; }
  // It is the caller's from now on; -1 if there was none.
  int Release() { return std::exchange(fd_, -1); }
  // Closes it now.
  void reset() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }

 private:
  int fd_ = -1;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_NET_SCOPED_FD_H_
