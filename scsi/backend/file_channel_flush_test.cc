// What a file's channel makes of flushes, and of what fails before them.

#include <cerrno>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scsi/backend/file_channel_test_util.h"

namespace skiff::scsi {
namespace {

using ::testing::HasSubstr;
using Op = IoRequest::Op;

class FileChannelFlushTest : public FileChannelTest {};

TEST_F(FileChannelFlushTest, FailedFlushStaysFailed) {
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
TEST_F(FileChannelFlushTest, FlushUnderWayFailsWithAnother) {
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
TEST_F(FileChannelFlushTest, FailedFuaWriteFailsLaterFlushes) {
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

TEST_F(FileChannelFlushTest, LackOfSpaceDoesNotFailLaterFlushes) {
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

TEST_F(FileChannelFlushTest, LackOfMemoryDoesNotFailLaterFlushes) {
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

TEST_F(FileChannelFlushTest, LackOfMemoryDoesNotHideAnEarlierError) {
  TestRequest write(Op::kWrite, 0, 512, std::string(512, 'w'));
  write.fua = true;
  channel_->Submit(&write);
  engine_->End(-ENOSPC);  // Perhaps for what was written before.
  engine_->End(-ENOMEM);
  EXPECT_EQ(write.completions, 1);
  EXPECT_TRUE(medium_->data_lost());
}

// The kernel tells one of those that run beside each other, and no other.
TEST_F(FileChannelFlushTest, ThoseBesideEachOtherShareAFailure) {
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

TEST_F(FileChannelFlushTest, AFlushWaitsForNoneThatBeginsAfterIt) {
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
TEST_F(FileChannelFlushTest, LackOfSpaceOfEarlierWritesFailsLaterFlushes) {
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

TEST_F(FileChannelFlushTest, TwoErrorsOfOneFuaWriteFailLaterFlushes) {
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
TEST_F(FileChannelFlushTest, FlushesAreJoined) {
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

TEST_F(FileChannelFlushTest, JoinedFlushesFailTogether) {
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

TEST_F(FileChannelFlushTest, FlushesThatWaitForAPlaceAreJoined) {
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

}  // namespace
}  // namespace skiff::scsi
