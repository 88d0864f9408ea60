#ifndef SKIFF_TRANSPORT_THREAD_BACKGROUND_THREADS_H_
#define SKIFF_TRANSPORT_THREAD_BACKGROUND_THREADS_H_

#include <chrono>
#include <functional>

namespace skiff::transport {

// Threads that may outlive whoever started them: what they do cannot be
// interrupted. All such threads of Skiff are started here, so that they can be
// waited for. Thread-safe, but not for a child of fork(), which has none of
// them.

// Runs `body` on a new thread, with all signals blocked. Throws what
// std::thread does: std::system_error where the system has no thread, and
// std::bad_alloc.
//
// `stop`, if any, asks the thread to end once it has nothing to do;
// JoinBackgroundThreads() calls it, perhaps when the thread has ended. It does
// not block.
void StartBackgroundThread(std::function<void()> body,
                           std::function<void()> stop = nullptr);

// For who wants to unload the library (dlclose): waits until every such thread
// has ended, and its code is not used any more, but no longer than `timeout`.
// False: some are still at work, as on a name lookup that is not answered; call
// again, or do not unload.
//
// Call it when nothing of Skiff is left, and not on one of those threads. Skiff
// can be used again after that. Threads that have an owner (ReactorThreads)
// are his to end, and those of libraries below, such as libfabric, theirs.
bool JoinBackgroundThreads(std::chrono::nanoseconds timeout);

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_THREAD_BACKGROUND_THREADS_H_
