#include "tools/skiffd/parsed_config.h"

#include <google/protobuf/message.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace skiff::tools::skiffd {

void Locations::Set(const google::protobuf::Message& message, int field,
                    int index, std::string where) {
  where_[Key(&message, field, index)] = std::move(where);
}

void Locations::SetLine(const google::protobuf::Message& message, int field,
                        int index, int line) {
  lines_[Key(&message, field, index)] = line;
}

std::string Locations::Of(const google::protobuf::Message& message, int field,
                          int index) const {
  for (const Key& key : {Key(&message, field, index), Key(&message, field, -1),
                         Key(&message, 0, -1)}) {
    if (const auto it = where_.find(key); it != where_.end()) return it->second;
    if (const auto it = lines_.find(key); it != lines_.end()) {
      return absl::StrCat(default_, ":", it->second);
    }
  }
  return default_;
}

}  // namespace skiff::tools::skiffd
