#ifndef SKIFF_TOOLS_SKIFFD_CHECKER_H_
#define SKIFF_TOOLS_SKIFFD_CHECKER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tools/skiffd/parsed_config.h"
#include "transport/reactor/epoll_reactor.h"

namespace skiff::tools::skiffd {

// Reads the fields of a parsed configuration and collects what is wrong with
// them. The readers leave `*out`, a default, alone when the field is not set or
// not valid.
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

  void Number(const Message& message, int number, uint32_t min, uint32_t max,
              uint32_t* out);
  template <typename T>
  void Size(const Message& message, int number, uint64_t min, uint64_t max,
            T* out) {
    uint64_t value = 0;
    if (SizeValue(message, number, min, max, &value)) {
      *out = static_cast<T>(value);
    }
  }
  void Duration(const Message& message, int number, absl::Duration* out,
                absl::Duration max = absl::InfiniteDuration());
  // Where no time at all would mean that nothing is served.
  void PositiveDuration(const Message& message, int number,
                        absl::Duration* out);
  void Spin(const Message& message, int number,
            transport::EpollReactorOptions* out);
  // Printable ASCII, as SCSI's identification fields want it.
  void Text(const Message& message, int number, size_t max, std::string* out);
  void Bool(const Message& message, int number, bool* out);

 private:
  bool SizeValue(const Message& message, int number, uint64_t min, uint64_t max,
                 uint64_t* out);

  const Locations* locations_;
  std::vector<std::string>* problems_;
};

}  // namespace skiff::tools::skiffd

#endif  // SKIFF_TOOLS_SKIFFD_CHECKER_H_
