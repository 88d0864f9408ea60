#ifndef SKIFF_TOOLS_LIBRARY_CALLBACK_BACKEND_H_
#define SKIFF_TOOLS_LIBRARY_CALLBACK_BACKEND_H_

#include <skiff/backend.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "scsi/backend/backend.h"
#include "tools/library/request_table.h"
#include "transport/reactor/reactor.h"

namespace skiff::library {

// A medium that a program in C provides, by callbacks.
class CallbackBackend : public scsi::Backend {
 public:
  // `memory`: the whole medium, or null. `user` is for the callbacks. Requests
  // are told on which of `reactors` they came.
  CallbackBackend(const skiff_backend_ops& ops, void* user, void* memory,
                  scsi::BackendInfo info,
                  std::vector<transport::Reactor*> reactors);

  scsi::BackendInfo info() const override;
  absl::StatusOr<std::unique_ptr<scsi::BackendChannel>> OpenChannel(
      transport::Reactor* reactor) override;
  uint8_t* direct_memory() override { return memory_; }
  scsi::ProvisioningExtent ProvisioningAt(uint64_t offset) override;
  void Unused() override;

  // Errors say why the medium cannot have this size. Whoever serves it has to
  // be told afterwards.
  absl::Status SetSize(uint64_t size_bytes);

  RequestTable& requests() { return requests_; }

 private:
  friend class CallbackChannel;

  uint32_t ThreadOf(const transport::Reactor* reactor) const;

  const skiff_backend_ops ops_;
  void* const user_;
  uint8_t* const memory_;
  const std::vector<transport::Reactor*> reactors_;
  mutable std::mutex mutex_;
  scsi::BackendInfo info_;  // Under `mutex_`.
  RequestTable requests_;
};

}  // namespace skiff::library

#endif  // SKIFF_TOOLS_LIBRARY_CALLBACK_BACKEND_H_
