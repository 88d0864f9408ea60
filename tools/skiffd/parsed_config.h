#ifndef SKIFF_TOOLS_SKIFFD_PARSED_CONFIG_H_
#define SKIFF_TOOLS_SKIFFD_PARSED_CONFIG_H_

#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace skiff::tools::skiffd {

class Config;

// Where each part of a configuration was written, for error messages:
// "/etc/skiffd.conf:12", or "--lun 'ram:1GiB'".
class Locations {
 public:
  // Of a whole message (`field` 0), a field of it, or one value of a repeated
  // field.
  void Set(const google::protobuf::Message& message, int field, int index,
           std::string where);
  // The same in a file, which is the default. Lines count from 1.
  void SetLine(const google::protobuf::Message& message, int field, int index,
               int line);
  // The closest that is known: the value, the field, the message, everything.
  std::string Of(const google::protobuf::Message& message, int field = 0,
                 int index = -1) const;
  // What Of() answers for what nobody wrote.
  void SetDefault(std::string where) { default_ = std::move(where); }

 private:
  using Key = std::tuple<const google::protobuf::Message*, int, int>;
  absl::flat_hash_map<Key, std::string> where_;
  absl::flat_hash_map<Key, int> lines_;
  std::string default_;
};

// A configuration as it was written: well-formed, not yet checked.
struct ParsedConfig {
  std::shared_ptr<Config> config;
  Locations locations;
};

// Parses a configuration file's text. Appends one line to `problems` for each
// mistake: "FILE:LINE:COLUMN: reason"; then the result is not usable.
ParsedConfig ParseConfigText(const std::string& text, const std::string& file,
                             std::vector<std::string>* problems);

// As above, from the file itself.
ParsedConfig ParseConfigFile(const std::string& file,
                             std::vector<std::string>* problems);

// One flag of the quick form, in the order of the command line.
struct QuickFlag {
  enum class Kind { kListen, kTarget, kLun, kOpen };
  Kind kind;
  std::string value;
};

// The configuration that --listen, --target, --lun and --open describe. A --lun
// belongs to the --target before it, --open to all. Problems name the flag.
ParsedConfig ParseQuickForm(const std::vector<QuickFlag>& flags,
                            std::vector<std::string>* problems);

}  // namespace skiff::tools::skiffd

#endif  // SKIFF_TOOLS_SKIFFD_PARSED_CONFIG_H_
