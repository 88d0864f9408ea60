#include "scsi/target/testing_backend.h"

#include <algorithm>
#include <cstring>

#include "absl/status/status.h"

namespace skiff::scsi::testing {

class TestBackend::Channel : public BackendChannel {
 public:
  Channel(TestBackend* backend, transport::Reactor* reactor)
      : backend_(backend), reactor_(reactor) {
    ++backend_->channels;
  }
  ~Channel() override { --backend_->channels; }

  bool Submit(IoRequest* request) override {
    switch (backend_->completion) {
      case Completion::kInline:
        backend_->Execute(request);
        return true;
      case Completion::kPosted:
        reactor_->Post([backend = backend_, request] {
          backend->Execute(request);
          request->done(request);
        });
        return false;
      case Completion::kHeld:
        backend_->held_.push_back(request);
        return false;
    }
    return false;
  }
  bool Cancel(IoRequest* request) override { return backend_->Cancel(request); }

 private:
  TestBackend* const backend_;
  transport::Reactor* const reactor_;
};

TestBackend::TestBackend(const BackendInfo& info)
    : info_(info),
      bytes_(info.size_bytes),
      mapped_(info.size_bytes / info.block_size, !info.thin) {}

void TestBackend::Resize(uint64_t size_bytes) {
  {
    const std::lock_guard<std::mutex> lock(info_mutex_);
    info_.size_bytes = size_bytes;
  }
  bytes_.resize(size_bytes);
  mapped_.resize(size_bytes / info_.block_size);
}

void TestBackend::SetInfo(const BackendInfo& info) {
  const std::lock_guard<std::mutex> lock(info_mutex_);
  info_.description = info.description;
  info_.read_only = info.read_only;
  info_.volatile_write_cache = info.volatile_write_cache;
  info_.thin = info.thin;
  info_.unmap_granularity_bytes = info.unmap_granularity_bytes;
  info_.rotational = info.rotational;
  info_.identity = info.identity;
}

absl::StatusOr<std::unique_ptr<BackendChannel>> TestBackend::OpenChannel(
    transport::Reactor* reactor) {
  if (refuse_channels) return absl::UnavailableError("refused by the test");
  return std::make_unique<Channel>(this, reactor);
}

size_t TestBackend::CompleteHeld() {
  std::deque<IoRequest*> requests;
  requests.swap(held_);
  for (IoRequest* request : requests) {
    if (cut_short_.erase(request) > 0) {
      request->status = IoStatus::kCancelled;
    } else {
      Execute(request);
    }
    request->done(request);
  }
  return requests.size();
}

bool TestBackend::Cancel(IoRequest* request) {
  const auto found = std::find(held_.begin(), held_.end(), request);
  if (found == held_.end()) return false;
  switch (cancellation) {
    case Cancellation::kNothing:
      return false;
    case Cancellation::kTakenBack:
      held_.erase(found);
      return true;
    case Cancellation::kCutShort:
      cut_short_.insert(request);
      return false;
  }
  return false;
}

ProvisioningExtent TestBackend::ProvisioningAt(uint64_t offset) {
  const uint64_t first = offset / info_.block_size;
  uint64_t end = first;
  while (end < mapped_.size() && mapped_[end] == mapped_[first]) ++end;
  return {(end - first) * info_.block_size, mapped_[first]};
}

void TestBackend::Execute(IoRequest* request) {
  using Op = IoRequest::Op;
  if (keep_log) log.push_back(request->op);
  if (request->fua) ++fua_requests;
  request->status = IoStatus::kOk;
  if (failure.has_value() && failure->op == request->op) {
    request->status = failure->status;
    request->error_offset = failure->offset;
    request->system_error = failure->system_error;
    failure.reset();
    return;
  }
  uint8_t* at = bytes_.data() + request->offset;
  const uint64_t length = request->length;
  const bool unmaps = request->op == Op::kUnmap ||
                      (request->op == Op::kWriteZeroes && request->may_unmap);
  switch (request->op) {
    case Op::kRead:
      std::memcpy(request->iov[0].iov_base, at, length);
      return;
    case Op::kFlush:
      return;
    case Op::kWrite:
      std::memcpy(at, request->iov[0].iov_base, length);
      break;
    case Op::kWriteZeroes:
      if (!supports_write_zeroes) {
        request->status = IoStatus::kNotSupported;
        return;
      }
      [[fallthrough]];
    case Op::kUnmap:
      std::memset(at, 0, length);
      break;
    case Op::kCompareAndWrite: {
      const uint8_t* data =
          static_cast<const uint8_t*>(request->iov[0].iov_base);
      const auto [mine, theirs] = std::mismatch(at, at + length, data);
      if (mine != at + length) {
        request->status = IoStatus::kMiscompare;
        request->error_offset = static_cast<uint64_t>(mine - bytes_.data());
        return;
      }
      std::memcpy(at, data + length, length);
      break;
    }
  }
  const uint64_t first = request->offset / info_.block_size;
  for (uint64_t i = first; i < first + length / info_.block_size; ++i) {
    mapped_[i] = !unmaps;
  }
}

BackendInfo ThinInfo(uint64_t blocks) {
  BackendInfo info;
  info.description = "a test's medium";
  info.size_bytes = blocks * 512;
  info.block_size = 512;
  info.physical_block_size = 512;
  info.thin = true;
  info.unmap_granularity_bytes = 512;
  return info;
}

}  // namespace skiff::scsi::testing
