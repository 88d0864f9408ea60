#ifndef SKIFF_TESTING_TRANSPORT_CONFORMANCE_FORWARDING_TRANSPORT_H_
#define SKIFF_TESTING_TRANSPORT_CONFORMANCE_FORWARDING_TRANSPORT_H_

#include <cstdint>
#include <memory>

#include "transport/transport.h"

namespace skiff::testing {

// What a transport of byte streams can do wrong, one rule of
// transport/transport.h and byte_stream.h each.
enum class ForwardingFault : uint8_t {
  kNone,
  // Transport.
  kWrongScheme,        // Of its streams.
  kNoDevices,          // Devices() has none.
  kNamelessDevice,     // They have no names.
  kUnexplainedDevice,  // None is usable, and nobody says why.
  kUncheckedAddress,   // CheckAddress() takes everything.
  kStrictAddress,      // CheckAddress() refuses what Listen() takes.
  kUncheckedListen,    // Listen() ignores options that it does not know.
  kUncheckedConnect,   // Connect() does.
  kPortZero,           // Connect() takes a port that there cannot be.
  kTimeoutZero,        // Connect() takes a timeout that leaves no time.
  kBacklogZero,        // Listen() takes a backlog without room.
  kTerseListenError,   // Listen() does not say which address it cannot have.
  kTerseConnectError,  // The same of Connect().
  kTakenPort,          // Listen() seems to work where another listens.
  // Connect attempts.
  kIgnoredTimeout,   // Connecting takes as long as it takes.
  kUnnamedTimeout,   // The timeout's error has another code.
  kNestedDone,       // `done` runs from inside Connect().
  kSecondDone,       // `done` runs twice.
  kLostDone,         // `done` never runs.
  kDoneAfterCancel,  // `done` runs though the attempt was destroyed.
  // Listeners and requests.
  kWrongListenScheme,   // Of address().
  kWrongListenSchemes,  // Of addresses().
  kUnboundPort,         // address() has port 0.
  kStillListening,      // A listener that was destroyed goes on.
  kFalseAlarm,          // on_failure runs though listening goes on.
  kNamelessPeer,        // Requests do not say who asks,
  kNamelessHost,        // nor where.
  kChattyRequest,       // Private data of a byte stream.
  kRejectedStaysOpen,   // Reject() leaves the peer connected.
  kDroppedStaysOpen,    // So does a request that was destroyed.
  kLostAccept,          // Accept() never calls `done`.
  // Byte streams.
  kUntoldObserver,     // A new observer is not told.
  kNestedObserver,     // It is told from inside SetObserver().
  kToldTwice,          // Two calls after one kWouldBlock.
  kOldObserver,        // One that was replaced is told.
  kOneNotice,          // Nobody is told of bytes that come later.
  kNestedNotice,       // OnReadable from inside Readv().
  kEmptyRead,          // Readv() moved nothing and says kOk.
  kOverlongRead,       // It reports more bytes than came.
  kScribblingRead,     // It writes behind the bytes that it reports.
  kBorrowedWrite,      // Writev() uses the memory after its return.
  kRefusedLongList,    // A list of more than kMaxIov entries is an error.
  kWriteAfterEnd,      // Writev() takes bytes after ShutdownWrite().
  kIgnoredShutdown,    // The peer never sees an end.
  kShutdownEndsBoth,   // Reading ends with writing.
  kCleanAbort,         // An abort looks like an orderly end.
  kDeafAbort,          // Abort() does nothing.
  kErrorWhileAlive,    // error() of a stream that is well.
  kNoError,            // error() is OK of one that is dead.
  kLingering,          // Destroying it does not close it.
  kStuckThreshold,     // Lowering SetReadThreshold() tells of nothing.
  kThresholdHidesEnd,  // The end waits for bytes that never come.
  kAllUnacknowledged,  // unacknowledged() only grows.
  kNoAddress,          // local_address() is empty.
  kNoPort,             // peer_address() has none.
  kSwappedAddresses,   // Each is the other one's.
  // Streams that go on in another process.
  kUnreadReplaced,     // ReleaseDescriptor() drops what the caller has.
  kReleaseEnds,        // The peer sees an end.
  kWriteAfterRelease,  // Writev() takes bytes that nobody sends.
  kUnreadDropped,      // Adopt() loses what had been received.
  kUninherited,        // Listen() asks for no socket that there is.
};

// A transport of the scheme "fwd" that lets another one of byte streams do the
// work, with at most one fault. `inner` is what MakeTcpTransport() makes, or
// any other of its kind.
std::unique_ptr<transport::Transport> MakeForwardingTransport(
    std::unique_ptr<transport::Transport> inner, ForwardingFault fault);

}  // namespace skiff::testing

#endif  // SKIFF_TESTING_TRANSPORT_CONFORMANCE_FORWARDING_TRANSPORT_H_
