#include "transport/net/resolver.h"

#include <atomic>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace skiff::transport {
namespace {

std::atomic<int> threads{0};

}  // namespace

struct NameLookup::State {
  // Null once cancelled: the reactor may be gone then. Guarded by `mutex`,
  // which the helper thread holds while it posts.
  std::mutex mutex;
  Reactor* reactor;
  // Touched on the reactor's thread only.
  Callback done;
};

absl::StatusOr<std::unique_ptr<NameLookup>> NameLookup::Start(
    Reactor* reactor, const std::string& host, uint16_t port, Callback done) {
  if (threads.fetch_add(1) >= kMaxThreads) {
    threads.fetch_sub(1);
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot resolve \"", host, "\": ", kMaxThreads,
                     " lookups are under way already; try again later or use "
                     "a numeric address"));
  }
  auto state = std::make_shared<State>();
  state->reactor = reactor;
  state->done = std::move(done);
  auto work = [state, host, port]() mutable {
    auto result = Resolve(host, port);
    threads.fetch_sub(1);
    std::lock_guard<std::mutex> lock(state->mutex);
    if (state->reactor == nullptr) return;
    state->reactor->Post([state, result = std::move(result)]() mutable {
      if (state->done) std::exchange(state->done, nullptr)(std::move(result));
    });
  };
  try {
    std::thread(std::move(work)).detach();
  } catch (const std::system_error& error) {
    threads.fetch_sub(1);
    return absl::ResourceExhaustedError(absl::StrCat(
        "cannot start a thread to resolve \"", host, "\": ", error.what()));
  }
  return std::unique_ptr<NameLookup>(new NameLookup(std::move(state)));
}

NameLookup::NameLookup(std::shared_ptr<State> state)
    : state_(std::move(state)) {}

NameLookup::~NameLookup() {
  state_->done = nullptr;
  std::lock_guard<std::mutex> lock(state_->mutex);
  state_->reactor = nullptr;
}

}  // namespace skiff::transport
