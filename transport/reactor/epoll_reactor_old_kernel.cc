// Linked into a test: it runs as on a kernel without epoll_pwait2 (Linux 5.10
// and older).

#include <sys/syscall.h>

#include <cerrno>

#include "gtest/gtest.h"
#include "transport/system/refuse_system_call.h"

namespace skiff::transport {
namespace {

class OldKernel : public ::testing::Environment {
 public:
  void SetUp() override { RefuseSystemCall(SYS_epoll_pwait2, ENOSYS); }
};

const ::testing::Environment* const kOldKernel =
    ::testing::AddGlobalTestEnvironment(new OldKernel);

}  // namespace
}  // namespace skiff::transport
