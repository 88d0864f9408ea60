#include "testing/transport_conformance/remote_host.h"

#include <functional>
#include <map>
#include <memory>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "testing/transport_conformance/host_messages.h"
#include "testing/transport_conformance/local_host.h"

namespace skiff::testing {

using nlohmann::json;

absl::StatusOr<std::unique_ptr<RemoteHost>> RemoteHost::Begin(
    ControlLink* link, const std::string& factory) {
  auto host = std::unique_ptr<RemoteHost>(new RemoteHost(link));
  auto answer = host->Ask("Begin", json::array({factory}));
  if (!answer.ok()) return answer.status();
  const absl::Status status = answer->get<absl::Status>();
  if (!status.ok()) return status;
  return host;
}

RemoteHost::~RemoteHost() {
  if (!abandoned_) Run("End");
}

absl::StatusOr<json> RemoteHost::Ask(const char* method, json arguments) {
  absl::Status status =
      link_->Send({{"method", method}, {"arguments", std::move(arguments)}});
  if (!status.ok()) return status;
  auto answer = link_->Receive();
  if (!answer.ok()) return answer.status();
  if (answer->contains("error")) {
    return absl::InternalError(answer->at("error").get<std::string>());
  }
  return answer->at("result");
}

template <typename Result, typename... Arguments>
Result RemoteHost::Call(const char* method, const Arguments&... arguments) {
  auto answer = Ask(method, json::array({json(arguments)...}));
  if (!answer.ok()) {
    ADD_FAILURE() << method << " on the other host: " << answer.status();
    return Result();
  }
  return answer->template get<Result>();
}

template <typename... Arguments>
void RemoteHost::Run(const char* method, const Arguments&... arguments) {
  Call<json>(method, arguments...);
}

absl::StatusOr<int> RemoteHost::Listen(const ListenPlan& plan) {
  return Call<absl::StatusOr<int>>("Listen", plan);
}
std::string RemoteHost::ListenAddress(int listener) {
  return Call<std::string>("ListenAddress", listener);
}
std::vector<std::string> RemoteHost::ListenAddresses(int listener) {
  return Call<std::vector<std::string>>("ListenAddresses", listener);
}
ListenerState RemoteHost::StateOfListener(int listener) {
  return Call<ListenerState>("StateOfListener", listener);
}
void RemoteHost::CloseListener(int listener) { Run("CloseListener", listener); }
int RemoteHost::Connect(const std::string& address, const EndPlan& plan) {
  return Call<int>("Connect", address, plan);
}
void RemoteHost::CancelConnect(int end) { Run("CancelConnect", end); }
EndState RemoteHost::State(int end) { return Call<EndState>("State", end); }
transport::Capabilities RemoteHost::DeviceCapabilities(int end) {
  return Call<transport::Capabilities>("DeviceCapabilities", end);
}
void RemoteHost::Disconnect(int end) { Run("Disconnect", end); }
void RemoteHost::Destroy(int end) { Run("Destroy", end); }
int RemoteHost::NewQueue(uint32_t entries, uint32_t receives) {
  return Call<int>("NewQueue", entries, receives);
}
absl::StatusOr<int> RemoteHost::NewBuffer(int end, const BufferSpec& spec) {
  return Call<absl::StatusOr<int>>("NewBuffer", end, spec);
}
transport::RemoteBuffer RemoteHost::Remote(int buffer) {
  return Call<transport::RemoteBuffer>("Remote", buffer);
}
void RemoteHost::Deregister(int buffer) { Run("Deregister", buffer); }
void RemoteHost::Fill(int buffer, size_t offset, size_t length, uint64_t seed) {
  Run("Fill", buffer, offset, length, seed);
}
int64_t RemoteHost::Mismatch(int buffer, size_t offset, size_t length,
                             uint64_t seed, size_t skip) {
  return Call<int64_t>("Mismatch", buffer, offset, length, seed, skip);
}
absl::StatusOr<int> RemoteHost::NewWindow(int end) {
  return Call<absl::StatusOr<int>>("NewWindow", end);
}
transport::RemoteKey RemoteHost::KeyOfWindow(int window) {
  return Call<transport::RemoteKey>("KeyOfWindow", window);
}
void RemoteHost::DestroyWindow(int window) { Run("DestroyWindow", window); }
Posted RemoteHost::Post(int end, const Operation& operation) {
  return Call<Posted>("Post", end, operation);
}
Posted RemoteHost::PostShared(int queue, const Operation& receive) {
  return Call<Posted>("PostShared", queue, receive);
}
void RemoteHost::Flush(int end) { Run("Flush", end); }
std::vector<Arrived> RemoteHost::Poll(int end) {
  return Call<std::vector<Arrived>>("Poll", end);
}
std::vector<Arrived> RemoteHost::PollShared(int queue) {
  return Call<std::vector<Arrived>>("PollShared", queue);
}
void RemoteHost::DropSharedReceives(int queue) {
  Run("DropSharedReceives", queue);
}
bool RemoteHost::Arm(int end) { return Call<bool>("Arm", end); }
bool RemoteHost::Woken(int end) { return Call<bool>("Woken", end); }
std::vector<std::string> RemoteHost::Violations() {
  return Call<std::vector<std::string>>("Violations");
}
void RemoteHost::Finish() { Run("Finish"); }

namespace {

using Method = std::function<json(ConformanceHost&, const json&)>;

template <typename Result, typename... Arguments, size_t... Index>
json Invoke(ConformanceHost& host,
            Result (ConformanceHost::*method)(Arguments...),
            const json& arguments, std::index_sequence<Index...> /*indexes*/) {
  if constexpr (std::is_void_v<Result>) {
    (host.*
     method)(arguments.at(Index).template get<std::decay_t<Arguments>>()...);
    return nullptr;
  } else {
    return (host.*method)(
        arguments.at(Index).template get<std::decay_t<Arguments>>()...);
  }
}

template <typename Result, typename... Arguments>
Method Wrap(Result (ConformanceHost::*method)(Arguments...)) {
  return [method](ConformanceHost& host, const json& arguments) {
    return Invoke(host, method, arguments,
                  std::index_sequence_for<Arguments...>());
  };
}

const std::map<std::string, Method>& Methods() {
  using Host = ConformanceHost;
  static const auto* const kMethods = new std::map<std::string, Method>{
      {"Listen", Wrap(&Host::Listen)},
      {"ListenAddress", Wrap(&Host::ListenAddress)},
      {"ListenAddresses", Wrap(&Host::ListenAddresses)},
      {"StateOfListener", Wrap(&Host::StateOfListener)},
      {"CloseListener", Wrap(&Host::CloseListener)},
      {"Connect", Wrap(&Host::Connect)},
      {"CancelConnect", Wrap(&Host::CancelConnect)},
      {"State", Wrap(&Host::State)},
      {"DeviceCapabilities", Wrap(&Host::DeviceCapabilities)},
      {"Disconnect", Wrap(&Host::Disconnect)},
      {"Destroy", Wrap(&Host::Destroy)},
      {"NewQueue", Wrap(&Host::NewQueue)},
      {"NewBuffer", Wrap(&Host::NewBuffer)},
      {"Remote", Wrap(&Host::Remote)},
      {"Deregister", Wrap(&Host::Deregister)},
      {"Fill", Wrap(&Host::Fill)},
      {"Mismatch", Wrap(&Host::Mismatch)},
      {"NewWindow", Wrap(&Host::NewWindow)},
      {"KeyOfWindow", Wrap(&Host::KeyOfWindow)},
      {"DestroyWindow", Wrap(&Host::DestroyWindow)},
      {"Post", Wrap(&Host::Post)},
      {"PostShared", Wrap(&Host::PostShared)},
      {"Flush", Wrap(&Host::Flush)},
      {"Poll", Wrap(&Host::Poll)},
      {"PollShared", Wrap(&Host::PollShared)},
      {"DropSharedReceives", Wrap(&Host::DropSharedReceives)},
      {"Arm", Wrap(&Host::Arm)},
      {"Woken", Wrap(&Host::Woken)},
      {"Violations", Wrap(&Host::Violations)},
      {"Finish", Wrap(&Host::Finish)},
  };
  return *kMethods;
}

// One test at a time.
class HostServer {
 public:
  HostServer(ControlLink* link, std::vector<TransportFactory*> factories)
      : link_(link), factories_(std::move(factories)) {}

