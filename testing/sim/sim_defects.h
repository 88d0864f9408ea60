#ifndef SKIFF_TESTING_SIM_SIM_DEFECTS_H_
#define SKIFF_TESTING_SIM_SIM_DEFECTS_H_

#include <cstdint>

namespace skiff::testing {

// Ways in which a simulated transport can break its contract on purpose, so
// that a test suite can show that it would notice.
enum class SimDefect : uint8_t {
  kNone,
  // Byte streams.
  kLostReadable,     // Data arrives and nobody is told.
  kLostWritable,     // Room comes back and nobody is told.
  kCorruptByte,      // One byte of every segment is changed.
  kSwappedSegments,  // Neighbouring segments change places.
  kResetLooksClean,  // A reset looks like an orderly end.
  kNestedCallback,   // OnReadable from inside Readv.
  // RDMA endpoints.
  kDoubleCompletion,       // Every 8th SEND completes twice.
  kLostCompletion,         // Every 8th SEND never completes.
  kReorderedCompletions,   // Neighbouring completions change places.
  kEarlySendCompletion,    // A SEND completes before its buffer is read.
  kEarlyWriteCompletion,   // The same of a WRITE.
  kEarlyReadCompletion,    // A READ completes before its data is there.
  kWrongByteCount,         // A RECEIVE reports one byte too many.
  kUncheckedRemoteAccess,  // Keys, bounds and permissions are not checked.
  kIgnoredInvalidate,      // The key stays valid and is not reported.
  kLastingWindow,          // A window that is destroyed stays open.
  kLateWrite,              // Half of a long WRITE is placed after all checks.
  kNoFlush,                // A disconnect completes nothing.
  kDanglingEndpoint,       // Completions name an endpoint that is gone.
  kUnboundedReadDepth,     // More READs than were agreed on.
  kMissedArm,              // Arm() never makes the descriptor readable.
  kUncheckedBounds,        // Keys and permissions are checked, bounds are not.
  kStaleBuffer,            // Every 8th SEND arrives without its data.
  kCreditLeak,             // Every 16th request never gives its slot back.
  kOverflowingQueue,       // A shared queue takes any number of endpoints.
  kNestedDisconnect,       // on_disconnect from inside Disconnect().
  // Transports.
  kWrongScheme,        // Endpoints name another one.
  kWrongListenScheme,  // Addresses of listeners do.
  kIgnoredTimeout,     // Of a connect.
  kUncheckedAddress,   // CheckAddress() takes everything.
  kNoDevices,          // Devices() has none.
};

}  // namespace skiff::testing

#endif  // SKIFF_TESTING_SIM_SIM_DEFECTS_H_
