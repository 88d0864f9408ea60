#ifndef SKIFF_TOOLS_SKIFFD_MANAGEMENT_SERVICE_H_
#define SKIFF_TOOLS_SKIFFD_MANAGEMENT_SERVICE_H_

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "tools/management/rpc_server.h"
#include "tools/skiffd/config.h"
#include "tools/skiffd/controls.h"
#include "transport/log/log.h"

namespace skiff::tools::skiffd {

// Takes calls of tools/management/management.proto on a thread of its own, and
// answers them on the daemon's.
class ManagementService {
 public:
  // `wake` is told, on any thread, that there is something to answer. Errors
  // say what can't be loaded, or why nobody can connect. `log` also gets what
  // gRPC and protobuf say, until this is gone. At most one at a time.
  static absl::StatusOr<std::unique_ptr<ManagementService>> Start(
      const ManagementConfig& config, std::function<void()> wake,
      const transport::LogSink& log);
  ManagementService(const ManagementService&) = delete;
  ManagementService& operator=(const ManagementService&) = delete;
  ~ManagementService();

  // Answers what was asked first, and wakes again if there is more. A few
  // seconds at most, where a reactor is blocked. What nobody waits for any more
  // is not done.
  void Answer(Controls* controls);

 private:
  struct Call {
    std::string method;
    std::string request;
    std::chrono::system_clock::time_point deadline;
    RpcServer::Reply reply;
  };

  explicit ManagementService(std::function<void()> wake)
      : wake_(std::move(wake)) {}

  const std::function<void()> wake_;
  std::mutex mutex_;
  std::deque<Call> calls_;             // No more than the server lets through.
  std::unique_ptr<RpcServer> server_;  // The last: it adds calls.
};

}  // namespace skiff::tools::skiffd

#endif  // SKIFF_TOOLS_SKIFFD_MANAGEMENT_SERVICE_H_
