#ifndef SKIFF_TOOLS_SKIFFD_CHECKER_H_
#define SKIFF_TOOLS_SKIFFD_CHECKER_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tools/skiffd/parsed_config.h"
#include "tools/skiffd/settings.h"

namespace skiff::tools::skiffd {

// Reads the fields of a parsed configuration and collects what is wrong with
// them.
class Checker {
 public:
  using Message = google::protobuf::Message;

  Checker(const Locations* locations, std::vector<std::string>* problems)
      : locations_(locations), problems_(problems) {}

  void Problem(const Message& message, int field, absl::string_view problem,
               int index = -1);
  std::string Where(const Message& message) const {
    return locations_->Of(message);
  }

  // Reads those that are set. What is not valid leaves the default.
  void Read(const Message& message, const std::vector<Setting>& settings);

 private:
  const Locations* locations_;
  std::vector<std::string>* problems_;
};

}  // namespace skiff::tools::skiffd

#endif  // SKIFF_TOOLS_SKIFFD_CHECKER_H_
