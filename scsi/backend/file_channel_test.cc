#include "scsi/backend/file_channel.h"

#include <fcntl.h>
#include <linux/falloc.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scsi/backend/file_test_util.h"
#include "scsi/iovec_cursor.h"
#include "testing/refusing_memory.h"

namespace skiff::scsi {
namespace {

using ::testing::HasSubstr;
using Op = IoRequest::Op;

constexpr uint64_t kSize = 1u << 20;

// A file in a string, whose calls end when and how the test says.
class FakeEngine : public FileEngine {
 public:
  explicit FakeEngine(Sink* sink) : sink_(sink), content_(kSize, '\0') {}

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
    while (!pending_.empty()) End(kSize);
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
  TestRequest(Op op_arg, uint64_t offset_arg, uint64_t length_arg,
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
    options.size_bytes = kSize;
    auto medium = FileMedium::Open(options);
    EXPECT_TRUE(medium.ok()) << medium.status();
    medium_ = *medium;
    channel_ = std::make_unique<FileChannel>(medium_, max_requests, -1);
    auto engine = std::make_unique<FakeEngine>(channel_.get());
    engine_ = engine.get();
    channel_->SetEngine(std::move(engine));
  }

  void Fill(char c) { engine_->content().assign(kSize, c); }

  TemporaryFile file_{"file_channel_test"};
  std::shared_ptr<FileMedium> medium_;
  std::unique_ptr<FileChannel> channel_;
  FakeEngine* engine_ = nullptr;
};

TEST_F(FileChannelTest, ContinuesShortTransfers) {
  TestRequest write(Op::kWrite, 512, 1024, std::string(1024, 'w'));
  EXPECT_FALSE(channel_->Submit(&write));
  engine_->End(100);
  engine_->End(1);
  EXPECT_EQ(write.completions, 0);
  EXPECT_EQ(engine_->front().offset, 613u);
  engine_->EndAll();
  EXPECT_EQ(write.completions, 1);
  EXPECT_EQ(write.status, IoStatus::kOk);
  EXPECT_EQ(engine_->content().substr(511, 1026),
            '\0' + std::string(1024, 'w') + '\0');

  TestRequest read(Op::kRead, 512, 1024, std::string(1024, '?'));
  EXPECT_FALSE(channel_->Submit(&read));
  engine_->End(1000);
  engine_->EndAll();
  EXPECT_EQ(read.data, std::string(1024, 'w'));
}

TEST_F(FileChannelTest, ContinuesInScatteredMemory) {
  std::string parts(3000, '?');
  std::vector<iovec> iov;
  for (size_t at = 0; at < parts.size(); at += 10) {
    iov.push_back({parts.data() + at, 10});
  }
  for (size_t i = 0; i < kSize; ++i) {
    engine_->content()[i] = static_cast<char>(i % 251);
  }
  TestRequest read(Op::kRead, 0, 2560);
  read.iov = iov.data();
  read.iov_count = static_cast<int>(iov.size());
  EXPECT_FALSE(channel_->Submit(&read));
  engine_->End(15);
  engine_->EndAll();
  EXPECT_EQ(read.status, IoStatus::kOk);
  EXPECT_EQ(parts.substr(0, 2560), engine_->content().substr(0, 2560));
  EXPECT_EQ(parts.substr(2560), std::string(440, '?')) << "not beyond length";
}

TEST_F(FileChannelTest, RetriesInterruptionsButNotForever) {
  TestRequest read(Op::kRead, 0, 512, std::string(512, '?'));
  EXPECT_FALSE(channel_->Submit(&read));
  engine_->End(-EINTR);
  engine_->End(-EAGAIN);
  engine_->EndAll();
  EXPECT_EQ(read.status, IoStatus::kOk);

  EXPECT_FALSE(channel_->Submit(&read));
  int tries = 0;
  for (; engine_->pending() > 0 && tries < 10000; ++tries) {
    engine_->End(-EAGAIN);
  }
  EXPECT_LT(tries, 1000);
  EXPECT_EQ(read.completions, 2);
  EXPECT_EQ(read.status, IoStatus::kReadError);
}

TEST_F(FileChannelTest, MapsErrorsAndTellsWhere) {
  const struct {
    int error;
    IoStatus read;
    IoStatus write;
  } kCases[] = {
      {EIO, IoStatus::kReadError, IoStatus::kWriteError},
      {ENOSPC, IoStatus::kNoSpace, IoStatus::kNoSpace},
      {EDQUOT, IoStatus::kNoSpace, IoStatus::kNoSpace},
      {ENODEV, IoStatus::kGone, IoStatus::kGone},
      {EOPNOTSUPP, IoStatus::kNotSupported, IoStatus::kNotSupported},
  };
  for (const auto& c : kCases) {
    TestRequest read(Op::kRead, 512, 1024, std::string(1024, '?'));
    TestRequest write(Op::kWrite, 512, 1024, std::string(1024, 'w'));
    channel_->Submit(&read);
    channel_->Submit(&write);
    engine_->End(200);       // The read goes on,
    engine_->End(300);       // the write, too,
    engine_->End(-c.error);  // and fails.
    engine_->End(-c.error);
    EXPECT_EQ(read.status, c.read) << std::strerror(c.error);
    EXPECT_EQ(read.error_offset, 712u);
    EXPECT_EQ(read.system_error, c.error);
    EXPECT_EQ(write.system_error, c.error);
    EXPECT_EQ(write.status, c.write) << std::strerror(c.error);
    EXPECT_EQ(write.error_offset, 812u);
  }
}

TEST_F(FileChannelTest, EarlyEndOfFileIsAnError) {
  TestRequest read(Op::kRead, 0, 1024, std::string(1024, '?'));
  channel_->Submit(&read);
  engine_->End(512);
  engine_->End(0);
  EXPECT_EQ(read.status, IoStatus::kReadError);
  EXPECT_EQ(read.error_offset, 512u);
  EXPECT_THAT(read.reason, HasSubstr("made shorter"));
}

TEST_F(FileChannelTest, FailedFlushStaysFailed) {
  TestRequest flush(Op::kFlush, 0, 0);
  channel_->Submit(&flush);
  EXPECT_EQ(engine_->front().kind, FileCall::Kind::kSync);
  engine_->End(-EIO);
  EXPECT_EQ(flush.status, IoStatus::kWriteError);
  EXPECT_EQ(flush.system_error, EIO);

  EXPECT_TRUE(channel_->Submit(&flush)) << "the kernel would say OK now";
  EXPECT_THAT(flush.reason, HasSubstr("an earlier flush failed"));
  EXPECT_EQ(flush.status, IoStatus::kWriteError);
  TestRequest write(Op::kWrite, 0, 512, std::string(512, 'w'));
  write.fua = true;
  EXPECT_TRUE(channel_->Submit(&write));
  EXPECT_EQ(write.status, IoStatus::kWriteError);
  write.fua = false;
  EXPECT_FALSE(channel_->Submit(&write));
  engine_->EndAll();
  EXPECT_EQ(write.status, IoStatus::kOk);
}

// The kernel tells a lost write once per open file, so that of two fdatasyncs
// at the same time only one fails.
TEST_F(FileChannelTest, FlushUnderWayFailsWithAnother) {
  TestRequest flushes[2] = {{Op::kFlush, 0, 0}, {Op::kFlush, 0, 0}};
  TestRequest fua(Op::kWrite, 512, 512, std::string(512, 'w'));
  fua.fua = true;
  TestRequest write(Op::kWrite, 0, 512, std::string(512, 'w'));
  for (TestRequest& flush : flushes) EXPECT_FALSE(channel_->Submit(&flush));
  EXPECT_FALSE(channel_->Submit(&fua));
  EXPECT_FALSE(channel_->Submit(&write));
  engine_->End(-EIO);
  engine_->EndAll();
  EXPECT_EQ(flushes[0].status, IoStatus::kWriteError);
  EXPECT_EQ(flushes[1].status, IoStatus::kWriteError);
  EXPECT_EQ(fua.status, IoStatus::kWriteError);
  EXPECT_EQ(fua.error_offset, 512u);
  EXPECT_EQ(write.status, IoStatus::kOk);
}

// Writing back fails with what the device said: ENODATA is a medium error.
TEST_F(FileChannelTest, FailedFuaWriteFailsLaterFlushes) {
  TestRequest write(Op::kWrite, 0, 512, std::string(512, 'w'));
  write.fua = true;
  channel_->Submit(&write);
  engine_->End(-ENODATA);
  EXPECT_EQ(write.status, IoStatus::kWriteError);
  TestRequest flush(Op::kFlush, 0, 0);
  channel_->Submit(&flush);
  engine_->EndAll();
  EXPECT_EQ(flush.status, IoStatus::kWriteError);
}

TEST_F(FileChannelTest, LackOfSpaceDoesNotFailLaterFlushes) {
  TestRequest write(Op::kWrite, 0, 512, std::string(512, 'w'));
  write.fua = true;
  channel_->Submit(&write);
  EXPECT_TRUE(engine_->front().dsync);
  engine_->End(-ENOSPC);
  EXPECT_EQ(write.completions, 0);
  EXPECT_FALSE(engine_->front().dsync) << "now only the write itself can fail";
  engine_->End(-ENOSPC);
  EXPECT_EQ(write.status, IoStatus::kNoSpace);
  TestRequest flush(Op::kFlush, 0, 0);
  EXPECT_FALSE(channel_->Submit(&flush));
  engine_->EndAll();
  EXPECT_EQ(flush.status, IoStatus::kOk);
  // The next one is stable again.
  EXPECT_FALSE(channel_->Submit(&write));
  EXPECT_TRUE(engine_->front().dsync);
  engine_->EndAll();
  EXPECT_EQ(write.status, IoStatus::kOk);
}

TEST_F(FileChannelTest, LackOfMemoryDoesNotFailLaterFlushes) {
  for (const int error : {ENOMEM, EAGAIN, EINTR}) {
    TestRequest write(Op::kWrite, 0, 512, std::string(512, 'w'));
    write.fua = true;
    EXPECT_FALSE(channel_->Submit(&write));
    for (int i = 0; i < 1000 && engine_->pending() > 0; ++i) {
      EXPECT_TRUE(engine_->front().dsync);
      engine_->End(-error);
    }
    EXPECT_EQ(write.status, IoStatus::kWriteError) << std::strerror(error);
    EXPECT_EQ(write.system_error, error);
    EXPECT_FALSE(medium_->data_lost()) << std::strerror(error);
  }
}

TEST_F(FileChannelTest, LackOfMemoryDoesNotHideAnEarlierError) {
  TestRequest write(Op::kWrite, 0, 512, std::string(512, 'w'));
  write.fua = true;
  channel_->Submit(&write);
  engine_->End(-ENOSPC);  // Perhaps for what was written before.
  engine_->End(-ENOMEM);
  EXPECT_EQ(write.completions, 1);
  EXPECT_TRUE(medium_->data_lost());
}

// The kernel tells one of those that run beside each other, and no other.
TEST_F(FileChannelTest, ThoseBesideEachOtherShareAFailure) {
  TestRequest first(Op::kFlush, 0, 0);
  TestRequest write(Op::kWrite, 0, 512, std::string(512, 'w'));
  write.fua = true;
  TestRequest last(Op::kWrite, 512, 512, std::string(512, 'w'));
  last.fua = true;
  channel_->Submit(&last);
  channel_->Submit(&write);
  channel_->Submit(&first);
  engine_->EndLast(0);
  engine_->EndLast(512);
  EXPECT_EQ(first.completions, 0) << "one that began earlier may fail";
  EXPECT_EQ(write.completions, 0);
  engine_->EndLast(-EIO);
  for (const TestRequest* request : {&first, &write, &last}) {
    EXPECT_EQ(request->completions, 1);
    EXPECT_EQ(request->status, IoStatus::kWriteError);
  }
  EXPECT_THAT(first.reason, HasSubstr("an earlier flush failed"));
}

TEST_F(FileChannelTest, AFlushWaitsForNoneThatBeginsAfterIt) {
  const auto fua = [] {
    auto write = std::make_unique<TestRequest>(Op::kWrite, 0, 512,
                                               std::string(512, 'w'));
    write->fua = true;
    return write;
  };
  const auto slow = fua();
  TestRequest quick(Op::kFlush, 0, 0);
  const auto late = fua();
  channel_->Submit(slow.get());
  channel_->Submit(&quick);
  engine_->EndLast(0);  // The quick one.
  channel_->Submit(late.get());
  EXPECT_EQ(quick.completions, 0);
  engine_->End(512);  // The slow one.
  EXPECT_EQ(quick.completions, 1);
  EXPECT_EQ(quick.status, IoStatus::kOk);
  EXPECT_EQ(slow->completions, 0) << "it ran beside the late one";
  engine_->End(512);
  EXPECT_EQ(slow->completions, 1);
  EXPECT_EQ(late->completions, 1);
  EXPECT_EQ(late->status, IoStatus::kOk);
}

// The device ran full when an earlier write was written back, and the kernel
// says so once, to the first who syncs.
TEST_F(FileChannelTest, LackOfSpaceOfEarlierWritesFailsLaterFlushes) {
  TestRequest write(Op::kWrite, 0, 512, std::string(512, 'w'));
  write.fua = true;
  channel_->Submit(&write);
  engine_->End(-ENOSPC);
  engine_->EndAll();  // The write itself finds room.
  EXPECT_EQ(write.completions, 1);
  EXPECT_EQ(write.status, IoStatus::kNoSpace);
  EXPECT_EQ(write.system_error, ENOSPC);
  TestRequest flush(Op::kFlush, 0, 0);
  EXPECT_TRUE(channel_->Submit(&flush)) << "the kernel would say OK now";
  EXPECT_EQ(flush.status, IoStatus::kWriteError);
}

TEST_F(FileChannelTest, TwoErrorsOfOneFuaWriteFailLaterFlushes) {
  TestRequest write(Op::kWrite, 0, 512, std::string(512, 'w'));
  write.fua = true;
  channel_->Submit(&write);
  engine_->End(-ENOSPC);
  engine_->End(-EIO);
  EXPECT_EQ(write.status, IoStatus::kWriteError);
  TestRequest flush(Op::kFlush, 0, 0);
  EXPECT_TRUE(channel_->Submit(&flush));
  EXPECT_EQ(flush.status, IoStatus::kWriteError);
}

// However many come: one is under way, and those that come meanwhile share the
// next, which begins after they came.
TEST_F(FileChannelTest, FlushesAreJoined) {
  std::deque<TestRequest> flushes;
  const auto submit = [&] {
    EXPECT_FALSE(channel_->Submit(&flushes.emplace_back(Op::kFlush, 0, 0)));
  };
  const auto completed = [&] {
    return std::count_if(
        flushes.begin(), flushes.end(),
        [](const TestRequest& flush) { return flush.completions == 1; });
  };
  for (int i = 0; i < 64; ++i) submit();
  EXPECT_EQ(engine_->pending(), 1u);
  TestRequest read(Op::kRead, 0, 512, std::string(512, '?'));
  EXPECT_FALSE(channel_->Submit(&read));
  EXPECT_EQ(engine_->pending(), 2u) << "they take no more than two places";
  engine_->End(0);
  EXPECT_EQ(completed(), 1);
  EXPECT_EQ(engine_->pending(), 2u);
  for (int i = 0; i < 36; ++i) submit();
  EXPECT_EQ(engine_->pending(), 2u);
  engine_->EndLast(0);
  EXPECT_EQ(completed(), 64);
  engine_->EndLast(0);
  EXPECT_EQ(completed(), 100);
  engine_->End(512);
  EXPECT_EQ(engine_->pending(), 0u);
  for (const TestRequest& flush : flushes) {
    EXPECT_EQ(flush.completions, 1);
    EXPECT_EQ(flush.status, IoStatus::kOk);
  }
}

TEST_F(FileChannelTest, JoinedFlushesFailTogether) {
  std::deque<TestRequest> flushes;
  for (int i = 0; i < 5; ++i) {
    channel_->Submit(&flushes.emplace_back(Op::kFlush, 0, 0));
  }
  engine_->End(0);
  EXPECT_EQ(flushes[0].status, IoStatus::kOk);
  TestRequest late(Op::kFlush, 0, 0);
  channel_->Submit(&late);
  engine_->End(-EIO);
  for (int i = 1; i < 5; ++i) {
    EXPECT_EQ(flushes[i].completions, 1);
    EXPECT_EQ(flushes[i].status, IoStatus::kWriteError);
    EXPECT_EQ(flushes[i].system_error, EIO);
  }
  engine_->EndAll();
  EXPECT_EQ(late.completions, 1);
  EXPECT_EQ(late.status, IoStatus::kWriteError) << "data were lost before";
}

TEST_F(FileChannelTest, FlushesThatWaitForAPlaceAreJoined) {
  std::deque<TestRequest> reads;
  for (int i = 0; i < 4; ++i) {
    channel_->Submit(
        &reads.emplace_back(Op::kRead, 0, 512, std::string(512, '?')));
  }
  std::deque<TestRequest> flushes;
  for (int i = 0; i < 10; ++i) {
    channel_->Submit(&flushes.emplace_back(Op::kFlush, 0, 0));
  }
  TestRequest last(Op::kRead, 0, 512, std::string(512, '?'));
  channel_->Submit(&last);
  int syncs = 0;
  while (engine_->pending() > 0) {
    if (engine_->front().kind == FileCall::Kind::kSync) ++syncs;
    engine_->End(512);
  }
  EXPECT_EQ(syncs, 2);
  for (const TestRequest& flush : flushes) EXPECT_EQ(flush.completions, 1);
  EXPECT_EQ(last.completions, 1);
}

TEST_F(FileChannelTest, RequestsBeyondTheDepthWaitInOrder) {
  std::deque<TestRequest> requests;
  std::vector<uint64_t> order;
  for (uint64_t i = 0; i < 10; ++i) {
    TestRequest& request =
        requests.emplace_back(Op::kRead, 512 * i, 512, std::string(512, '?'));
    request.context = &order;
    request.done = [](IoRequest* r) {
      static_cast<std::vector<uint64_t>*>(r->context)->push_back(r->offset);
    };
    EXPECT_FALSE(channel_->Submit(&request));
  }
  EXPECT_EQ(engine_->pending(), 4u);
  engine_->End(kSize);
  EXPECT_EQ(engine_->pending(), 4u) << "the fifth takes the place";
  engine_->EndAll();
  ASSERT_EQ(order.size(), 10u);
  for (uint64_t i = 0; i < 10; ++i) EXPECT_EQ(order[i], 512 * i);
}

TEST_F(FileChannelTest, WhatWaitsCanBeTakenBack) {
  std::deque<TestRequest> requests;
  const auto submit = [&] {
    TestRequest& request = requests.emplace_back(
        Op::kRead, 512 * requests.size(), 512, std::string(512, '?'));
    EXPECT_FALSE(channel_->Submit(&request));
  };
  for (int i = 0; i < 8; ++i) submit();
  EXPECT_FALSE(channel_->Cancel(&requests[0])) << "the system has it";
  // The first, one between, and the last of those that wait.
  for (const size_t i : {4u, 6u, 7u}) {
    EXPECT_TRUE(channel_->Cancel(&requests[i]));
    EXPECT_FALSE(channel_->Cancel(&requests[i])) << "it is not there any more";
  }
  submit();
  engine_->End(kSize);
  EXPECT_FALSE(channel_->Cancel(&requests[5])) << "it has waited";
  engine_->EndAll();
  std::vector<int> completions;
  for (const TestRequest& r : requests) completions.push_back(r.completions);
  EXPECT_EQ(completions, (std::vector<int>{1, 1, 1, 1, 0, 1, 0, 0, 1}));
}

TEST_F(FileChannelTest, CompletionMaySubmitAgain) {
  TestRequest request(Op::kRead, 0, 512, std::string(512, '?'));
  struct Again {
    FileChannel* channel;
    int left;
  } again = {channel_.get(), 5};
  request.context = &again;
  request.done = [](IoRequest* r) {
    auto* a = static_cast<Again*>(r->context);
    if (a->left-- > 0) {
      EXPECT_FALSE(a->channel->Submit(r));
    }
  };
  EXPECT_FALSE(channel_->Submit(&request));
  engine_->EndAll();
  EXPECT_EQ(again.left, -1);
}

TEST_F(FileChannelTest, WriteZeroesFindsAWay) {
  Fill('x');
  TestRequest zero(Op::kWriteZeroes, 512, 512 * 1024);
  zero.may_unmap = true;
  channel_->Submit(&zero);
  EXPECT_EQ(engine_->front().mode, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE);
  engine_->End(-EOPNOTSUPP);
  EXPECT_EQ(engine_->front().mode, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE);
  engine_->End(-EOPNOTSUPP);
  EXPECT_EQ(engine_->front().kind, FileCall::Kind::kWrite);
  engine_->End(100000);  // Short: continues.
  engine_->EndAll();
  EXPECT_EQ(zero.status, IoStatus::kOk);
  EXPECT_EQ(engine_->content().substr(511, 512 * 1024 + 2),
            'x' + std::string(512 * 1024, '\0') + 'x');

  // That the range cannot be zeroed is remembered.
  zero.may_unmap = false;
  zero.fua = true;
  channel_->Submit(&zero);
  EXPECT_EQ(engine_->front().kind, FileCall::Kind::kWrite);
  EXPECT_TRUE(engine_->front().dsync);
  engine_->EndAll();
  EXPECT_EQ(zero.status, IoStatus::kOk) << "a detour is not an error";
}

TEST_F(FileChannelTest, WriteZeroesWithFuaSyncs) {
  TestRequest zero(Op::kWriteZeroes, 0, 4096);
  zero.fua = true;
  channel_->Submit(&zero);
  EXPECT_EQ(engine_->front().mode, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE);
  engine_->End(0);
  ASSERT_EQ(engine_->pending(), 1u);
  EXPECT_EQ(engine_->front().kind, FileCall::Kind::kSync);
  EXPECT_EQ(zero.completions, 0);
  engine_->EndAll();
  EXPECT_EQ(zero.completions, 1);
}

TEST_F(FileChannelTest, UnmapThatTheFileSystemRefusesIsReported) {
  ASSERT_TRUE(medium_->info().thin)
      << "the test's directory cannot punch holes";
  TestRequest unmap(Op::kUnmap, 0, 4096);
  channel_->Submit(&unmap);
  engine_->End(-EOPNOTSUPP);
  EXPECT_EQ(unmap.status, IoStatus::kNotSupported);
}

TEST_F(FileChannelTest, CompareAndWriteComparesEverythingFirst) {
  constexpr uint64_t kLength = 300 * 1024;  // More than one bounce buffer.
  Fill('a');
  TestRequest request(Op::kCompareAndWrite, 4096, kLength,
                      std::string(kLength, 'a') + std::string(kLength, 'b'));
  channel_->Submit(&request);
  engine_->End(1000);
  engine_->EndAll();
  EXPECT_EQ(request.status, IoStatus::kOk);
  EXPECT_EQ(engine_->content().substr(4095, kLength + 2),
            'a' + std::string(kLength, 'b') + 'a');

  engine_->content()[4096 + kLength - 1] = 'X';
  TestRequest miss(Op::kCompareAndWrite, 4096, kLength,
                   std::string(kLength, 'b') + std::string(kLength, 'c'));
  channel_->Submit(&miss);
  engine_->EndAll();
  EXPECT_EQ(miss.status, IoStatus::kMiscompare);
  EXPECT_EQ(miss.error_offset, 4096 + kLength - 1);
  EXPECT_EQ(engine_->content()[4096], 'b') << "unchanged";
}

TEST_F(FileChannelTest, WithoutMemoryForABufferItSaysSo) {
  skiff::testing::RefuseEvery(1);
  TestRequest refused(Op::kCompareAndWrite, 0, 512, std::string(1024, 'a'));
  EXPECT_TRUE(channel_->Submit(&refused));
  EXPECT_EQ(refused.status, IoStatus::kNoMemory);
  EXPECT_THAT(refused.reason, HasSubstr("no memory"));
  // Those that wait for their turn, too; and the next of them has it then.
  std::deque<TestRequest> running;
  for (int i = 0; i < 4; ++i) {
    running.emplace_back(Op::kWrite, 0, 512, std::string(512, 'w'));
    EXPECT_FALSE(channel_->Submit(&running.back()));
  }
  TestRequest waiting(Op::kCompareAndWrite, 0, 512, std::string(1024, 'a'));
  TestRequest next(Op::kWrite, 512, 512, std::string(512, 'n'));
  EXPECT_FALSE(channel_->Submit(&waiting));
  EXPECT_FALSE(channel_->Submit(&next));
  engine_->EndAll();
  EXPECT_EQ(waiting.completions, 1);
  EXPECT_EQ(waiting.status, IoStatus::kNoMemory);
  EXPECT_EQ(next.completions, 1);
  EXPECT_EQ(next.status, IoStatus::kOk);
  skiff::testing::RefuseEvery(0);
  TestRequest again(Op::kCompareAndWrite, 0, 512,
                    std::string(512, 'w') + std::string(512, 'b'));
  EXPECT_FALSE(channel_->Submit(&again));
  engine_->EndAll();
  EXPECT_EQ(again.status, IoStatus::kOk);
}

TEST_F(FileChannelTest, RefusesWhatDoesNotFit) {
  TestRequest beyond(Op::kRead, kSize - 512, 1024, std::string(1024, '?'));
  EXPECT_TRUE(channel_->Submit(&beyond));
  EXPECT_EQ(beyond.status, IoStatus::kReadError);
  TestRequest wrapped(Op::kWrite, ~uint64_t{511}, 1024, std::string(1024, '?'));
  EXPECT_TRUE(channel_->Submit(&wrapped));
  EXPECT_EQ(wrapped.status, IoStatus::kWriteError);
  TestRequest no_memory(Op::kWrite, 0, 1024, std::string(512, '?'));
  EXPECT_TRUE(channel_->Submit(&no_memory));
  EXPECT_EQ(no_memory.status, IoStatus::kWriteError);
  TestRequest empty(Op::kRead, 0, 0);
  EXPECT_TRUE(channel_->Submit(&empty));
  EXPECT_EQ(empty.status, IoStatus::kOk);
  EXPECT_EQ(engine_->pending(), 0u);
}

}  // namespace
}  // namespace skiff::scsi
