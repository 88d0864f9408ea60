#include <string>
#include <vector>

#include "tools/skiffd/config.pb.h"
#include "tools/skiffd/flags.h"
#include "tools/skiffd/parsed_config.h"

namespace skiff::tools::skiffd {

ParsedConfig ReadConfig(const Flags& flags,
                        std::vector<std::string>* problems) {
  ParsedConfig parsed = flags.config_file.empty()
                            ? ParseQuickForm(flags.quick, problems)
                            : ParseConfigFile(flags.config_file, problems);
  ApplyFlags(flags, &parsed);
  return parsed;
}

void ApplyFlags(const Flags& flags, ParsedConfig* parsed) {
  Config* config = parsed->config.get();
  Locations* locations = &parsed->locations;
  if (flags.reactors.has_value()) {
    Reactors* reactors = config->mutable_reactors();
    reactors->set_count(*flags.reactors);
    locations->Set(*reactors, Reactors::kCountFieldNumber, -1, "--reactors");
  }
  if (!flags.spin.empty()) {
    Reactors* reactors = config->mutable_reactors();
    reactors->set_spin(flags.spin);
    locations->Set(*reactors, Reactors::kSpinFieldNumber, -1, "--spin");
  }
  if (flags.queue_depth.has_value()) {
    Limits* limits = config->mutable_limits();
    limits->set_queue_depth(*flags.queue_depth);
    locations->Set(*limits, Limits::kQueueDepthFieldNumber, -1,
                   "--queue-depth");
  }
  if (!flags.log_level.empty()) {
    config->set_log_level(flags.log_level);
    locations->Set(*config, Config::kLogLevelFieldNumber, -1, "--log-level");
  }
}

}  // namespace skiff::tools::skiffd
