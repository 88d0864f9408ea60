// A program that has Abseil for itself.

#include <skiff/skiff.h>

#include <cerrno>
#include <iostream>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

int main() {
  absl::flat_hash_map<std::string, absl::Status> results;
  skiff_context* context = nullptr;
  results["create"] =
      absl::ErrnoToStatus(-skiff_context_create(nullptr, &context), "create");
  // A URL that is none goes deep into the library, and comes back as words.
  skiff_disk* disk = nullptr;
  const int opened =
      skiff_disk_open(context, "iscsi://", nullptr, nullptr, nullptr, &disk);
  results["open"] = absl::ErrnoToStatus(-opened, skiff_last_error());
  results["close"] =
      absl::ErrnoToStatus(-skiff_context_close(context), "close");
  if (!results["create"].ok() || !results["close"].ok() ||
      results["open"].code() != absl::StatusCode::kInvalidArgument) {
    for (const auto& [name, status] : results) {
      std::cerr << absl::StrCat(name, ": ", status.ToString(), "\n");
    }
    return 1;
  }
  std::cout << absl::StrCat("host_abseil: ", "done\n");
  return 0;
}
