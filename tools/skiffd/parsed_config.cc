#include "tools/skiffd/parsed_config.h"

#include <google/protobuf/message.h>

#include <utility>

namespace skiff::tools::skiffd {

void Locations::Set(const google::protobuf::Message& message, int field,
                    int index, std::string where) {
  where_[Key(&message, field, index)] = std::move(where);
}

std::string Locations::Of(const google::protobuf::Message& message, int field,
                          int index) const {
  for (const Key& key : {Key(&message, field, index), Key(&message, field, -1),
                         Key(&message, 0, -1)}) {
    if (const auto it = where_.find(key); it != where_.end()) return it->second;
  }
  return default_;
}

}  // namespace skiff::tools::skiffd
