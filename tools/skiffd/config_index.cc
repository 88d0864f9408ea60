#include "tools/skiffd/config_index.h"

#include <cstddef>

namespace skiff::tools::skiffd {

ConfigIndex::ConfigIndex(const DaemonConfig& config) {
  size_t luns = 0;
  for (const TargetConfig& target : config.targets) luns += target.luns.size();
  targets_.reserve(config.targets.size());
  luns_.reserve(luns);
  for (const TargetConfig& target : config.targets) {
    targets_.emplace(target.name, &target);
    for (const LunConfig& lun : target.luns) {
      luns_.emplace(std::pair(&target, lun.options.lun), &lun);
    }
  }
}

const TargetConfig* ConfigIndex::Find(absl::string_view target) const {
  const auto found = targets_.find(target);
  return found == targets_.end() ? nullptr : found->second;
}

const LunConfig* ConfigIndex::Find(const TargetConfig& target,
                                   uint64_t lun) const {
  const auto found = luns_.find(std::pair(&target, lun));
  return found == luns_.end() ? nullptr : found->second;
}

const LunConfig* ConfigIndex::Find(absl::string_view target,
                                   uint64_t lun) const {
  const TargetConfig* const of = Find(target);
  return of == nullptr ? nullptr : Find(*of, lun);
}

}  // namespace skiff::tools::skiffd
