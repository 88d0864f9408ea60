#include "tools/management/rpc_server.h"

#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/server_posix.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "tools/management/rpc_bytes.h"
#include "tools/management/unix_listener.h"

namespace skiff::tools {
namespace {

using Clock = std::chrono::system_clock;

// A connection without calls is closed after it.
constexpr int kIdleMillis = 60000;
// What the other side may take to send its request, and to take the answer.
constexpr std::chrono::seconds kPatience(5);
constexpr std::chrono::milliseconds kTick(500);
constexpr int kMemory = 64 << 20;

// A call: waited for, read, with the handler, answered.
class Call {
 public:
  enum class State { kWaiting, kReading, kHandling, kFinishing };

  explicit Call(uint64_t number) : number(number), stream(&context) {}

  const uint64_t number;
  State state = State::kWaiting;
  Clock::time_point since;
  grpc::GenericServerContext context;
  grpc::GenericServerAsyncReaderWriter stream;
  grpc::ByteBuffer bytes;
};

// The calls of a server, and who may still answer one. Thread-safe.
class Calls {
 public:
  Calls(grpc::AsyncGenericService* service, grpc::ServerCompletionQueue* queue)
      : service_(service), queue_(queue) {}

  // Waits for one more.
  void Add() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (closed_) return;
    const uint64_t number = next_++;
    const auto call =
        calls_.emplace(number, std::make_unique<Call>(number)).first;
    Call* const one = call->second.get();
    service_->RequestCall(&one->context, &one->stream, queue_, queue_, one);
  }

  // What came of the last operation on it. Whether its request is there.
  bool Proceed(Call* call, bool ok) {
    std::unique_lock<std::mutex> lock(mutex_);
    call->since = Clock::now();
    switch (call->state) {
      case Call::State::kWaiting:
        if (!ok || closed_) return Forget(call);
        call->state = Call::State::kReading;
        call->stream.Read(&call->bytes, call);
        return false;
      case Call::State::kReading:
        if (closed_) return Forget(call);
        if (ok) {
          call->state = Call::State::kHandling;
          return true;
        }
        call->state = Call::State::kFinishing;
        call->stream.Finish(
            grpc::Status(grpc::StatusCode::INVALID_ARGUMENT,
                         "the request did not come, or is too large"),
            call);
        return false;
      default:
        Forget(call);
        lock.unlock();
        Add();
        return false;
    }
  }

  void Answer(uint64_t number, const RpcAnswer& answer) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = calls_.find(number);
    if (closed_ || found == calls_.end()) return;
    Call* const call = found->second.get();
    if (call->state != Call::State::kHandling) return;
    call->state = Call::State::kFinishing;
    call->since = Clock::now();
    if (answer.code != 0) {
      call->stream.Finish(
          grpc::Status(static_cast<grpc::StatusCode>(answer.code),
                       answer.message),
          call);
      return;
    }
    const grpc::Slice slice(answer.body);
    call->stream.WriteAndFinish(grpc::ByteBuffer(&slice, 1),
                                grpc::WriteOptions(), grpc::Status::OK, call);
  }

  // Gives up those that wait for the other side too long.
  void Tick() {
    const std::lock_guard<std::mutex> lock(mutex_);
    const Clock::time_point limit = Clock::now() - kPatience;
    for (const auto& [number, call] : calls_) {
      if ((call->state == Call::State::kReading ||
           call->state == Call::State::kFinishing) &&
          call->since < limit) {
        call->context.TryCancel();
      }
    }
  }

  // From now on nothing begins.
  void Close() {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
  }
  // Once the queue is empty: those that nobody has answered go.
  void Clear() {
    const std::lock_guard<std::mutex> lock(mutex_);
    calls_.clear();
  }

 private:
  bool Forget(Call* call) {
    calls_.erase(call->number);
    return false;
  }

  grpc::AsyncGenericService* const service_;
  grpc::ServerCompletionQueue* const queue_;
  std::mutex mutex_;
  bool closed_ = false;
  uint64_t next_ = 0;
  std::map<uint64_t, std::unique_ptr<Call>> calls_;
};

// gRPC has one log for all of a process. Never destroyed: its threads may
// outlive the server.
class GrpcLog {
 public:
  static void Set(RpcServer::Log log) {
    const std::lock_guard<std::mutex> lock(Get().mutex_);
    Get().log_ = std::move(log);
    gpr_set_log_function(&Write);
  }

