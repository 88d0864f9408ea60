#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "tools/common/spin.h"
#include "tools/common/units.h"
#include "tools/skiffd/settings.h"

namespace skiff::tools::skiffd {
namespace {

using ::google::protobuf::FieldDescriptor;
using ::google::protobuf::Message;

constexpr std::pair<const char*, protocol::LogLevel> kLevels[] = {
    {"error", protocol::LogLevel::kError},
    {"warning", protocol::LogLevel::kWarning},
    {"info", protocol::LogLevel::kInfo},
    {"debug", protocol::LogLevel::kDebug}};
constexpr std::pair<const char*, LogFormat> kFormats[] = {
    {"text", LogFormat::kText},
    {"json", LogFormat::kJson},
    {"journal", LogFormat::kJournal}};
constexpr std::pair<const char*, protocol::Digest> kDigests[] = {
    {"None", protocol::Digest::kNone}, {"CRC32C", protocol::Digest::kCrc32c}};

// The value of a name; null if there is none.
template <typename T, size_t count>
const T* ValueOf(const std::pair<const char*, T> (&names)[count],
                 const std::string& text) {
  for (const auto& [name, value] : names) {
    if (absl::EqualsIgnoreCase(text, name)) return &value;
  }
  return nullptr;
}

template <typename T, size_t count>
const char* NameOf(const std::pair<const char*, T> (&names)[count], T value) {
  return std::find_if(
             std::begin(names), std::end(names),
             [value](const auto& name) { return name.second == value; })
      ->first;
}

// As in the file.
std::string Quoted(absl::string_view value) {
  return absl::StrCat("`\"", value, "\"`");
}
template <typename Out>
uint64_t Get(const Out& out) {
  return std::visit([](auto* to) { return static_cast<uint64_t>(*to); }, out);
}
template <typename Out>
void Set(const Out& out, uint64_t value) {
  std::visit(
      [value](auto* to) {
        *to = static_cast<std::remove_reference_t<decltype(*to)>>(value);
      },
      out);
}

// Reads a field that is set.
class Reader {
 public:
  Reader(const Message& message, const FieldDescriptor* field,
         Setting::Report report)
      : message_(message), field_(field), report_(report) {}

  void operator()(const Number& number) const {
    const uint32_t value =
        message_.GetReflection()->GetUInt32(message_, field_);
    if (value >= number.min && value <= number.max) {
      return Set(number.out, value);
    }
    Say(" is ", value, "; it can be ", number.min, " to ", number.max);
  }
  void operator()(const Size& size) const {
    const absl::StatusOr<uint64_t> value = ParseSize(text());
    if (!value.ok()) return Say(": ", value.status().message());
    if (*value >= size.min && *value <= size.max) return Set(size.out, *value);
    Say(" is ", FormatSize(*value), "; it can be ", FormatSize(size.min),
        " to ", FormatSize(size.max));
  }
  void operator()(const Time& time) const {
    const absl::StatusOr<absl::Duration> value = ParseDuration(text());
    if (!value.ok()) return Say(": ", value.status().message());
    if (*value == absl::ZeroDuration()) {
      if (time.zero == nullptr) return Say(" must be positive");
    } else if (*value < time.min) {
      return Say(" is ", absl::FormatDuration(*value), "; write 0s for ",
                 time.zero, ", or at least ", absl::FormatDuration(time.min));
    } else if (*value > time.max) {
      return Say(" is ", absl::FormatDuration(*value), "; at most ",
                 absl::FormatDuration(time.max));
    }
    *time.out = *value;
  }
  void operator()(const Flag& flag) const {
    *flag.out = message_.GetReflection()->GetBool(message_, field_);
  }
  void operator()(const Text& to) const {
    std::string value = text();
    const bool printable = std::all_of(value.begin(), value.end(), [](char c) {
      return absl::ascii_isprint(static_cast<unsigned char>(c));
    });
    if (value.empty() || value.size() > to.max || !printable) {
      return Say(" must be 1 to ", to.max,
                 " printable ASCII characters; leave it out for the default");
    }
    *to.out = std::move(value);
  }
  void operator()(const Path& path) const { *path.out = text(); }
  void operator()(const Format& to) const {
    if (const LogFormat* const format = ValueOf(kFormats, text())) {
      *to.out = *format;
    } else {
      report_(absl::StrCat("'", text(),
                           "' is no format of the log; write text, json or "
                           "journal"),
              -1);
    }
  }
  void operator()(const Level& to) const {
    const protocol::LogLevel* level = ValueOf(kLevels, text());
    if (level != nullptr) {
      *to.out = *level;
    } else {
      report_(absl::StrCat("'", text(),
                           "' is no log level; write error, warning, info or "
                           "debug"),
              -1);
    }
  }
  void operator()(const Spin& spin) const {
    const absl::Status status = ParseSpin(text(), spin.out);
    if (!status.ok()) Say(": ", status.message());
  }
  void operator()(const Digests& to) const {
    to.out->clear();
    const int size = message_.GetReflection()->FieldSize(message_, field_);
    for (int i = 0; i < size; ++i) {
      const std::string name =
          message_.GetReflection()->GetRepeatedString(message_, field_, i);
      const protocol::Digest* digest = ValueOf(kDigests, name);
      if (digest != nullptr) {
        to.out->push_back(*digest);
      } else {
        report_(absl::StrCat("'", name, "' is no digest; write None or CRC32C"),
                i);
      }
    }
  }
  void operator()(const Other&) const {}

