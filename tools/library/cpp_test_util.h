#ifndef SKIFF_TOOLS_LIBRARY_CPP_TEST_UTIL_H_
#define SKIFF_TOOLS_LIBRARY_CPP_TEST_UTIL_H_

#include <cstdint>
#include <future>
#include <memory>
#include <skiff/skiff.hpp>
#include <string>
#include <utility>
#include <vector>

namespace skiff::library {

// A context with two threads, for both sides of a test.
inline Context TwoThreads() {
  ContextOptions options;
  options.threads = 2;
  return Context::Create(options).value();
}

// Serves a medium as LUN 0 over TCP; what goes first was declared last.
struct CppServer {
  static constexpr char kName[] = "iqn.2026-11.org.example:cpp";
  static constexpr uint64_t kSize = 1 << 20;

  CppServer(Context& context, Medium served)
      : medium(std::move(served)),
        target(Target::Create(context, kName).value()),
        server(Server::Create(context).value()) {
    Check(target.AddLun(0, medium));
    Check(server.AddTarget(target, "of a test"));
    portal = server.Listen("tcp://127.0.0.1:0").value();
  }

  static void Check(const Status& status) {
    if (!status.ok()) internal::NoValue(status);
  }
  // The URL of a LUN.
  std::string Url(uint32_t lun = 0) const {
    return "iscsi://" + portal.substr(portal.find("//") + 2) + "/" + kName +
           "/" + std::to_string(lun);
  }

  Medium medium;
  Target target;
  Server server;
  std::string portal;
};

// Waits for one end.
class Ended {
 public:
  // What to give to a call. It cannot be copied.
  auto Callable() {
    return [promise = std::move(promise_)](Status status) mutable {
      promise.set_value(std::move(status));
    };
  }
  Status Wait() { return future_.get(); }

 private:
  std::promise<Status> promise_;
  std::future<Status> future_ = promise_.get_future();
};

}  // namespace skiff::library

#endif  // SKIFF_TOOLS_LIBRARY_CPP_TEST_UTIL_H_
