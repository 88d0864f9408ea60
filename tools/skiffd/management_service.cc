#include "tools/skiffd/management_service.h"

#include <google/protobuf/stubs/logging.h>

#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "tools/common/module.h"
#include "tools/skiffd/management_calls.h"

namespace skiff::tools::skiffd {

absl::StatusOr<std::unique_ptr<ManagementService>> ManagementService::Start(
    const ManagementConfig& config, std::function<void()> wake,
    const transport::LogSink& log) {
  const absl::StatusOr<void*> start =
      LoadModule(kRpcModule, kStartRpcServer, "skiff-management");
  if (!start.ok()) return start.status();
  // It would write what clients send wrong to standard error, and wait for it.
  google::protobuf::SetLogHandler(nullptr);
  auto self = absl::WrapUnique(new ManagementService(std::move(wake)));
  RpcServer::Options options;
  options.socket = config.socket;
  options.mode = config.mode;
  options.user = config.uid;
  options.group = config.gid;
  std::string error;
  self->server_.reset(reinterpret_cast<StartRpcServer>(*start)(
      options,
      [raw = self.get()](std::string method, std::string request,
                         std::chrono::system_clock::time_point deadline,
                         RpcServer::Reply reply) {
        {
          const std::lock_guard<std::mutex> lock(raw->mutex_);
          raw->calls_.push_back({std::move(method), std::move(request),
                                 deadline, std::move(reply)});
        }
        raw->wake_();
      },
      [log](const std::string& message) {
        if (log != nullptr) log(transport::LogLevel::kWarning, message);
      },
      &error));
  if (self->server_ == nullptr) return absl::UnavailableError(error);
  return self;
}

void ManagementService::Answer(Controls* controls) {
  Call call;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (calls_.empty()) return;
    call = std::move(calls_.front());
    calls_.pop_front();
    if (!calls_.empty()) wake_();
  }
  if (std::chrono::system_clock::now() >= call.deadline) {
    call.reply({static_cast<int>(absl::StatusCode::kDeadlineExceeded),
                "nobody waits for it any more", ""});
    return;
  }
  call.reply(AnswerCall(call.method, call.request, controls));
}

}  // namespace skiff::tools::skiffd
