#include "scsi/backend/file_channel.h"

#include <fcntl.h>
#include <linux/falloc.h>

#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scsi/backend/file_channel_test_util.h"
#include "testing/refusing_memory.h"

namespace skiff::scsi {
namespace {

using ::testing::HasSubstr;
using Op = IoRequest::Op;

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
  for (size_t i = 0; i < kFileSize; ++i) {
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

TEST_F(FileChannelTest, ReachesAsFarAsTheMediumGoesJustNow) {
  constexpr uint64_t kHalf = kFileSize / 2;
  TestRequest under_way(Op::kWrite, kHalf, 1024, std::string(1024, 'w'));
  under_way.fua = true;
  EXPECT_FALSE(channel_->Submit(&under_way));
  std::vector<std::unique_ptr<TestRequest>> low;
  for (int i = 0; i < 3; ++i) {
    low.push_back(std::make_unique<TestRequest>(Op::kRead, 0, 512,
                                                std::string(512, '?')));
    EXPECT_FALSE(channel_->Submit(low.back().get()));
  }
  TestRequest waits(Op::kRead, kHalf, 512, std::string(512, '?'));
  EXPECT_FALSE(channel_->Submit(&waits));
  TestRequest waits_low(Op::kRead, 0, 512, std::string(512, '?'));
  EXPECT_FALSE(channel_->Submit(&waits_low));

  ASSERT_TRUE(medium_->Resize(kHalf).ok());
  engine_->End(100);
  EXPECT_EQ(under_way.status, IoStatus::kWriteError);
  EXPECT_EQ(under_way.error_offset, kHalf + 100);
  EXPECT_THAT(under_way.reason, HasSubstr("not within the medium"));
  EXPECT_FALSE(medium_->data_lost()) << "no more than was written";
  EXPECT_EQ(waits.completions, 1);
  EXPECT_EQ(waits.status, IoStatus::kReadError);
  engine_->EndAll();
  EXPECT_EQ(waits_low.completions, 1);
  EXPECT_EQ(waits_low.status, IoStatus::kOk);
  TestRequest late(Op::kWrite, kHalf, 512, std::string(512, 'w'));
  EXPECT_TRUE(channel_->Submit(&late));
  EXPECT_EQ(late.status, IoStatus::kWriteError);

  ASSERT_TRUE(medium_->Resize(kFileSize).ok());
  EXPECT_FALSE(channel_->Submit(&late));
  engine_->EndAll();
  EXPECT_EQ(late.status, IoStatus::kOk);
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
  engine_->End(kFileSize);
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
  engine_->End(kFileSize);
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
  TestRequest beyond(Op::kRead, kFileSize - 512, 1024, std::string(1024, '?'));
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
