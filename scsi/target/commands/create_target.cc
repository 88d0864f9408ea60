// Where the device server meets its commands, which it does not know.

#include <memory>
#include <utility>

#include "absl/strings/string_view.h"
#include "scsi/target/commands/command_table.h"
#include "scsi/target/target.h"
#include "scsi/target/target_impl.h"

namespace skiff::scsi {

std::unique_ptr<Target> Target::Create(absl::string_view name,
                                       std::shared_ptr<AccessPolicy> access) {
  if (access == nullptr) access = std::make_shared<AllowAll>();
  return std::make_unique<TargetImpl>(name, AllCommands(), std::move(access));
}

}  // namespace skiff::scsi
