#ifndef SKIFF_BENCH_COMPARE_UTIL_H_
#define SKIFF_BENCH_COMPARE_UTIL_H_

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// What the yardstick programs share. They link none of Skiff's layers, so that
// what they measure does not move when Skiff does.
namespace skiff::bench {

// Prints the message, with errno's text when `with_errno`, and exits with 1.
[[noreturn]] void Die(const std::string& message, bool with_errno = false);

// Seconds of the monotonic clock.
double Now();
// A clock for short times that costs little to read, also where Now() is a
// system call: the processor's counter, where it has one.
uint64_t Ticks();
// Seconds of processor time, user and system, that this process has used.
double CpuSeconds();
// What counts instructions sleeps for so long after a poll that found nothing:
// such polls are as many as the peer gives time for, and are to be few.
inline constexpr unsigned kCountedNapMicroseconds = 1000;
// Ties the calling process to one core; a negative one leaves it free.
void PinToCore(int core);

// "4k", "128K", "1m" or plain bytes; exits when it is none of them.
size_t ParseSize(const std::string& text);

// A connected TCP socket without Nagle's delay; exits on failure.
int ConnectTo(const std::string& host, const std::string& port);
void SetNoDelay(int fd);

// Sends everything and empties the list; false when the peer has gone. With
// `spin` it never sleeps in the kernel.
bool SendAll(int fd, std::vector<iovec>* pieces, bool spin);
// Receives at least one byte; false at the end of the stream.
bool ReceiveSome(int fd, void* to, size_t capacity, bool spin,
                 size_t* received);

}  // namespace skiff::bench

#endif  // SKIFF_BENCH_COMPARE_UTIL_H_
