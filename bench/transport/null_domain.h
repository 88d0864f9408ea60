#ifndef SKIFF_BENCH_TRANSPORT_NULL_DOMAIN_H_
#define SKIFF_BENCH_TRANSPORT_NULL_DOMAIN_H_

#include <cstdint>
#include <memory>
#include <string>

#include "transport/memory.h"

namespace skiff::transport {

// Registers at no cost, so that what is measured is the bookkeeping above it.
class NullDomain final : public MemoryDomain {
 public:
  const Capabilities& capabilities() const override { return capabilities_; }
  std::string name() const override { return "null"; }
  absl::StatusOr<std::unique_ptr<MemoryRegion>> Register(
      void* data, size_t size, Access access) override {
    return std::make_unique<Region>(this, data, size, access);
  }

 private:
  class Region final : public MemoryRegion {
   public:
    Region(const MemoryDomain* domain, void* data, size_t size, Access access)
        : MemoryRegion(domain), data_(data), size_(size), access_(access) {}
    void* data() const override { return data_; }
    size_t size() const override { return size_; }
    Access access() const override { return access_; }
    RemoteKey remote_key() const override { return {}; }
    uint64_t remote_base() const override { return 0; }

   private:
    void* const data_;
    const size_t size_;
    const Access access_;
  };

  const Capabilities capabilities_ = {};
};

}  // namespace skiff::transport

#endif  // SKIFF_BENCH_TRANSPORT_NULL_DOMAIN_H_
