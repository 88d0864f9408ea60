#ifndef SKIFF_TRANSPORT_VERBS_VERBS_MEMORY_H_
#define SKIFF_TRANSPORT_VERBS_VERBS_MEMORY_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "transport/memory.h"
#include "transport/verbs/verbs_domain.h"

namespace skiff::transport {

class VerbsRegion final : public MemoryRegion {
 public:
  static absl::StatusOr<std::unique_ptr<MemoryRegion>> Create(
      std::shared_ptr<VerbsDomain> domain, void* data, size_t size,
      Access access);
  ~VerbsRegion() override { ibv_dereg_mr(mr_); }

  void* data() const override { return mr_->addr; }
  size_t size() const override { return mr_->length; }
  Access access() const override { return access_; }
  RemoteKey remote_key() const override { return {mr_->rkey}; }
  uint64_t remote_base() const override {
    return reinterpret_cast<uintptr_t>(mr_->addr);
  }

  ibv_mr* mr() const { return mr_; }
  uint32_t local_key() const { return local_key_; }

 private:
  VerbsRegion(std::shared_ptr<VerbsDomain> domain, ibv_mr* mr, Access access);

  const std::shared_ptr<VerbsDomain> domain_;
  ibv_mr* const mr_;
  const uint32_t local_key_;
  const Access access_;
};

// A type 2 memory window: bound by a work request of one queue pair, so that
// the peer can invalidate it.
class VerbsWindow final : public MemoryWindow {
 public:
  static absl::StatusOr<std::unique_ptr<MemoryWindow>> Create(
      std::shared_ptr<VerbsDomain> domain);
  ~VerbsWindow() override { ibv_dealloc_mw(mw_); }

  RemoteKey remote_key() const override { return {key_}; }

  // Each binding has a key of its own. Providers find the window by the key
  // that `mw()` has before the bind is posted, so that one bind at a time can
  // be on its way there.
  bool bind_staged() const { return key_ != mw_->rkey; }
  uint32_t StageBind() { return key_ = ibv_inc_rkey(key_); }
  ibv_mw* mw() const { return mw_; }

 private:
  VerbsWindow(std::shared_ptr<VerbsDomain> domain, ibv_mw* mw);

  const std::shared_ptr<VerbsDomain> domain_;
  ibv_mw* const mw_;
  uint32_t key_;
};

// IBV_ACCESS_*.
unsigned int ToVerbsAccess(Access access);

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_VERBS_VERBS_MEMORY_H_
