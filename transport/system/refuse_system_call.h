#ifndef SKIFF_TRANSPORT_SYSTEM_REFUSE_SYSTEM_CALL_H_
#define SKIFF_TRANSPORT_SYSTEM_REFUSE_SYSTEM_CALL_H_

namespace skiff::transport {

// For tests of what older kernels lack: from now on, in this process and on
// every thread that it starts, the system call `number` (SYS_*) fails with
// `error_number`, by a seccomp filter. Call it before other threads exist. It
// cannot be undone. Ends the process with a message if the kernel has no
// filters.
void RefuseSystemCall(int number, int error_number);

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_SYSTEM_REFUSE_SYSTEM_CALL_H_
