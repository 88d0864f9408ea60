#ifndef SKIFF_TESTING_ROOMY_LOOPBACK_H_
#define SKIFF_TESTING_ROOMY_LOOPBACK_H_

namespace skiff::testing {

// Moves the calling thread, and those that it starts later, to a network of
// their own: a loopback interface where TCP's receive buffers start with 4 MiB.
// With less, connections of libfabric's sockets provider may stop for good
// (docs/transport-libfabric-notes.md, "what providers get wrong"). Where they
// are as large already, nothing happens; without the permission for that
// (CAP_SYS_ADMIN), everything stays as it was, standard error says so, and the
// result is false.
bool EnterRoomyLoopback();

}  // namespace skiff::testing

#endif  // SKIFF_TESTING_ROOMY_LOOPBACK_H_
