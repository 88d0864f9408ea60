#ifndef SKIFF_TOOLS_MANAGEMENT_RPC_SERVER_H_
#define SKIFF_TOOLS_MANAGEMENT_RPC_SERVER_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace skiff::tools {

// What became of a call. `code`: 0 with the answer's bytes in `body`, otherwise
// a status of gRPC (they are Abseil's) and what is wrong in `message`.
struct RpcAnswer {
  int code = 0;
  std::string message;
  std::string body;
};

// Serves calls of gRPC that have one request and one answer, on threads of its
// own, until it is destroyed. It knows nothing of what they mean: they come and
// go as bytes. It is a module (libskiff_management.so), since gRPC is not to be
// loaded into a process that is not managed.
class RpcServer {
 public:
  struct Options {
    std::string socket;  // The path of the Unix socket.
    uint32_t mode = 0600;
    // Who owns the socket; -1: as it comes.
    int64_t user = -1;
    int64_t group = -1;
    // Above it, the next one has to wait for one that ends.
    int max_calls = 16;
    // Above it, connections are closed at once.
    int max_connections = 64;
    // A larger one gets ResourceExhausted.
    int max_request_bytes = 0;
  };
  // May be called on any thread, once, also before the call of the Handler has
  // returned. When the server has gone, it does nothing.
  using Reply = std::function<void(RpcAnswer)>;
  // `method`: "/package.Service/Method". `deadline`: when the client waits no
  // more. Must not block; called on one thread.
  using Handler = std::function<void(
      std::string method, std::string request,
      std::chrono::system_clock::time_point deadline, Reply reply)>;
  // Of what a person should know, on the server's threads.
  using Warn = std::function<void(const std::string& message)>;
  // What gRPC itself says, on any thread, while there is a server. What a
  // client does wrong is an error to gRPC, and none of this process: at most
  // warnings come. Must not block, nor call gRPC.
  enum class Gravity : uint8_t { kWarning, kInfo, kDebug };
  using Log = std::function<void(Gravity gravity, const std::string& message)>;

  // Removes the socket. Calls that are under way are given up.
  virtual ~RpcServer() = default;
};

// Null: `error` says why. The module has this function, by the name
// kStartRpcServer.
using StartRpcServer = RpcServer* (*)(const RpcServer::Options& options,
                                      RpcServer::Handler handler,
                                      const RpcServer::Warn& warn,
                                      RpcServer::Log log, std::string* error);
inline constexpr char kStartRpcServer[] = "skiff_start_rpc_server";
inline constexpr char kRpcModule[] = "libskiff_management.so";

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_MANAGEMENT_RPC_SERVER_H_
