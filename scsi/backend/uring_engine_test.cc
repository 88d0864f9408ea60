// What the kernel is given of writes to the page cache while others are active
// on the reactor.

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scsi/backend/file_engine.h"
#include "scsi/backend/file_test_util.h"
#include "transport/reactor/epoll_reactor.h"
#include "transport/reactor/turn_shares.h"

namespace skiff::scsi {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using transport::TurnShares;

constexpr size_t kAtOnce = 256 << 10;
constexpr uint32_t kMaxCalls = 32;

// A call with its memory, and how it ended.
struct Call : FileCall {
  Call(Kind what, uint64_t at, std::string bytes)
      : data(std::move(bytes)), element{data.data(), data.size()} {
    kind = what;
    offset = at;
    iov = &element;
    iov_count = 1;
  }
  std::string data;
  iovec element;
};

class UringEngineTest : public ::testing::Test, private FileEngine::Sink {
 protected:
  void SetUp() override {
    const absl::Status available = CheckIoUring();
    ASSERT_TRUE(available.ok()) << available;
    file_.SetContent("");
    fd_ = open(file_.path().c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_GE(fd_, 0);
    reactor_ = transport::EpollReactor::Create({}).value();
    engine_ = MakeUringEngine(reactor_.get(), fd_, kMaxCalls, this).value();
  }
  void TearDown() override {
    engine_.reset();
    if (fd_ >= 0) close(fd_);
  }

  // Two others had work in this turn.
  void MakeContended() {
    for (TurnShares::Member& other : others_) {
      TurnShares& shares = reactor_->turn_shares();
      const absl::Time turn = reactor_->Now();
      shares.End(&other, turn, shares.Begin(&other, turn), /*finished=*/true,
                 absl::ZeroDuration());
    }
    ASSERT_TRUE(reactor_->turn_shares().contended());
  }
  Call* Add(FileCall::Kind kind, uint64_t offset, std::string data) {
    return &calls_.emplace_back(kind, offset, std::move(data));
  }
  Call* Write(uint64_t offset, size_t size, char with) {
    Call* const call =
        Add(FileCall::Kind::kWrite, offset, std::string(size, with));
    engine_->Start(call);
    return call;
  }
  void RunUntil(size_t ended) {
    while (ended_.size() < ended) reactor_->Poll();
  }
  void OnCallDone(FileCall* call, int64_t result) override {
    ended_.emplace_back(call, result);
    if (on_done_) on_done_(call);
  }
  using Ended = std::pair<FileCall*, int64_t>;

  const TemporaryFile file_{"uring"};
  int fd_ = -1;
  std::unique_ptr<transport::EpollReactor> reactor_;
  std::unique_ptr<FileEngine> engine_;
  TurnShares::Member others_[2];
  std::deque<Call> calls_;
  std::vector<Ended> ended_;
  std::function<void(FileCall*)> on_done_;
};

TEST_F(UringEngineTest, WhoIsAloneWritesAllAtOnce) {
  Call* const write = Write(0, 4 * kAtOnce, 'a');
  RunUntil(1);
  EXPECT_THAT(ended_, ElementsAre(Ended(write, 4 * kAtOnce)));
}

// Whoever started it goes on with the rest, as after any short write.
TEST_F(UringEngineTest, BesideOthersAWriteIsGivenOutInPieces) {
  MakeContended();
  Call* const write = Write(0, 2 * kAtOnce + 512, 'a');
  RunUntil(1);
  EXPECT_THAT(ended_, ElementsAre(Ended(write, kAtOnce)));
  EXPECT_EQ(file_.Content(), std::string(kAtOnce, 'a'));
}

TEST_F(UringEngineTest, OneOfSeveralPartsOrWithASyncIsNotCut) {
  MakeContended();
  Call* const synced =
      Add(FileCall::Kind::kWrite, 0, std::string(2 * kAtOnce, 'a'));
  synced->dsync = true;
  engine_->Start(synced);
  RunUntil(1);
  MakeContended();
  std::string data(kAtOnce, 'b');
  const iovec parts[] = {{data.data(), data.size()},
                         {data.data(), data.size()}};
  FileCall parted;
  parted.kind = FileCall::Kind::kWrite;
  parted.iov = parts;
  parted.iov_count = 2;
  engine_->Start(&parted);
  RunUntil(2);
  EXPECT_THAT(ended_, ElementsAre(Ended(synced, 2 * kAtOnce),
                                  Ended(&parted, 2 * kAtOnce)));
}

// In their order; nothing of one was given out before its turn. Reads do not
// wait.
TEST_F(UringEngineTest, WritesBeyondThatWaitForThoseBefore) {
  MakeContended();
  std::vector<FileCall*> writes;
  for (int i = 0; i < 3; ++i) {
    writes.push_back(Write(i * kAtOnce, kAtOnce, static_cast<char>('1' + i)));
  }
  Call* const read = Add(FileCall::Kind::kRead, 0, std::string(512, '\0'));
  engine_->Start(read);
  std::vector<FileCall*> written;
  on_done_ = [&](FileCall* call) {
    if (call == read) return;
    written.push_back(call);
    EXPECT_EQ(file_.Content().size(), written.size() * kAtOnce);
  };
  RunUntil(4);
  EXPECT_EQ(written, writes);
}

// Small ones are many at once, and what is given back is used.
TEST_F(UringEngineTest, AsManyAsFitAreWrittenTogether) {
  constexpr size_t kSmall = kAtOnce / 8;
  MakeContended();
  for (uint32_t i = 0; i < kMaxCalls; ++i) {
    Write(i * kSmall, kSmall, static_cast<char>('a' + i % 26));
  }
  EXPECT_THAT(ended_, IsEmpty());  // Never from inside Start().
  RunUntil(kMaxCalls);
  std::string expected;
  for (uint32_t i = 0; i < kMaxCalls; ++i) {
    expected += std::string(kSmall, static_cast<char>('a' + i % 26));
    EXPECT_EQ(ended_[i].second, static_cast<int64_t>(kSmall));
  }
  EXPECT_EQ(file_.Content(), expected);
}

// The others may have stopped meanwhile: nobody waits for ever.
TEST_F(UringEngineTest, WhatWaitsGoesOnWhenNobodyElseIsActive) {
  MakeContended();
  for (int i = 0; i < 4; ++i) Write(i * kAtOnce, kAtOnce, 'x');
  for (const TurnShares::Member& other : others_) {
    reactor_->turn_shares().Leave(other);
  }
  ASSERT_FALSE(reactor_->turn_shares().contended());
  RunUntil(4);
  EXPECT_EQ(file_.Content(), std::string(4 * kAtOnce, 'x'));
}

}  // namespace
}  // namespace skiff::scsi
