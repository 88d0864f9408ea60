// The functions of skiff/target.h that are about targets.

#include <skiff/target.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "protocol/negotiation/names.h"
#include "tools/library/access.h"
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
using skiff::library::ReadAccessRules;
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

// `read_access` makes the policy, and gives the rules if it is made of them.
template <typename ReadAccess>
int Create(skiff_context* context, const char* name, skiff_target** target,
           ReadAccess read_access) {
  if (target == nullptr) {
    return Fail(EINVAL, "there is no place for the skiff_target: it is NULL");
  }
  *target = nullptr;
  const Pinned<Context> pinned(context);
  if (pinned.error() != 0) return pinned.error();
  if (name == nullptr) return Fail(EINVAL, "the name of the target is NULL");
  const auto normalized = skiff::protocol::NormalizeName(name);
  if (!normalized.ok()) return Fail(normalized.status());
  std::shared_ptr<scsi::AccessPolicy> policy;
  std::shared_ptr<scsi::AccessList> list;
  if (const int error = read_access(&policy, &list)) return error;
  void* const handle = Handles::Open(
      Kind::kTarget,
      std::make_shared<Target>(
          pinned.Share(), scsi::Target::Create(*normalized, std::move(policy)),
          std::move(list)));
  if (handle == nullptr) return Fail(EMFILE, "there are too many handles");
  *target = static_cast<skiff_target*>(handle);
  return 0;
}

}  // namespace

int skiff_target_create(skiff_context* context, const char* name,
                        const skiff_access_ops* access, skiff_target** target) {
  return Create(context, name, target, [access](auto* policy, auto* /*list*/) {
    skiff_access_ops ops;
    if (const int error = ReadOptions(access, "skiff_access_ops", &ops)) {
      return error;
    }
    *policy = skiff::library::MakeAccessPolicy(ops);
    return 0;
  });
}

int skiff_target_create_with_rules(skiff_context* context, const char* name,
                                   const skiff_access_rule* const* rules,
                                   size_t count, skiff_target** target) {
  return Create(context, name, target,
                [rules, count](auto* policy, auto* list) {
                  std::vector<scsi::AccessRule> read;
                  if (const int error = ReadAccessRules(rules, count, &read)) {
                    return error;
                  }
                  *list = std::make_shared<scsi::AccessList>(std::move(read));
                  *policy = *list;
                  return 0;
                });
}

int skiff_target_set_rules(skiff_target* target,
                           const skiff_access_rule* const* rules,
                           size_t count) {
  const Pinned<Target> pinned(target);
  if (pinned.error() != 0) return pinned.error();
  if (pinned->rules() == nullptr) {
    return Fail(ENOTSUP,
                "the target was not made with rules: use "
                "skiff_target_create_with_rules()");
  }
  std::vector<scsi::AccessRule> read;
  if (const int error = ReadAccessRules(rules, count, &read)) return error;
  pinned->rules()->Replace(std::move(read));
  pinned->target()->ReviewAccess();
  return 0;
}

int skiff_target_review_access(skiff_target* target) {
  const Pinned<Target> pinned(target);
  if (pinned.error() != 0) return pinned.error();
  pinned->target()->ReviewAccess();
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
