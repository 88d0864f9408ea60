#ifndef SKIFF_TOOLS_LIBRARY_TARGET_H_
#define SKIFF_TOOLS_LIBRARY_TARGET_H_

#include <skiff/target.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "scsi/target/access_list.h"
#include "scsi/target/target.h"
#include "tools/library/backend.h"
#include "tools/library/context.h"
#include "tools/library/handle.h"

namespace skiff::library {

// The same in the words of C.
skiff_command_counts CountsOf(const scsi::CommandCounts& counts);

// A SCSI target, and what its logical units are made of. Thread-safe.
class Target : public Object, public std::enable_shared_from_this<Target> {
 public:
  static constexpr Kind kKind = Kind::kTarget;

  // `rules` is the access policy of `target`; null: it has another one.
  Target(std::shared_ptr<Context> context, std::shared_ptr<scsi::Target> target,
         std::shared_ptr<scsi::AccessList> rules)
      : use_(std::move(context), kKind),
        target_(std::move(target)),
        rules_(std::move(rules)) {}

  const transport::ForkDetector& fork_detector() const override {
    return use_.context()->fork_detector();
  }
  const std::shared_ptr<Context>& context() const { return use_.context(); }
  const std::shared_ptr<scsi::Target>& target() const { return target_; }
  const std::shared_ptr<scsi::AccessList>& rules() const { return rules_; }

  // Each returns 0, or a remembered error.
  int AddLun(const std::shared_ptr<Backend>& backend,
             const scsi::LogicalUnitOptions& options);
  int RemoveLun(uint64_t lun, Ending::Done done);

  // A server serves it, until EndServing().
  int BeginServing();
  void EndServing();
  // Nobody serves it any more from now on. Its logical units are removed.
  int Shut();

 private:
  // Under `mutex_`: what is in `luns_` is removed from there. `done` may be
  // none.
  void Remove(std::map<uint64_t, std::shared_ptr<Backend>>::iterator unit,
              Ending::Done done);

  const Context::Use use_;
  const std::shared_ptr<scsi::Target> target_;
  const std::shared_ptr<scsi::AccessList> rules_;
  std::mutex mutex_;
  std::map<uint64_t, std::shared_ptr<Backend>> luns_;  // Under `mutex_`.
  int servers_ = 0;                                    // Under `mutex_`.
  bool shut_ = false;                                  // Under `mutex_`.
};

}  // namespace skiff::library

#endif  // SKIFF_TOOLS_LIBRARY_TARGET_H_
