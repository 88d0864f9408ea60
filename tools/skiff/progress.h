#ifndef SKIFF_TOOLS_SKIFF_PROGRESS_H_
#define SKIFF_TOOLS_SKIFF_PROGRESS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"

namespace skiff::tools {

// A line such as "copying   42 %  4.2 GiB of 10 GiB  512 MB/s  12 s left".
std::string ProgressLine(const std::string& verb, uint64_t done,
                         std::optional<uint64_t> total, absl::Duration elapsed);

// Shows progress on standard error, if that is a terminal and nobody asked for
// quiet.
class Progress {
 public:
  explicit Progress(bool quiet);
  void Show(const std::string& line);
  void Clear();

 private:
  const bool enabled_;
};

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_SKIFF_PROGRESS_H_
