#ifndef SKIFF_SCSI_BACKEND_FILE_CHANNEL_TEST_UTIL_H_
#define SKIFF_SCSI_BACKEND_FILE_CHANNEL_TEST_UTIL_H_

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "scsi/backend/file_channel.h"
#include "scsi/backend/file_test_util.h"
#include "scsi/iovec_cursor.h"

// A channel over a file in a string, whose calls end when a test says so.

namespace skiff::scsi {

inline constexpr uint64_t kFileSize = 1u << 20;

// A file in a string, whose calls end when and how the test says.
class FakeEngine : public FileEngine {
 public:
  explicit FakeEngine(Sink* sink) : sink_(sink), content_(kFileSize, '\0') {}

  void Start(FileCall* call) override { pending_.push_back(call); }

  size_t pending() const { return pending_.size(); }
  const FileCall& front() const { return *pending_.front(); }
  // Ends the oldest call with an error, or after at most `limit` bytes.
  void End(int64_t limit) {
    FileCall* call = pending_.front();
    pending_.pop_front();
    sink_->OnCallDone(call, limit < 0 ? limit : Carry(*call, limit));
  }
  // The newest.
  void EndLast(int64_t limit) {
    FileCall* call = pending_.back();
    pending_.pop_back();
    sink_->OnCallDone(call, limit < 0 ? limit : Carry(*call, limit));
  }
  void EndAll() {
    while (!pending_.empty()) End(kFileSize);
  }
  std::string& content() { return content_; }

 private:
  int64_t Carry(const FileCall& call, uint64_t limit) {
    auto* at = reinterpret_cast<uint8_t*>(content_.data()) + call.offset;
    IovecCursor iov(call.iov, call.iov_count);
    switch (call.kind) {
      case FileCall::Kind::kRead:
        return static_cast<int64_t>(iov.CopyFrom(
            at, std::min(limit, TotalLength(call.iov, call.iov_count))));
      case FileCall::Kind::kWrite:
        return static_cast<int64_t>(iov.CopyTo(
            at, std::min(limit, TotalLength(call.iov, call.iov_count))));
      case FileCall::Kind::kAllocate:
        std::memset(at, 0, call.length);
        return 0;
      case FileCall::Kind::kSync:
        return 0;
    }
    return -EINVAL;
  }

  Sink* sink_;
  std::deque<FileCall*> pending_;
  std::string content_;
};

// A request with its memory.
struct TestRequest : IoRequest {
  TestRequest(IoRequest::Op op_arg, uint64_t offset_arg, uint64_t length_arg,
              std::string data_arg = "")
      : data(std::move(data_arg)), element{data.data(), data.size()} {
    op = op_arg;
    offset = offset_arg;
    length = length_arg;
    iov = &element;
    iov_count = 1;
    done = [](IoRequest* request) {
      ++static_cast<TestRequest*>(request)->completions;
    };
  }
  TestRequest(const TestRequest&) = delete;
  TestRequest& operator=(const TestRequest&) = delete;

  std::string data;
  iovec element;
  int completions = 0;
};

class FileChannelTest : public ::testing::Test {
 protected:
  explicit FileChannelTest(uint32_t max_requests = 4) {
    FileBackendOptions options;
    options.path = file_.path();
    options.size_bytes = kFileSize;
    auto medium = FileMedium::Open(options);
    EXPECT_TRUE(medium.ok()) << medium.status();
    medium_ = *medium;
    channel_ = std::make_unique<FileChannel>(medium_, max_requests, -1);
    auto engine = std::make_unique<FakeEngine>(channel_.get());
    engine_ = engine.get();
    channel_->SetEngine(std::move(engine));
  }

  void Fill(char c) { engine_->content().assign(kFileSize, c); }

  TemporaryFile file_{"file_channel_test"};
  std::shared_ptr<FileMedium> medium_;
  std::unique_ptr<FileChannel> channel_;
  FakeEngine* engine_ = nullptr;
};

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_BACKEND_FILE_CHANNEL_TEST_UTIL_H_
