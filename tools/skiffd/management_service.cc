#include "tools/skiffd/management_service.h"

#include <google/protobuf/stubs/logging.h>

#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tools/common/module.h"
#include "tools/common/read_file.h"
#include "tools/skiffd/management_calls.h"
#include "transport/log/log_event.h"

namespace skiff::tools::skiffd {
namespace {

using transport::LogLevel;

// As large as a configuration can be, and its name.
constexpr int kMaxRequestBytes = int{kMaxFileBytes} + (64 << 10);

void LogOf(const transport::LogSink& log, const std::string& library,
           LogLevel level, const std::string& message) {
  if (log == nullptr) return;
  const transport::LogField field = {transport::kLogLibrary, library};
  transport::LogTo(log,
                   {level, absl::StrCat(library, ": ", message), {&field, 1}});
}

LogLevel LevelOf(RpcServer::Gravity gravity) {
  switch (gravity) {
    case RpcServer::Gravity::kWarning:
      return LogLevel::kWarning;
    case RpcServer::Gravity::kInfo:
      return LogLevel::kInfo;
    case RpcServer::Gravity::kDebug:
      return LogLevel::kDebug;
  }
  return LogLevel::kDebug;
}

// protobuf takes a function that knows nothing else. Only the thread that
// answers calls parses, and thus logs.
transport::LogSink& ProtobufSink() {
  static auto* const kSink = new transport::LogSink;
  return *kSink;
}

// What a client sends wrong is no error of this process; what ends it is.
void OnProtobufLog(google::protobuf::LogLevel level, const char* /*file*/,
                   int /*line*/, const std::string& message) {
  LogOf(ProtobufSink(), "protobuf",
        level == google::protobuf::LOGLEVEL_FATAL  ? LogLevel::kError
        : level == google::protobuf::LOGLEVEL_INFO ? LogLevel::kInfo
                                                   : LogLevel::kWarning,
        message);
}

}  // namespace

ManagementService::~ManagementService() {
  google::protobuf::SetLogHandler(nullptr);
  ProtobufSink() = nullptr;
}

absl::StatusOr<std::unique_ptr<ManagementService>> ManagementService::Start(
    const ManagementConfig& config, std::function<void()> wake,
    const transport::LogSink& log) {
  const absl::StatusOr<void*> start =
      LoadModule(kRpcModule, kStartRpcServer, "skiff-management");
  if (!start.ok()) return start.status();
  // By itself, it would write to standard error, and wait for its reader.
  ProtobufSink() = log;
  google::protobuf::SetLogHandler(&OnProtobufLog);
  auto self = absl::WrapUnique(new ManagementService(std::move(wake)));
  RpcServer::Options options;
  options.socket = config.socket;
  options.mode = config.mode;
  options.user = config.uid;
  options.group = config.gid;
  options.max_request_bytes = kMaxRequestBytes;
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
        if (log != nullptr) log(LogLevel::kWarning, message);
      },
      [log](RpcServer::Gravity gravity, const std::string& message) {
        LogOf(log, "gRPC", LevelOf(gravity), message);
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
