#ifndef SKIFF_TESTING_DATAMOVER_CONFORMANCE_HOLDING_BACKEND_H_
#define SKIFF_TESTING_DATAMOVER_CONFORMANCE_HOLDING_BACKEND_H_

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "scsi/backend/backend.h"
#include "transport/reactor/reactor.h"

namespace skiff::protocol {

// A medium that lets the requests of many reactors wait until a test, on a
// thread of its own, lets them go.
class HoldingBackend final : public scsi::Backend {
 public:
  explicit HoldingBackend(uint64_t size_bytes);

  // Thread-safe. What is held then goes on, on its reactors.
  void Hold();
  void Release();
  size_t held() const;

  scsi::BackendInfo info() const override { return info_; }
  absl::StatusOr<std::unique_ptr<scsi::BackendChannel>> OpenChannel(
      transport::Reactor* reactor) override;

 private:
  class Channel;

  // Whether it is held.
  bool Keep(transport::Reactor* reactor, scsi::IoRequest* request);
  void Execute(scsi::IoRequest* request);

  scsi::BackendInfo info_;
  mutable std::mutex mutex_;  // For all below.
  std::vector<char> bytes_;
  bool holds_ = false;
  std::vector<std::pair<transport::Reactor*, scsi::IoRequest*>> held_;
};

}  // namespace skiff::protocol

#endif  // SKIFF_TESTING_DATAMOVER_CONFORMANCE_HOLDING_BACKEND_H_
