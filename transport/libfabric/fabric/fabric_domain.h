#ifndef SKIFF_TRANSPORT_LIBFABRIC_FABRIC_FABRIC_DOMAIN_H_
#define SKIFF_TRANSPORT_LIBFABRIC_FABRIC_FABRIC_DOMAIN_H_

#include <rdma/fi_domain.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <random>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "transport/libfabric/fabric/device_hold.h"
#include "transport/libfabric/fabric/fid.h"
#include "transport/libfabric/fabric/libfabric_options.h"
#include "transport/libfabric/shm/shm_regions.h"
#include "transport/memory.h"

namespace skiff::transport {

// A libfabric fabric and access domain with this process' registrations.
// open_domains.h has those of the process. A completion queue knows its domain,
// which knows of none.
class FabricDomain : public MemoryDomain,
                     public std::enable_shared_from_this<FabricDomain> {
 public:
  ~FabricDomain() override;

  const Capabilities& capabilities() const final { return capabilities_; }
  std::string name() const final { return name_; }
  // With the verbs provider only; others do not say.
  bool removed() const final;
  // Somebody else has heard of it: a later DomainFor() looks again.
  void SetRemoved() { removed_ = true; }
  const std::string& provider() const { return provider_; }
  // The domain's name in libfabric: an interface or device.
  const std::string& device() const { return device_; }
  absl::StatusOr<std::unique_ptr<MemoryRegion>> Register(void* data,
                                                         size_t size,
                                                         Access access) final;

  const LibfabricOptions& settings() const { return settings_; }
  fid_fabric* fabric() const { return fabric_.get(); }
  fid_domain* domain() const { return domain_.get(); }
  // Local buffers need descriptors (FI_MR_LOCAL).
  bool needs_descriptors() const { return local_; }
  // WRITEs have to ask for it, so that they complete once the data is placed,
  // as they do on InfiniBand.
  bool asks_for_delivery() const { return asks_for_delivery_; }
  // Endpoints are unconnected (FI_EP_RDM).
  bool datagrams() const { return datagrams_; }
  // A message that is longer than its RECEIVE must never meet it.
  bool needs_sink() const { return sink_ != nullptr; }
  // Room for Capabilities::max_message_bytes that nobody reads.
  void* sink() const { return sink_.get(); }
  // Pieces of memory that the provider takes, the sink's among them.
  size_t max_iovecs() const { return max_iovecs_; }
  // A one-sided operation that the peer's provider refuses is forgotten, and
  // has to be found missing.
  bool forgets_refusals() const { return forgets_refusals_; }
  // Both ends have to be on one machine.
  bool local_only() const { return local_only_; }
  // Only closing an endpoint stops what a peer does to memory that was open to
  // it, and closing it is up to this end alone.
  bool writes_may_last() const {
    return opened_ && !local_only_ && !capabilities_.deregistration_ends_access;
  }
  // What peers may read without the provider's help; null but in shared memory.
  ShmRegionList* readable() const { return readable_.get(); }
  // A SEND may overtake the data of an earlier WRITE (no FI_ORDER_SAW).
  bool send_passes_write() const { return send_passes_write_; }
  // What is posted behind a READ completes before it, which the provider does
  // not survive: it takes each completion for that of the oldest operation
  // (vrb_poll_cq()).
  bool completes_before_reads() const { return completes_before_reads_; }

 protected:
  explicit FabricDomain(const LibfabricOptions& settings)
      : settings_(settings) {}
  // Once, before anything else.
  absl::Status Open(const fi_info& info);

 private:
  void FindLimits(const fi_info& info);
  absl::Status OpenPlaceholder();
  absl::Status CheckNoCache();
  absl::Status AdaptToShm();
  uint64_t NextKey();
  // The region's entry in readable_, or kUnlisted.
  uint32_t List(uint64_t key, const void* data, size_t size);

  const LibfabricOptions settings_;
  InfoPtr info_;  // What the domain was opened for.
  // Closed in reverse order.
  Fid<fid_fabric> fabric_;
  std::unique_ptr<DeviceHold> hold_;  // Of the verbs provider's devices.
  Fid<fid_domain> domain_;
  Fid<fid_cq> placeholder_;  // Soft-iWARP only.
  Capabilities capabilities_;
  std::string name_;
  std::string provider_;
  std::string device_;
  bool local_ = false;
  bool provider_keys_ = false;
  bool virtual_addresses_ = false;
  bool send_passes_write_ = false;
  bool completes_before_reads_ = false;
  bool asks_for_delivery_ = false;
  bool datagrams_ = false;
  bool forgets_refusals_ = false;
  bool local_only_ = false;
  size_t max_iovecs_ = 0;
  struct Unmap {
    void operator()(void* memory) const;
  };
  std::unique_ptr<void, Unmap> sink_;
  std::unique_ptr<ShmRegionList> readable_;
  std::atomic<uint32_t> unlisted_{0};
  mutable std::atomic<bool> removed_{false};
  std::atomic<bool> opened_{false};  // Memory was, to peers.
  std::mutex mutex_;
  std::mt19937_64 random_;  // Guarded by mutex_.
};

// Memory registered in a FabricDomain, which it keeps open.
class FabricRegion final : public MemoryRegion {
 public:
  struct Parts {
    std::shared_ptr<FabricDomain> domain;
    void* data = nullptr;
    size_t size = 0;
    Access access = Access::kLocal;
    bool virtual_addresses = false;
    uint32_t listed = ShmRegionList::kUnlisted;  // In domain->readable().
  };
  FabricRegion(Parts parts, Fid<fid_mr> region)
      : MemoryRegion(parts.domain.get()),
        parts_(std::move(parts)),
        region_(std::move(region)),
        descriptor_(region_ != nullptr ? region_->mem_desc : nullptr) {}
  ~FabricRegion() override {
    if (parts_.listed != ShmRegionList::kUnlisted) {
      parts_.domain->readable()->Remove(parts_.listed);
    }
  }

  void* data() const override { return parts_.data; }
  size_t size() const override { return parts_.size; }
  Access access() const override { return parts_.access; }
  RemoteKey remote_key() const override {
    return {region_ != nullptr ? region_->key : 0};
  }
  uint64_t remote_base() const override {
    return parts_.virtual_addresses ? reinterpret_cast<uintptr_t>(parts_.data)
                                    : 0;
  }

  void* descriptor() const { return descriptor_; }

 private:
  const Parts parts_;
  const Fid<fid_mr> region_;
  void* const descriptor_;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_FABRIC_FABRIC_DOMAIN_H_
