// The functions of skiff/target.h that are about targets.

#include <skiff/target.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "protocol/negotiation/names.h"
#include "tools/library/backend.h"
#include "tools/library/error.h"
#include "tools/library/handle.h"
#include "tools/library/options.h"
#include "tools/library/target.h"

namespace {

using skiff::library::Backend;
using skiff::library::Context;
using skiff::library::Ending;
using skiff::library::Fail;
using skiff::library::Handles;
using skiff::library::Kind;
using skiff::library::Pinned;
using skiff::library::ReadOptions;
using skiff::library::StringOf;
using skiff::library::Target;
namespace scsi = skiff::scsi;

skiff_lun_info InfoOf(const scsi::LogicalUnitStatus& unit) {
  skiff_lun_info info = {};
  info.lun = unit.lun;
  info.medium = unit.medium.c_str();
  info.serial = unit.serial.c_str();
  info.data_loss = unit.data_loss.c_str();
  info.size_bytes = unit.size_bytes;
  info.failed_reads = unit.failures.reads;
  info.failed_writes = unit.failures.writes;
  info.failed_flushes = unit.failures.flushes;
  info.failed_unmaps = unit.failures.unmaps;
  info.failed_write_zeroes = unit.failures.write_zeroes;
  info.failed_compare_and_writes = unit.failures.compare_and_writes;
  info.counts = skiff::library::CountsOf(unit.commands);
  return info;
}

}  // namespace

int skiff_target_create(skiff_context* context, const char* name,
                        const skiff_access_ops* access, skiff_target** target) {
  if (target == nullptr) {
    return Fail(EINVAL, "there is no place for the skiff_target: it is NULL");
  }
  *target = nullptr;
  const Pinned<Context> pinned(context);
  if (pinned.error() != 0) return pinned.error();
  if (name == nullptr) return Fail(EINVAL, "the name of the target is NULL");
  const auto normalized = skiff::protocol::NormalizeName(name);
  if (!normalized.ok()) return Fail(normalized.status());
  skiff_access_ops ops;
  if (const int error = ReadOptions(access, "skiff_access_ops", &ops)) {
    return error;
  }
  std::shared_ptr<scsi::Target> made =
      scsi::Target::Create(*normalized, skiff::library::MakeAccessPolicy(ops));
  void* const handle = Handles::Open(
      Kind::kTarget, std::make_shared<Target>(pinned.Share(), std::move(made)));
  if (handle == nullptr) return Fail(EMFILE, "there are too many handles");
  *target = static_cast<skiff_target*>(handle);
  return 0;
}

int skiff_target_add_lun(skiff_target* target, uint64_t lun,
                         skiff_backend* backend,
                         const skiff_lun_options* options) {
  const Pinned<Target> pinned(target);
  if (pinned.error() != 0) return pinned.error();
  const Pinned<Backend> medium(backend);
  if (medium.error() != 0) return medium.error();
  skiff_lun_options given;
  if (const int error = ReadOptions(options, "skiff_lun_options", &given)) {
    return error;
  }
  constexpr uint64_t kMaxLun = 16383;
  if (lun > kMaxLun) {
    return Fail(ERANGE, absl::StrCat("LUN ", lun, " is beyond ", kMaxLun,
                                     ", the last one"));
  }
  scsi::LogicalUnitOptions unit;
  unit.lun = lun;
  unit.vendor = StringOf(given.vendor, unit.vendor);
  unit.product = StringOf(given.product, unit.product);
  unit.revision = StringOf(given.revision, SKIFF_VERSION);
  unit.serial = StringOf(given.serial, "");
  if (given.max_transfer_bytes != 0) {
    unit.max_transfer_bytes = given.max_transfer_bytes;
  }
  if (given.max_tasks != 0) unit.max_tasks = given.max_tasks;
  return pinned->AddLun(medium.Share(), unit);
}

int skiff_target_remove_lun(skiff_target* target, uint64_t lun,
                            skiff_done_fn done, void* user) {
  std::shared_ptr<Target> self;
  {
    const Pinned<Target> pinned(target);
    if (pinned.error() != 0) return pinned.error();
    self = pinned.Share();
  }
  Ending ending(self->context().get(), done, user);
  if (ending.error() != 0) return ending.error();
  if (const int error = self->RemoveLun(lun, ending.done())) return error;
  return ending.Finish();
}

int skiff_target_luns(skiff_target* target,
                      int (*each)(void* user, const skiff_lun_info* lun),
                      void* user) {
  std::vector<scsi::LogicalUnitStatus> units;
  {
    const Pinned<Target> pinned(target);
    if (pinned.error() != 0) return pinned.error();
    if (each == nullptr) return Fail(EINVAL, "each is NULL");
    units = pinned->target()->LogicalUnitStatuses();
  }
  for (const scsi::LogicalUnitStatus& unit : units) {
    const skiff_lun_info info = InfoOf(unit);
    if (const int result = each(user, &info)) return result;
  }
  return 0;
}

int skiff_target_close(skiff_target* target) {
  const Pinned<Target> pinned(target);
  if (pinned.error() != 0) return pinned.error();
  if (const int error = pinned->Shut()) return error;
  Handles::Close(target);
  return 0;
}
