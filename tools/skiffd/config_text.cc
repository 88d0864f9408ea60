#include <google/protobuf/arena.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "tools/common/read_file.h"
#include "tools/skiffd/config.pb.h"
#include "tools/skiffd/parsed_config.h"
#include "transport/log/printable.h"

namespace skiff::tools::skiffd {
namespace {

using ::google::protobuf::Arena;
using ::google::protobuf::Descriptor;
using ::google::protobuf::FieldDescriptor;
using ::google::protobuf::Message;
using ::google::protobuf::Reflection;
using ::google::protobuf::TextFormat;

// The first text between double quotes in `message`, after `marker`.
std::string QuotedAfter(absl::string_view message, absl::string_view marker) {
  const size_t at = message.find(marker);
  if (at == absl::string_view::npos) return "";
  absl::string_view rest = message.substr(at + marker.size());
  const size_t open = rest.find('"');
  if (open == absl::string_view::npos) return "";
  rest = rest.substr(open + 1);
  return std::string(rest.substr(0, rest.find('"')));
}

std::string FieldNames(const Descriptor* type) {
  std::vector<std::string> names;
  for (int i = 0; i < type->field_count(); ++i) {
    names.push_back(type->field(i)->name());
  }
  return absl::StrJoin(names, ", ");
}

// Adds to the parser's words what could have been written instead.
std::string Advice(const std::string& message) {
  const std::string type = [&] {
    const absl::string_view start = "Message type \"skiff.tools.skiffd.";
    absl::string_view rest = message;
    if (!absl::ConsumePrefix(&rest, start)) return std::string();
    return std::string(rest.substr(0, rest.find('"')));
  }();
  if (!type.empty()) {
    const Descriptor* descriptor =
        Config::descriptor()->file()->FindMessageTypeByName(type);
    if (descriptor != nullptr) {
      return absl::StrCat("there is no '",
                          QuotedAfter(message, "no field named"),
                          "' here; known are ", FieldNames(descriptor));
    }
  }
  // The parser names the word that it met, and here there was none.
  if (absl::EndsWith(message, ", got: ")) {
    return "the file ends here, before something is complete; is a } missing?";
  }
  return std::string(absl::StripSuffix(message, "."));
}

class ProblemCollector : public google::protobuf::io::ErrorCollector {
 public:
  ProblemCollector(const std::string& file, std::vector<std::string>* problems)
      : file_(file), problems_(problems) {}
  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override {
    // The parser counts from zero.
    problems_->push_back(transport::Printable(absl::StrCat(
        file_, ":", line + 1, ":", column + 1, ": ", Advice(message))));
  }
  // What the parser goes on after.
  void AddWarning(int line, google::protobuf::io::ColumnNumber column,
                  const std::string& message) override {
    AddError(line, column, message);
  }

 private:
  const std::string& file_;
  std::vector<std::string>* problems_;
};

void Locate(const Message& message, TextFormat::ParseInfoTree* tree,
            Locations* locations);

void LocateField(const Message& message, const FieldDescriptor* field,
                 int index, TextFormat::ParseInfoTree* tree,
                 Locations* locations) {
  const TextFormat::ParseLocation location = tree->GetLocation(field, index);
  if (location.line < 0) return;
  const int line = location.line + 1;
  locations->SetLine(message, field->number(), index, line);
  if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) return;
  const Reflection* reflection = message.GetReflection();
  const Message& child =
      index < 0 ? reflection->GetMessage(message, field)
                : reflection->GetRepeatedMessage(message, field, index);
  locations->SetLine(child, 0, -1, line);
  TextFormat::ParseInfoTree* child_tree = tree->GetTreeForNested(field, index);
  if (child_tree != nullptr) Locate(child, child_tree, locations);
}

void Locate(const Message& message, TextFormat::ParseInfoTree* tree,
            Locations* locations) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (!field->is_repeated()) {
      // The tree files singular fields under index -1.
      LocateField(message, field, -1, tree, locations);
      continue;
    }
    const int size = message.GetReflection()->FieldSize(message, field);
    for (int i = 0; i < size; ++i) {
      LocateField(message, field, i, tree, locations);
    }
  }
}

}  // namespace

ParsedConfig ParseConfigText(const std::string& text, const std::string& file,
                             std::vector<std::string>* problems) {
  ParsedConfig parsed;
  // Thousands of messages come and go as one.
  const auto arena = std::make_shared<Arena>();
  parsed.config =
      std::shared_ptr<Config>(arena, Arena::CreateMessage<Config>(arena.get()));
  parsed.locations.SetDefault(file);
  ProblemCollector collector(file, problems);
  TextFormat::ParseInfoTree tree;
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&collector);
  parser.WriteLocationsTo(&tree);
  // The parser calls itself for each message in a message.
  constexpr int kMaxDepth = 32;
  parser.SetRecursionLimit(kMaxDepth);
  // A problem all the same (AddWarning), but not the last one that is found.
  parser.AllowUnknownField(true);
  if (parser.ParseFromString(text, parsed.config.get())) {
    Locate(*parsed.config, &tree, &parsed.locations);
  }
  return parsed;
}

ParsedConfig ParseConfigFile(const std::string& file,
                             std::vector<std::string>* problems) {
  const absl::StatusOr<std::string> text = ReadFile(file);
  if (!text.ok()) {
    problems->push_back(absl::StrCat("cannot read the configuration: ",
                                     text.status().message()));
    ParsedConfig empty;
    empty.config = std::make_shared<Config>();
    return empty;
  }
  return ParseConfigText(*text, file, problems);
}

}  // namespace skiff::tools::skiffd
