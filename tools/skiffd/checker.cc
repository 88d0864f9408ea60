#include "tools/skiffd/checker.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "tools/common/spin.h"
#include "tools/common/units.h"

namespace skiff::tools::skiffd {
namespace {

using ::google::protobuf::FieldDescriptor;
using ::google::protobuf::Message;

const FieldDescriptor* Field(const Message& message, int number) {
  return message.GetDescriptor()->FindFieldByNumber(number);
}

// The field, or null when it was not set.
const FieldDescriptor* SetField(const Message& message, int number) {
  const FieldDescriptor* field = Field(message, number);
  return message.GetReflection()->HasField(message, field) ? field : nullptr;
}

std::string GetText(const Message& message, const FieldDescriptor* field) {
  return message.GetReflection()->GetString(message, field);
}

}  // namespace

void Checker::Problem(const Message& message, int field,
                      absl::string_view problem, int index) {
  problems_->push_back(
      absl::StrCat(locations_->Of(message, field, index), ": ", problem));
}

void Checker::Number(const Message& message, int number, uint32_t min,
                     uint32_t max, uint32_t* out) {
  const FieldDescriptor* field = SetField(message, number);
  if (field == nullptr) return;
  const uint32_t value = message.GetReflection()->GetUInt32(message, field);
  if (value < min || value > max) {
    Problem(message, number,
            absl::StrCat(field->name(), " is ", value, "; it can be ", min,
                         " to ", max));
    return;
  }
  *out = value;
}

bool Checker::SizeValue(const Message& message, int number, uint64_t min,
                        uint64_t max, uint64_t* out) {
  const FieldDescriptor* field = SetField(message, number);
  if (field == nullptr) return false;
  const absl::StatusOr<uint64_t> value = ParseSize(GetText(message, field));
  if (!value.ok()) {
    Problem(message, number,
            absl::StrCat(field->name(), ": ", value.status().message()));
    return false;
  }
  if (*value < min || *value > max) {
    Problem(
        message, number,
        absl::StrCat(field->name(), " is ", FormatSize(*value), "; it can be ",
                     FormatSize(min), " to ", FormatSize(max)));
    return false;
  }
  *out = *value;
  return true;
}

void Checker::Duration(const Message& message, int number, absl::Duration* out,
                       absl::Duration max) {
  const FieldDescriptor* field = SetField(message, number);
  if (field == nullptr) return;
  const absl::StatusOr<absl::Duration> value =
      ParseDuration(GetText(message, field));
  if (!value.ok()) {
    Problem(message, number,
            absl::StrCat(field->name(), ": ", value.status().message()));
    return;
  }
  if (*value > max) {
    Problem(message, number,
            absl::StrCat(field->name(), " is ", absl::FormatDuration(*value),
                         "; at most ", absl::FormatDuration(max)));
    return;
  }
  *out = *value;
}

void Checker::PositiveDuration(const Message& message, int number,
                               absl::Duration* out) {
  Duration(message, number, out);
  if (*out > absl::ZeroDuration()) return;
  Problem(message, number,
          absl::StrCat(SetField(message, number)->name(), " must be positive"));
}

void Checker::Spin(const Message& message, int number,
                   transport::EpollReactorOptions* out) {
  const FieldDescriptor* field = SetField(message, number);
  if (field == nullptr) return;
  const absl::Status status = ParseSpin(GetText(message, field), out);
  if (!status.ok()) {
    Problem(message, number,
            absl::StrCat(field->name(), ": ", status.message()));
  }
}

void Checker::Text(const Message& message, int number, size_t max,
                   std::string* out) {
  const FieldDescriptor* field = SetField(message, number);
  if (field == nullptr) return;
  const std::string value = GetText(message, field);
  const bool printable = std::all_of(value.begin(), value.end(), [](char c) {
    return absl::ascii_isprint(static_cast<unsigned char>(c));
  });
  if (value.empty() || value.size() > max || !printable) {
    Problem(message, number,
            absl::StrCat(field->name(), " must be 1 to ", max,
                         " printable ASCII characters; leave it out for the "
                         "default"));
    return;
  }
  *out = value;
}

void Checker::Bool(const Message& message, int number, bool* out) {
  const FieldDescriptor* field = SetField(message, number);
  if (field == nullptr) return;
  *out = message.GetReflection()->GetBool(message, field);
}

}  // namespace skiff::tools::skiffd
