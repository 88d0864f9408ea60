#ifndef SKIFF_TOOLS_SKIFFD_SETTINGS_H_
#define SKIFF_TOOLS_SKIFFD_SETTINGS_H_

#include <google/protobuf/message.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tools/skiffd/config.h"

namespace skiff::tools::skiffd {

// SAM-5 section 4.7: flat addressing.
inline constexpr uint32_t kMaxLun = 16383;

inline constexpr char kDefaultPortal[] = "tcp://127.0.0.1:3260";
inline constexpr uint16_t kDefaultMetricsPort = 9464;
inline constexpr char kDefaultMetrics[] = "127.0.0.1:9464";
// Nobody but who owns the socket may connect.
inline constexpr char kDefaultManagementMode[] = "0600";

// What a field of the configuration can hold, and where its value goes. The
// default is what is there before.

struct Number {
  std::variant<int*, uint32_t*, uint64_t*> out;
  uint32_t min;
  uint32_t max;
};
struct Size {
  std::variant<uint32_t*, uint64_t*> out;
  uint64_t min;
  uint64_t max;
};
struct Time {
  absl::Duration* out;
  // What no time at all means; empty: just that, null: it would mean that
  // nothing is served, and is refused.
  const char* zero = "";
  absl::Duration min = absl::ZeroDuration();  // Of what is not zero.
  absl::Duration max = absl::InfiniteDuration();
};
struct Flag {
  bool* out;
};
// Printable ASCII, as SCSI's identification fields want it.
struct Text {
  std::string* out;
  size_t max;
};
struct Path {
  std::string* out;
};
struct Level {
  protocol::LogLevel* out;
};
struct Format {
  LogFormat* out;
};
struct Spin {
  transport::EpollReactorOptions* out;
};
struct Digests {
  std::vector<protocol::Digest>* out;
};
// Read and checked elsewhere.
struct Other {
  const char* default_text = "";
  const char* range = "";
  bool quoted = false;  // The default, as in the file.
};

struct Setting {
  const char* section;  // The message that it is in; empty: the one at hand.
  const char* name;
  std::variant<Number, Size, Time, Flag, Text, Path, Level, Format, Spin,
               Digests, Other>
      value;
  // Where the default is no value: what is told of it.
  const char* default_text = nullptr;

  // Reads its field, which is set. What is not valid leaves the default, and is
  // told: "name is 0; ...", and the index in a list, or -1.
  using Report = absl::FunctionRef<void(absl::string_view problem, int index)>;
  void Read(const google::protobuf::Message& message,
            const google::protobuf::FieldDescriptor* field,
            Report report) const;
  // As docs/skiffd.md tells them.
  std::string Default() const;
  std::string Range() const;
  // What it is set to, as a file has it.
  std::string Written() const;
  // Whether the same setting of another configuration is set to the same. What
  // is read elsewhere has to be compared there.
  bool SameValue(const Setting& other) const;
};

// The table of skiffd's settings: names as in config.proto, defaults as in the
// structs that they are set in. docs/skiffd.md says what they are for.
std::vector<Setting> SettingsOf(DaemonConfig* config);
std::vector<Setting> SettingsOf(TargetConfig* target);
std::vector<Setting> SettingsOf(AccountConfig* account);
std::vector<Setting> SettingsOf(scsi::AccessRule* rule);
std::vector<Setting> SettingsOf(scsi::AccessRule::Lun* lun);
std::vector<Setting> SettingsOf(LunConfig* lun);
std::vector<Setting> SettingsOf(scsi::RamBackendOptions* ram);
std::vector<Setting> SettingsOf(scsi::FileBackendOptions* file);

// A level as it is written, and back; nothing: it is none.
absl::string_view LevelName(protocol::LogLevel level);
std::optional<protocol::LogLevel> LevelOf(const std::string& text);

// `help`, with what a setting of the configuration can be, and its default.
std::string WithDefault(absl::string_view help, absl::string_view section,
                        absl::string_view name);

}  // namespace skiff::tools::skiffd

#endif  // SKIFF_TOOLS_SKIFFD_SETTINGS_H_
