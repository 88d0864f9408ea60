#include "tools/skiffd/checker.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include "absl/strings/str_cat.h"

namespace skiff::tools::skiffd {
namespace {

using ::google::protobuf::FieldDescriptor;
using ::google::protobuf::Message;

const FieldDescriptor* Field(const Message& message, const char* name) {
  return message.GetDescriptor()->FindFieldByName(name);
}

bool IsSet(const Message& message, const FieldDescriptor* field) {
  return field->is_repeated()
             ? message.GetReflection()->FieldSize(message, field) > 0
             : message.GetReflection()->HasField(message, field);
}

}  // namespace

void Checker::Problem(const Message& message, int field,
                      absl::string_view problem, int index) {
  problems_->push_back(
      absl::StrCat(locations_->Of(message, field, index), ": ", problem));
}

void Checker::Read(const Message& message,
                   const std::vector<Setting>& settings) {
  for (const Setting& setting : settings) {
    const Message* in = &message;
    if (*setting.section != '\0') {
      in = &message.GetReflection()->GetMessage(
          message, Field(message, setting.section));
    }
    const FieldDescriptor* field = Field(*in, setting.name);
    if (!IsSet(*in, field)) continue;
    setting.Read(*in, [&](absl::string_view problem, int index) {
      Problem(*in, field->number(), problem, index);
    });
  }
}

}  // namespace skiff::tools::skiffd