 private:
  std::string text() const {
    return message_.GetReflection()->GetString(message_, field_);
  }
  template <typename... Words>
  void Say(const Words&... words) const {
    report_(absl::StrCat(field_->name(), words...), -1);
  }

  const Message& message_;
  const FieldDescriptor* const field_;
  const Setting::Report report_;
};

struct Defaults {
  std::string operator()(const Number& number) const {
    return absl::StrCat(Get(number.out));
  }
  std::string operator()(const Size& size) const {
    return Quoted(WriteSize(Get(size.out)));
  }
  std::string operator()(const Time& time) const {
    return Quoted(WriteDuration(*time.out));
  }
  std::string operator()(const Flag& flag) const {
    return *flag.out ? "true" : "false";
  }
  std::string operator()(const Text& text) const { return Quoted(*text.out); }
  std::string operator()(const Path& path) const { return Quoted(*path.out); }
  std::string operator()(const Level& level) const {
    return Quoted(NameOf(kLevels, *level.out));
  }
  std::string operator()(const Format& format) const {
    return Quoted(NameOf(kFormats, *format.out));
  }
  std::string operator()(const Spin& spin) const {
    const absl::Duration time = spin.out->spin;
    const bool adaptive = spin.out->adaptive_spin;
    if (time == absl::ZeroDuration())
      return Quoted(adaptive ? "auto" : "never");
    if (time == absl::InfiniteDuration()) return Quoted("always");
    return Quoted(absl::StrCat(adaptive ? "auto:" : "", WriteDuration(time)));
  }
  std::string operator()(const Digests& digests) const {
    return absl::StrJoin(*digests.out, ", ",
                         [](std::string* out, protocol::Digest digest) {
                           out->append(Quoted(NameOf(kDigests, digest)));
                         });
  }
  std::string operator()(const Other& other) const {
    return other.quoted ? Quoted(other.default_text) : other.default_text;
  }
};

// Whether two settings of one kind have the same value.
struct Equal {
  static bool Same(const Number& a, const Number& b) {
    return Get(a.out) == Get(b.out);
  }
  static bool Same(const Size& a, const Size& b) {
    return Get(a.out) == Get(b.out);
  }
  static bool Same(const Spin& a, const Spin& b) {
    return a.out->spin == b.out->spin &&
           a.out->adaptive_spin == b.out->adaptive_spin;
  }
  static bool Same(const Other&, const Other&) { return true; }
  template <typename Value>
  static bool Same(const Value& a, const Value& b) {
    return *a.out == *b.out;
  }

  template <typename Value>
  bool operator()(const Value& value) const {
    return Same(value, std::get<Value>(other));
  }

  const decltype(Setting::value)& other;
};

struct Ranges {
  std::string operator()(const Number& number) const {
    return absl::StrCat(number.min, " to ", number.max);
  }
  std::string operator()(const Size& size) const {
    return absl::StrCat(FormatSize(size.min), " to ", FormatSize(size.max));
  }
  std::string operator()(const Time& time) const {
    if (time.zero == nullptr) return absl::StrCat("more than ", kZero);
    std::vector<std::string> words;
    if (*time.zero != '\0') {
      words.push_back(absl::StrCat(kZero, ": ", time.zero));
    }
    if (time.min > absl::ZeroDuration()) {
      words.push_back(
          absl::StrCat("at least ", Quoted(WriteDuration(time.min))));
    }
    if (time.max < absl::InfiniteDuration()) {
      words.push_back(
          absl::StrCat("at most ", Quoted(WriteDuration(time.max))));
    }
    return absl::StrJoin(words, "; ");
  }
  std::string operator()(const Text& text) const {
    return absl::StrCat("1 to ", text.max, " characters");
  }
  std::string operator()(const Other& other) const { return other.range; }
  template <typename Value>
  std::string operator()(const Value&) const {
    return "";
  }

  static constexpr char kZero[] = "`\"0s\"`";
};

}  // namespace

absl::string_view LevelName(protocol::LogLevel level) {
  return NameOf(kLevels, level);
}

std::optional<protocol::LogLevel> LevelOf(const std::string& text) {
  const protocol::LogLevel* const level = ValueOf(kLevels, text);
  if (level == nullptr) return std::nullopt;
  return *level;
}

void Setting::Read(const Message& message, const FieldDescriptor* field,
                   Report report) const {
  std::visit(Reader(message, field, report), value);
}

std::string Setting::Default() const {
  return default_text != nullptr ? default_text : std::visit(Defaults(), value);
}

std::string Setting::Written() const {
  // The defaults of the documentation are in its code spans.
  return absl::StrReplaceAll(std::visit(Defaults(), value), {{"`", ""}});
}

bool Setting::SameValue(const Setting& other) const {
  return std::visit(Equal{other.value}, value);
}

std::string Setting::Range() const { return std::visit(Ranges(), value); }

}  // namespace skiff::tools::skiffd
