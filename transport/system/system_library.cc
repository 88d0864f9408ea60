#include "transport/system/system_library.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace skiff::transport {
namespace {

bool Same(const struct sigaction& a, const struct sigaction& b) {
  // The handlers are a union.
  return a.sa_handler == b.sa_handler && a.sa_flags == b.sa_flags;
}

}  // namespace

KeptSignals::KeptSignals() {
  for (int number = 1; number < _NSIG; ++number) {
    Disposition& kept = dispositions_[static_cast<size_t>(number)];
    // Not of those that the C library keeps to itself.
    kept.known = sigaction(number, nullptr, &kept.action) == 0;
  }
}

KeptSignals::~KeptSignals() {
  for (int number = 1; number < _NSIG; ++number) {
    const Disposition& kept = dispositions_[static_cast<size_t>(number)];
    struct sigaction now = {};
    if (!kept.known || sigaction(number, nullptr, &now) != 0 ||
        Same(now, kept.action)) {
      continue;
    }
    sigaction(number, &kept.action, nullptr);
  }
}

absl::Status SystemLibrary::Bind() {
  const KeptSignals kept;
  void* const handle = dlopen(file_, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const std::string error = dlerror();
    if (absl::StrContains(error, absl::StrCat(file_, ": cannot open")) &&
        absl::StrContains(error, "No such file")) {
      return absl::UnimplementedError(
          absl::StrCat(file_, " is not installed: apt install ", package_));
    }
    return absl::UnimplementedError(
        absl::StrCat("cannot load ", file_, " (", error,
                     "): apt install --reinstall ", package_));
  }
  for (const Function& function : functions_) {
    *function.address = dlvsym(handle, function.name, function.version);
    if (*function.address != nullptr) continue;
    return absl::UnimplementedError(absl::StrCat(
        file_, " is another version than Skiff was built with: ", function.name,
        "@", function.version, " is missing; upgrade the package ", package_));
  }
  loaded_.store(true, std::memory_order_release);
  return absl::OkStatus();
}

absl::Status SystemLibrary::Load() {
  std::call_once(once_, [this] { status_ = new absl::Status(Bind()); });
  return *status_;
}

void SystemLibrary::LoadOrDie() {
  const absl::Status status = Load();
  if (status.ok()) return;
  std::fprintf(stderr, "skiff: %s\n", std::string(status.message()).c_str());
  std::abort();
}

}  // namespace skiff::transport