  absl::Status Serve() {
    while (true) {
      // The world goes on while nobody asks.
      if (world_ != nullptr) {
        world_->RunUntil([this] { return link_->readable(); }, absl::Hours(24));
      }
      auto request = link_->Receive();
      if (absl::IsUnavailable(request.status())) return absl::OkStatus();
      if (!request.ok()) return request.status();
      absl::Status status = link_->Send(Answer(*request));
      if (!status.ok()) return status;
    }
  }

 private:
  json Answer(const json& request) {
    // The library reports what a request lacks by exceptions.
    try {
      const std::string method = request.at("method").get<std::string>();
      const json& arguments = request.at("arguments");
      if (method == "Begin") {
        return {{"result", Begin(arguments.at(0).get<std::string>())}};
      }
      if (method == "End") {
        End();
        return {{"result", nullptr}};
      }
      if (host_ == nullptr) return {{"error", "no test is under way"}};
      auto found = Methods().find(method);
      if (found == Methods().end()) {
        return {{"error", absl::StrCat("there is no method ", method)}};
      }
      return {{"result", found->second(*host_, arguments)}};
    } catch (const json::exception& error) {
      return {{"error", error.what()}};
    }
  }

  absl::Status Begin(const std::string& name) {
    End();
    for (TransportFactory* factory : factories_) {
      if (factory->name() != name) continue;
      auto world = factory->MakeWorld();
      if (!world.ok()) return world.status();
      world_ = *std::move(world);
      host_ = std::make_unique<LocalHost>(world_.get(), Side::kListening,
                                          EffectiveScale(*factory));
      return absl::OkStatus();
    }
    return absl::NotFoundError(
        absl::StrCat("the listening host does not test ", name));
  }
  void End() {
    host_.reset();
    world_.reset();
  }

  ControlLink* const link_;
  const std::vector<TransportFactory*> factories_;
  std::unique_ptr<TransportWorld> world_;
  std::unique_ptr<ConformanceHost> host_;
};

}  // namespace

absl::Status ServeHost(ControlLink* link,
                       const std::vector<TransportFactory*>& factories) {
  return HostServer(link, factories).Serve();
}

}  // namespace skiff::testing
