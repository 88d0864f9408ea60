#ifndef SKIFF_TOOLS_LIBRARY_BACKEND_H_
#define SKIFF_TOOLS_LIBRARY_BACKEND_H_

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>

#include "scsi/backend/backend.h"
#include "scsi/target/target.h"
#include "tools/library/callback_backend.h"
#include "tools/library/context.h"
#include "tools/library/handle.h"
#include "tools/library/request_table.h"

namespace skiff::library {

// A medium, and which logical units serve it. Thread-safe.
class Backend : public Object {
 public:
  static constexpr Kind kKind = Kind::kBackend;

  // `callbacks`: the medium, if it is one of callbacks; else null.
  Backend(std::shared_ptr<Context> context,
          std::shared_ptr<scsi::Backend> medium, CallbackBackend* callbacks);

  const transport::ForkDetector& fork_detector() const override {
    return use_.context()->fork_detector();
  }
  const std::shared_ptr<Context>& context() const { return use_.context(); }
  const std::shared_ptr<scsi::Backend>& medium() const { return medium_; }
  // Null: it has none.
  RequestTable* requests() const {
    return callbacks_ == nullptr ? nullptr : &callbacks_->requests();
  }

  // A logical unit is going to serve it. 0, or a remembered error.
  int BeginServing(const std::shared_ptr<scsi::Target>& target, uint64_t lun);
  // Its removal has begun, and is over.
  void Removing(const scsi::Target* target, uint64_t lun);
  void Removed(const scsi::Target* target, uint64_t lun);

  // As skiff_backend_resize().
  int Resize(uint64_t size_bytes);
  // Nobody serves it any more from now on. 0, or a remembered error: somebody
  // does.
  int Shut();

 private:
  struct Unit {
    std::shared_ptr<scsi::Target> target;
    uint64_t lun = 0;
    bool removing = false;
  };
  // Under `mutex_`. A LUN that is used again may be here twice: once on its way
  // out.
  std::list<Unit>::iterator Find(const scsi::Target* target, uint64_t lun,
                                 bool removing);

  const Context::Use use_;
  const std::shared_ptr<scsi::Backend> medium_;
  CallbackBackend* const callbacks_;
  // One resize after the other. Taken before `mutex_`.
  std::mutex resizing_;
  std::mutex mutex_;
  std::list<Unit> units_;  // Under `mutex_`.
  bool shut_ = false;      // Under `mutex_`.
};

}  // namespace skiff::library

#endif  // SKIFF_TOOLS_LIBRARY_BACKEND_H_
