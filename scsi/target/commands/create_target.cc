// Where the device server meets its commands, which it does not know.

#include <memory>

#include "absl/strings/string_view.h"
#include "scsi/target/commands/command_table.h"
#include "scsi/target/target.h"
#include "scsi/target/target_impl.h"

namespace skiff::scsi {

std::unique_ptr<Target> Target::Create(absl::string_view name) {
  return std::make_unique<TargetImpl>(name, AllCommands());
}

}  // namespace skiff::scsi