 private:
  static GrpcLog& Get() {
    static auto* const kLog = new GrpcLog;
    return *kLog;
  }
  static void Write(gpr_log_func_args* line) {
    const std::lock_guard<std::mutex> lock(Get().mutex_);
    if (Get().log_ == nullptr) return;
    Get().log_(
        line->severity == GPR_LOG_SEVERITY_ERROR  ? RpcServer::Gravity::kWarning
        : line->severity == GPR_LOG_SEVERITY_INFO ? RpcServer::Gravity::kInfo
                                                  : RpcServer::Gravity::kDebug,
        line->message);
  }

  std::mutex mutex_;
  RpcServer::Log log_;  // Null: silent.
};

class RpcServerImpl final : public RpcServer {
 public:
  RpcServerImpl(const Options& options, Handler handler)
      : handler_(std::move(handler)) {
    grpc::ServerBuilder builder;
    builder.RegisterAsyncGenericService(&service_);
    queue_ = builder.AddCompletionQueue();
    builder.SetMaxReceiveMessageSize(options.max_request_bytes);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kIdleMillis);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                               options.max_calls);
    builder.SetResourceQuota(grpc::ResourceQuota("skiffd").Resize(kMemory));
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) return;
    calls_ = std::make_shared<Calls>(&service_, queue_.get());
    for (int i = 0; i < options.max_calls; ++i) calls_->Add();
    thread_ = std::thread([this] { Run(); });
  }

  ~RpcServerImpl() override {
    listener_.reset();
    // gRPC is never shut down: that would wait for the poller which it starts
    // for an answer that a socket's buffer does not hold, and which runs for
    // ten seconds.
    grpc_init();
    if (server_ == nullptr) {
      queue_->Shutdown();
      void* tag = nullptr;
      for (bool ok = false; queue_->Next(&tag, &ok);) continue;
      return;
    }
    calls_->Close();
    server_->Shutdown(Clock::now());
    queue_->Shutdown();
    thread_.join();
    calls_->Clear();
  }

  absl::Status Listen(const Options& options, const Warn& warn) {
    if (server_ == nullptr) {
      return absl::InternalError("gRPC cannot start a server");
    }
    UnixListener::Options socket;
    socket.path = options.socket;
    socket.mode = options.mode;
    socket.user = options.user;
    socket.group = options.group;
    socket.max_connections = options.max_connections;
    auto listener = UnixListener::Start(
        socket,
        [server = server_.get()](int fd) {
          grpc::AddInsecureChannelFromFd(server, fd);
        },
        warn);
    if (!listener.ok()) return listener.status();
    listener_ = *std::move(listener);
    return absl::OkStatus();
  }

 private:
  struct EndOfLog {
    ~EndOfLog() { GrpcLog::Set(nullptr); }
  };
  using Next = grpc::CompletionQueue::NextStatus;

  void Run() {
    void* tag = nullptr;
    bool ok = false;
    for (Next next; (next = queue_->AsyncNext(
                         &tag, &ok, Clock::now() + kTick)) != Next::SHUTDOWN;) {
      calls_->Tick();
      if (next == Next::TIMEOUT) continue;
      auto* const call = static_cast<Call*>(tag);
      if (!calls_->Proceed(call, ok)) continue;
      const std::string request = StringOf(call->bytes);
      call->bytes.Clear();
      handler_(call->context.method(), request, call->context.deadline(),
               [calls = std::weak_ptr<Calls>(calls_),
                number = call->number](const RpcAnswer& answer) {
                 const auto there = calls.lock();
                 if (there != nullptr) there->Answer(number, answer);
               });
    }
  }

  const Handler handler_;
  const EndOfLog end_of_log_;  // After all that is gRPC's.
  grpc::AsyncGenericService service_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<Calls> calls_;
  std::unique_ptr<UnixListener> listener_;
  std::thread thread_;
};

}  // namespace
}  // namespace skiff::tools

extern "C" __attribute__((visibility("default"))) skiff::tools::RpcServer*
skiff_start_rpc_server(const skiff::tools::RpcServer::Options& options,
                       skiff::tools::RpcServer::Handler handler,
                       const skiff::tools::RpcServer::Warn& warn,
                       skiff::tools::RpcServer::Log log, std::string* error) {
  // By itself, it would write to standard error, and wait for its reader.
  skiff::tools::GrpcLog::Set(std::move(log));
  auto server = std::make_unique<skiff::tools::RpcServerImpl>(
      options, std::move(handler));
  const absl::Status listens = server->Listen(options, warn);
  if (listens.ok()) return server.release();
  server.reset();
  *error = std::string(listens.message());
  return nullptr;
}
