#ifndef SKIFF_TOOLS_SKIFFD_CONFIG_INDEX_H_
#define SKIFF_TOOLS_SKIFFD_CONFIG_INDEX_H_

#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "tools/skiffd/config.h"

namespace skiff::tools::skiffd {

// Finds the parts of a configuration, which must outlive it and not change:
// there can be thousands.
class ConfigIndex {
 public:
  // Of a configuration that was checked.
  explicit ConfigIndex(const DaemonConfig& config);

  // Null: there is none.
  const TargetConfig* Find(absl::string_view target) const;
  const LunConfig* Find(const TargetConfig& target, uint64_t lun) const;
  const LunConfig* Find(absl::string_view target, uint64_t lun) const;

 private:
  absl::flat_hash_map<absl::string_view, const TargetConfig*> targets_;
  absl::flat_hash_map<std::pair<const TargetConfig*, uint64_t>,
                      const LunConfig*>
      luns_;
};

}  // namespace skiff::tools::skiffd

#endif  // SKIFF_TOOLS_SKIFFD_CONFIG_INDEX_H_
