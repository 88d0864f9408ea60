#ifndef SKIFF_SCSI_TARGET_TESTING_BACKEND_H_
#define SKIFF_SCSI_TARGET_TESTING_BACKEND_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "scsi/backend/backend.h"

namespace skiff::scsi::testing {

// A medium without direct memory, whose I/O ends when the test says so, and as
// it says.
class TestBackend : public Backend {
 public:
  enum class Completion {
    kInline,  // Submit() returns true.
    kPosted,  // In a later turn of the channel's reactor.
    kHeld,    // By CompleteHeld().
  };
  // What comes of cancelling a request that is held.
  enum class Cancellation {
    kNothing,    // It goes on.
    kTakenBack,  // At once.
    kCutShort,   // By CompleteHeld(), without being done.
  };
  struct Failure {
    IoRequest::Op op;
    IoStatus status;
    uint64_t offset;
    int system_error = 0;
  };

  explicit TestBackend(const BackendInfo& info);

  BackendInfo info() const override {
    const std::lock_guard<std::mutex> lock(info_mutex_);
    return info_;
  }
  absl::StatusOr<std::unique_ptr<BackendChannel>> OpenChannel(
      transport::Reactor* reactor) override;
  ProvisioningExtent ProvisioningAt(uint64_t offset) override;
  void Unused() override { unused_with_channels.push_back(channels); }

  // --- For the test; while no other thread uses the medium.
  Completion completion = Completion::kPosted;
  Cancellation cancellation = Cancellation::kNothing;
  bool refuse_channels = false;
  // The next request of this kind fails.
  std::optional<Failure> failure;
  // Kinds that are answered with kNotSupported.
  bool supports_write_zeroes = true;
  bool keep_log = true;
  std::vector<IoRequest::Op> log;  // Every request.
  int fua_requests = 0;

  std::vector<uint8_t>& bytes() { return bytes_; }
  void Resize(uint64_t size_bytes);
  // Without its sizes; on any thread, at any time.
  void SetInfo(const BackendInfo& info);
  std::atomic<int> channels = 0;  // That are open.
  // What `channels` was each time that nobody served it any more.
  std::vector<int> unused_with_channels;
  size_t held() const { return held_.size(); }
  // Returns how many requests ended.
  size_t CompleteHeld();

 private:
  class Channel;

  void Execute(IoRequest* request);
  bool Cancel(IoRequest* request);

  mutable std::mutex info_mutex_;
  BackendInfo info_;  // Its sizes are read without the mutex, too.
  std::vector<uint8_t> bytes_;
  std::vector<bool> mapped_;  // By block.
  std::deque<IoRequest*> held_;
  std::set<IoRequest*> cut_short_;  // Of `held_`.
};

// 512-byte blocks, `blocks` of them, thin.
BackendInfo ThinInfo(uint64_t blocks);

}  // namespace skiff::scsi::testing

#endif  // SKIFF_SCSI_TARGET_TESTING_BACKEND_H_
