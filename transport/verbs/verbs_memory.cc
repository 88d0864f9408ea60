#include "transport/verbs/verbs_memory.h"

#include <cerrno>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "transport/verbs/verbs_status.h"

namespace skiff::transport {

unsigned int ToVerbsAccess(Access access) {
  unsigned int flags = 0;
  if (Has(access, Access::kRemoteRead)) flags |= IBV_ACCESS_REMOTE_READ;
  if (Has(access, Access::kRemoteWrite)) flags |= IBV_ACCESS_REMOTE_WRITE;
  return flags;
}

absl::StatusOr<std::unique_ptr<MemoryRegion>> VerbsRegion::Create(
    std::shared_ptr<VerbsDomain> domain, void* data, size_t size,
    Access access) {
  if (data == nullptr || size == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot register memory with ", domain->name(),
                     ": it is empty or at the null address"));
  }
  unsigned int flags = IBV_ACCESS_LOCAL_WRITE | ToVerbsAccess(access);
  if (domain->capabilities().memory_windows) flags |= IBV_ACCESS_MW_BIND;
  ibv_mr* mr = ibv_reg_mr(domain->pd(), data, size, static_cast<int>(flags));
  if (mr == nullptr) return RegisterError(domain->name(), size, errno);
  return std::unique_ptr<MemoryRegion>(
      new VerbsRegion(std::move(domain), mr, access));
}

VerbsRegion::VerbsRegion(std::shared_ptr<VerbsDomain> domain, ibv_mr* mr,
                         Access access)
    : MemoryRegion(domain.get()),
      domain_(std::move(domain)),
      mr_(mr),
      local_key_(mr->lkey),
      access_(access) {}

absl::StatusOr<std::unique_ptr<MemoryWindow>> VerbsWindow::Create(
    std::shared_ptr<VerbsDomain> domain) {
  ibv_mw* mw = ibv_alloc_mw(domain->pd(), IBV_MW_TYPE_2);
  if (mw == nullptr) {
    return CallError(
        absl::StrCat("cannot allocate a memory window of ", domain->name(),
                     ", which has ", domain->facts().device.max_mw),
        errno);
  }
  return std::unique_ptr<MemoryWindow>(new VerbsWindow(std::move(domain), mw));
}

VerbsWindow::VerbsWindow(std::shared_ptr<VerbsDomain> domain, ibv_mw* mw)
    : domain_(std::move(domain)), mw_(mw), key_(mw->rkey) {}

}  // namespace skiff::transport
