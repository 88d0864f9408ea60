#include "transport/libfabric/fabric_lookup.h"

#include <atomic>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/libfabric/fabric_info.h"

namespace skiff::transport {
namespace {

std::atomic<int> threads{0};

}  // namespace

struct FabricLookup::State {
  // Null once cancelled: the reactor may be gone then. Guarded by `mutex`,
  // which the helper thread holds while it posts.
  std::mutex mutex;
  Reactor* reactor;
  Callback done;  // Touched on the reactor's thread only.
};

absl::StatusOr<std::unique_ptr<FabricLookup>> FabricLookup::Start(
    Reactor* reactor, const Address& address, Callback done) {
  auto options = ParseFabricOptions(address);
  if (!options.ok()) return options.status();
  const std::string what = absl::StrCat("connect ", address.ToString(), ": ");
  if (threads.fetch_add(1) >= kMaxThreads) {
    threads.fetch_sub(1);
    return absl::ResourceExhaustedError(absl::StrCat(
        what, kMaxThreads, " lookups are under way already; try again later"));
  }
  auto state = std::make_shared<State>();
  state->reactor = reactor;
  state->done = std::move(done);
  auto work = [state, address, options = *std::move(options)] {
    auto result = FabricQuery(address, options, /*listen=*/false);
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
    return absl::ResourceExhaustedError(
        absl::StrCat(what, "cannot start a thread: ", error.what()));
  }
  return std::unique_ptr<FabricLookup>(new FabricLookup(std::move(state)));
}

FabricLookup::FabricLookup(std::shared_ptr<State> state)
    : state_(std::move(state)) {}

FabricLookup::~FabricLookup() {
  state_->done = nullptr;
  std::lock_guard<std::mutex> lock(state_->mutex);
  state_->reactor = nullptr;
}

}  // namespace skiff::transport
