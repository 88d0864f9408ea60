#include "tools/skiffd/checker.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include "absl/strings/str_cat.h"
#include "transport/log/printable.h"

namespace skiff::tools::skiffd {
namespace {

using ::google::protobuf::FieldDescriptor;
using ::google::protobuf::Message;

// Of fields that are few, where a name is looked for often.
const FieldDescriptor* Named(const std::vector<const FieldDescriptor*>& fields,
                             absl::string_view name) {
  for (const FieldDescriptor* const field : fields) {
    if (field->name() == name) return field;
  }
  return nullptr;
}

}  // namespace

void Checker::Problem(const Message& message, int field,
                      absl::string_view problem, int index) {
  problems_->push_back(transport::Printable(
      absl::StrCat(locations_->Of(message, field, index), ": ", problem)));
}

// A configuration can have thousands of LUNs, of which each sets little of what
// it could.
void Checker::Read(const Message& message,
                   const std::vector<Setting>& settings) {
  std::vector<const FieldDescriptor*> around;  // What is set.
  std::vector<const FieldDescriptor*> inside;
  message.GetReflection()->ListFields(message, &around);
  absl::string_view section;
  const Message* in = &message;
  for (const Setting& setting : settings) {
    if (setting.section != section) {
      section = setting.section;
      in = &message;
      inside.clear();
      const FieldDescriptor* const field = Named(around, section);
      if (field != nullptr) {
        in = &message.GetReflection()->GetMessage(message, field);
        in->GetReflection()->ListFields(*in, &inside);
      }
    }
    const FieldDescriptor* const field =
        Named(section.empty() ? around : inside, setting.name);
    if (field == nullptr) continue;
    setting.Read(*in, field, [&](absl::string_view problem, int index) {
      Problem(*in, field->number(), problem, index);
    });
  }
}

}  // namespace skiff::tools::skiffd
