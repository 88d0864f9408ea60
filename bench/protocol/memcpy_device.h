#ifndef SKIFF_BENCH_PROTOCOL_MEMCPY_DEVICE_H_
#define SKIFF_BENCH_PROTOCOL_MEMCPY_DEVICE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "transport/capabilities.h"
#include "transport/memory.h"
#include "transport/rdma_endpoint.h"

namespace skiff::protocol {

class MemcpyEndpoint;

// An RDMA device with the two ends of one connection, and memcpy for a network.
// A post costs next to nothing and moves nothing: all that a device does is
// done by Carry(), so that its share can be told from that of the code above.
// In its steady state it allocates nothing.
//
// Like a NIC it has memory windows, looks after keys, bounds and permissions,
// and takes no message without a receive. It outlives what is made from it.
class MemcpyDevice final : public transport::MemoryDomain {
 public:
  // What a key in use stands for. Addresses are those of the process.
  struct Grant {
    uint32_t key = 0;  // The index of this, and a generation.
    char* data = nullptr;
    size_t size = 0;  // 0: the key is not in use.
    transport::Access access = transport::Access::kLocal;
  };

  MemcpyDevice();

  // Called twice.
  std::unique_ptr<transport::RdmaEndpoint> MakeEnd();
  // Does what was posted at either end. False if there was nothing.
  bool Carry();

  // transport::MemoryDomain:
  const transport::Capabilities& capabilities() const override {
    return capabilities_;
  }
  std::string name() const override { return "memcpy"; }
  absl::StatusOr<std::unique_ptr<transport::MemoryRegion>> Register(
      void* data, size_t size, transport::Access access) override;
  absl::StatusOr<std::unique_ptr<transport::MemoryWindow>> AllocateWindow()
      override;

  // For what is made from it. An unused key of its own:
  uint32_t NewKey();
  // From now on `key` is of no use; the one that comes in its place.
  uint32_t RenewKey(uint32_t key);
  void FreeKey(uint32_t key);
  void Allow(uint32_t key, void* data, size_t size, transport::Access access);
  // False if the key is not in use.
  bool Invalidate(uint32_t key);
  // The memory that the peer names, or null if it may not.
  char* Find(transport::RemoteBuffer buffer, size_t size,
             transport::Access need) const;
  MemcpyEndpoint* end(int side) const { return ends_[side]; }
  void EndIsGone(int side) { ends_[side] = nullptr; }

 private:
  const transport::Capabilities capabilities_;
  std::vector<Grant> grants_;
  std::vector<uint32_t> free_keys_;
  std::array<MemcpyEndpoint*, 2> ends_ = {};
};

}  // namespace skiff::protocol

#endif  // SKIFF_BENCH_PROTOCOL_MEMCPY_DEVICE_H_
