#include "testing/datamover_conformance/holding_backend.h"

#include <algorithm>

namespace skiff::protocol {

class HoldingBackend::Channel final : public scsi::BackendChannel {
 public:
  Channel(HoldingBackend* backend, transport::Reactor* reactor)
      : backend_(backend), reactor_(reactor) {}

  bool Submit(scsi::IoRequest* request) override {
    if (backend_->Keep(reactor_, request)) return false;
    backend_->Execute(request);
    return true;
  }

 private:
  HoldingBackend* const backend_;
  transport::Reactor* const reactor_;
};

HoldingBackend::HoldingBackend(uint64_t size_bytes) : bytes_(size_bytes) {
  info_.description = "a medium that holds requests";
  info_.size_bytes = size_bytes;
}

void HoldingBackend::Hold() {
  const std::lock_guard lock(mutex_);
  holds_ = true;
}

void HoldingBackend::Release() {
  const std::lock_guard lock(mutex_);
  holds_ = false;
  for (const auto& [reactor, request] : std::exchange(held_, {})) {
    reactor->Post([this, request = request] {
      Execute(request);
      request->done(request);
    });
  }
}

size_t HoldingBackend::held() const {
  const std::lock_guard lock(mutex_);
  return held_.size();
}

absl::StatusOr<std::unique_ptr<scsi::BackendChannel>>
HoldingBackend::OpenChannel(transport::Reactor* reactor) {
  return std::make_unique<Channel>(this, reactor);
}

bool HoldingBackend::Keep(transport::Reactor* reactor,
                          scsi::IoRequest* request) {
  const std::lock_guard lock(mutex_);
  if (holds_) held_.emplace_back(reactor, request);
  return holds_;
}

void HoldingBackend::Execute(scsi::IoRequest* request) {
  using Op = scsi::IoRequest::Op;
  const std::lock_guard lock(mutex_);
  if (request->op != Op::kRead && request->op != Op::kWrite) {
    request->status = scsi::IoStatus::kNotSupported;
    return;
  }
  request->status = scsi::IoStatus::kOk;
  char* at = bytes_.data() + request->offset;
  for (int i = 0; i < request->iov_count; ++i) {
    auto* data = static_cast<char*>(request->iov[i].iov_base);
    const size_t size = request->iov[i].iov_len;
    if (request->op == Op::kRead) {
      std::copy_n(at, size, data);
    } else {
      std::copy_n(data, size, at);
    }
    at += size;
  }
}

}  // namespace skiff::protocol
