#include "transport/net/background_call.h"

#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/thread/background_threads.h"

namespace skiff::transport {

absl::Status BackgroundThreads::Start(absl::AnyInvocable<void()> body) {
  if (running_.fetch_add(1) >= limit_) {
    Release();
    return absl::ResourceExhaustedError(
        absl::StrCat(limit_, " ", noun_,
                     " are under way already; try again "
                     "later"));
  }
  try {
    // A std::function wants to be copied, and is not.
    auto shared = std::make_shared<absl::AnyInvocable<void()>>(std::move(body));
    StartBackgroundThread([shared = std::move(shared)] { (*shared)(); });
  } catch (const std::system_error& error) {
    Release();
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot start a thread: ", error.what(),
                     "; raise the limit on processes (ulimit -u) if it was "
                     "reached"));
  }
  return absl::OkStatus();
}

}  // namespace skiff::transport
