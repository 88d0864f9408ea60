// A backend of callbacks by itself: requests that are completed in every way
// there is, also in those that are wrong.

#include "tools/library/callback_backend.h"

#include <poll.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "transport/reactor/epoll_reactor.h"

namespace skiff::library {
namespace {

using scsi::IoRequest;
using scsi::IoStatus;
using ::testing::ElementsAre;

constexpr uint64_t kSize = 1 << 20;

struct Io {
  IoRequest request;
  int ended = 0;

  explicit Io(IoRequest::Op op = IoRequest::Op::kRead, uint64_t offset = 0) {
    request.op = op;
    request.offset = offset;
    request.length = 512;
    request.context = this;
    request.done = [](IoRequest* done) {
      ++static_cast<Io*>(done->context)->ended;
    };
  }
  Io(const Io&) = delete;
  Io& operator=(const Io&) = delete;
};

class CallbackBackendTest : public ::testing::Test {
 protected:
  CallbackBackendTest() {
    auto reactor = transport::EpollReactor::Create();
    EXPECT_TRUE(reactor.ok());
    reactor_ = *std::move(reactor);
    skiff_backend_ops ops;
    SKIFF_INIT(ops);
    ops.submit = [](void* user, const skiff_request* request) {
      auto* const self = static_cast<CallbackBackendTest*>(user);
      self->seen_.push_back(request);
      if (self->on_submit_ != nullptr) self->on_submit_(request);
    };
    ops.cancel = [](void* user, const skiff_request* request) {
      return static_cast<CallbackBackendTest*>(user)->on_cancel_(request);
    };
    ops.provisioning = [](void* user, uint64_t offset, uint64_t* length) {
      return static_cast<CallbackBackendTest*>(user)->on_provisioning_(offset,
                                                                       length);
    };
    ops.unused = [](void* user) {
      ++static_cast<CallbackBackendTest*>(user)->unused_;
    };
    scsi::BackendInfo info;
    info.size_bytes = kSize;
    backend_ = std::make_unique<CallbackBackend>(
        ops, this, nullptr, info,
        std::vector<transport::Reactor*>{nullptr, reactor_.get()});
    channel_ = *backend_->OpenChannel(reactor_.get());
  }

  int Complete(uint64_t id, int error = 0) {
    return backend_->requests().Complete(id, error);
  }
  void Turn() {
    while (reactor_->Poll() > 0) {
    }
  }

  std::unique_ptr<transport::EpollReactor> reactor_;
  std::vector<const skiff_request*> seen_;
  std::function<void(const skiff_request*)> on_submit_;
  std::function<int(const skiff_request*)> on_cancel_ =
      [](const skiff_request*) { return 0; };
  std::function<int(uint64_t, uint64_t*)> on_provisioning_;
  int unused_ = 0;
  std::unique_ptr<CallbackBackend> backend_;
  std::unique_ptr<scsi::BackendChannel> channel_;
};

TEST_F(CallbackBackendTest, ShowsWhatIsAsked) {
  Io io(IoRequest::Op::kWriteZeroes, 4096);
  io.request.fua = io.request.may_unmap = true;
  EXPECT_FALSE(channel_->Submit(&io.request));
  ASSERT_EQ(seen_.size(), 1u);
  EXPECT_EQ(seen_[0]->op, uint32_t{SKIFF_REQUEST_WRITE_ZEROES});
  EXPECT_EQ(seen_[0]->flags, SKIFF_REQUEST_FUA | SKIFF_REQUEST_MAY_UNMAP);
  EXPECT_EQ(seen_[0]->offset, 4096u);
  EXPECT_EQ(seen_[0]->length, 512u);
  EXPECT_EQ(seen_[0]->iov, nullptr);
  EXPECT_EQ(seen_[0]->thread, 1u);
  EXPECT_EQ(seen_[0]->user, this);
  EXPECT_EQ(Complete(seen_[0]->id), 0);
  EXPECT_EQ(io.ended, 0) << "never from inside";
  Turn();
  EXPECT_EQ(io.ended, 1);
  EXPECT_EQ(io.request.status, IoStatus::kOk);
}

TEST_F(CallbackBackendTest, EndsFromInsideSubmit) {
  on_submit_ = [this](const skiff_request* request) {
    EXPECT_EQ(Complete(request->id, -ENOSPC), 0);
    EXPECT_EQ(Complete(request->id), -EALREADY);
  };
  Io io(IoRequest::Op::kWrite);
  EXPECT_TRUE(channel_->Submit(&io.request));
  EXPECT_EQ(io.request.status, IoStatus::kNoSpace);
  EXPECT_EQ(io.request.system_error, ENOSPC);
  Turn();
  EXPECT_EQ(io.ended, 0);
}

// The way of one does not depend on what else is submitted from inside.
TEST_F(CallbackBackendTest, EndsAnotherFromInsideSubmit) {
  Io first;
  Io second;
  EXPECT_FALSE(channel_->Submit(&first.request));
  on_submit_ = [this](const skiff_request*) {
    EXPECT_EQ(Complete(seen_[0]->id), 0);
  };
  EXPECT_FALSE(channel_->Submit(&second.request));
  Turn();
  EXPECT_EQ(first.ended, 1);
  EXPECT_EQ(second.ended, 0);
  EXPECT_EQ(Complete(seen_[1]->id), 0);
  Turn();
  EXPECT_EQ(second.ended, 1);
}

TEST_F(CallbackBackendTest, TellsMistakesApart) {
  Io io;
  EXPECT_EQ(Complete(0), -ENOENT);
  EXPECT_FALSE(channel_->Submit(&io.request));
  const uint64_t id = seen_[0]->id;
  EXPECT_EQ(Complete(id, 5), -EINVAL) << "positive";
  EXPECT_EQ(Complete(id, -5000), -EINVAL) << "no errno";
  EXPECT_EQ(Complete(id + (uint64_t{1} << RequestTable::kIndexBits)), -ENOENT)
      << "a later use";
  EXPECT_EQ(Complete(id + 1), -ENOENT) << "another one, which never was";
  EXPECT_EQ(Complete(~uint64_t{0}), -ENOENT);
  EXPECT_EQ(Complete(id), 0);
  EXPECT_EQ(Complete(id), -EALREADY);
  Turn();
  EXPECT_EQ(Complete(id), -EALREADY) << "it is free";
  Io next;
  EXPECT_FALSE(channel_->Submit(&next.request));
  EXPECT_EQ(seen_[1], seen_[0]) << "the same memory";
  EXPECT_EQ(Complete(id), -EALREADY) << "and yet another request";
  EXPECT_EQ(Complete(seen_[1]->id), 0);
  Turn();
  EXPECT_EQ(next.ended, 1);
}

TEST_F(CallbackBackendTest, GivesBackWhatIsCancelled) {
  on_cancel_ = [](const skiff_request*) { return 1; };
  Io io;
  EXPECT_FALSE(channel_->Submit(&io.request));
  const uint64_t id = seen_[0]->id;
  EXPECT_TRUE(channel_->Cancel(&io.request));
  EXPECT_EQ(Complete(id), -ESTALE);
  Turn();
  EXPECT_EQ(io.ended, 0);
}

TEST_F(CallbackBackendTest, ACancelThatIsNotPossibleChangesNothing) {
  Io io;
  EXPECT_FALSE(channel_->Submit(&io.request));
  EXPECT_FALSE(channel_->Cancel(&io.request));
  EXPECT_EQ(Complete(seen_[0]->id, -ECANCELED), 0);
  Turn();
  EXPECT_EQ(io.ended, 1);
  EXPECT_EQ(io.request.status, IoStatus::kCancelled);
}

// The backend says both: what it completed is complete.
TEST_F(CallbackBackendTest, CompletedWhileItIsCancelled) {
  on_cancel_ = [this](const skiff_request* request) {
    EXPECT_EQ(Complete(request->id), 0);
    return 1;
  };
  Io io;
  EXPECT_FALSE(channel_->Submit(&io.request));
  EXPECT_FALSE(channel_->Cancel(&io.request));
  Turn();
  EXPECT_EQ(io.ended, 1);
}

TEST_F(CallbackBackendTest, DoesNotCancelWhatIsComplete) {
  on_cancel_ = [](const skiff_request*) {
    ADD_FAILURE() << "it was completed";
    return 1;
  };
  Io io;
  EXPECT_FALSE(channel_->Submit(&io.request));
  EXPECT_EQ(Complete(seen_[0]->id), 0);
  EXPECT_FALSE(channel_->Cancel(&io.request));
  Turn();
  EXPECT_EQ(io.ended, 1);
}

TEST_F(CallbackBackendTest, TranslatesErrors) {
  const struct {
    IoRequest::Op op;
    int error;
    IoStatus status;
  } cases[] = {
      {IoRequest::Op::kRead, -EIO, IoStatus::kReadError},
      {IoRequest::Op::kWrite, -EIO, IoStatus::kWriteError},
      {IoRequest::Op::kFlush, -EIO, IoStatus::kWriteError},
      {IoRequest::Op::kRead, -ETIMEDOUT, IoStatus::kReadError},
      {IoRequest::Op::kRead, -ECANCELED, IoStatus::kReadError},
      {IoRequest::Op::kRead, -EILSEQ, IoStatus::kReadError},
      {IoRequest::Op::kCompareAndWrite, -EILSEQ, IoStatus::kMiscompare},
      {IoRequest::Op::kUnmap, -EOPNOTSUPP, IoStatus::kNotSupported},
      {IoRequest::Op::kRead, -ENODEV, IoStatus::kGone},
      {IoRequest::Op::kRead, -ENOMEM, IoStatus::kNoMemory},
  };
  for (const auto& c : cases) {
    Io io(c.op, 4096);
    EXPECT_FALSE(channel_->Submit(&io.request));
    EXPECT_EQ(Complete(seen_.back()->id, c.error), 0);
    Turn();
    EXPECT_EQ(io.request.status, c.status) << c.error;
    EXPECT_EQ(io.request.system_error, -c.error);
    EXPECT_EQ(io.request.error_offset, 4096u);
  }
}

TEST_F(CallbackBackendTest, ManyEndInOrderWithWhatIsWrongLeftOut) {
  Io ios[4];
  std::vector<int> order;
  std::vector<skiff_completion> completions;
  for (Io& io : ios) {
    io.request.offset = 8192;
    EXPECT_FALSE(channel_->Submit(&io.request));
    completions.push_back({seen_.back()->id, 0, 0, 0});
  }
  completions[1].error = -EIO;
  completions[1].error_offset = 8192 + 511;
  completions[2].error = 1;               // A mistake.
  completions.push_back(completions[0]);  // Another one.
  completions[3].error = -EIO;
  completions[3].error_offset = 8192 + 512;  // Not of the request.
  size_t taken = 77;
  EXPECT_EQ(backend_->requests().Complete(completions, &taken), -EINVAL);
  EXPECT_EQ(taken, 3u);
  Turn();
  EXPECT_THAT(std::vector<int>(
                  {ios[0].ended, ios[1].ended, ios[2].ended, ios[3].ended}),
              ElementsAre(1, 1, 0, 1));
  EXPECT_EQ(ios[1].request.error_offset, 8192u + 511);
  EXPECT_EQ(ios[3].request.error_offset, 8192u);
  EXPECT_EQ(Complete(completions[2].id), 0);
  Turn();
  EXPECT_EQ(ios[2].ended, 1);
}

// More than there are slots in a chunk, by threads that race.
TEST_F(CallbackBackendTest, EndsOnOtherThreads) {
  constexpr size_t kRequests = 3 * RequestTable::kSlotsAtOnce;
  constexpr int kThreads = 3;
  for (int round = 0; round < 5; ++round) {
    std::deque<Io> ios;
    std::vector<uint64_t> ids;
    for (size_t i = 0; i < kRequests; ++i) {
      Io& io = ios.emplace_back();
      EXPECT_FALSE(channel_->Submit(&io.request));
      ids.push_back(seen_.back()->id);
    }
    // Each is completed by all of them, and once.
    std::atomic<size_t> taken = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&] {
        for (const uint64_t id : ids) {
          if (backend_->requests().Complete(id, 0) == 0) ++taken;
        }
      });
    }
    const auto all_ended = [&ios] {
      for (const Io& io : ios) {
        if (io.ended == 0) return false;
      }
      return true;
    };
    while (!all_ended()) {
      pollfd ready = {reactor_->fd(), POLLIN, 0};
      poll(&ready, 1, 100);
      reactor_->Poll();
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(taken, kRequests);
    for (const Io& io : ios) EXPECT_EQ(io.ended, 1);
  }
}

TEST_F(CallbackBackendTest, AnotherChannelUsesTheSlotsOfOneThatIsGone) {
  Io io;
  EXPECT_FALSE(channel_->Submit(&io.request));
  EXPECT_EQ(Complete(seen_[0]->id), 0);
  Turn();
  channel_ = *backend_->OpenChannel(reactor_.get());
  EXPECT_FALSE(channel_->Submit(&io.request));
  EXPECT_EQ(seen_[1], seen_[0]);
  EXPECT_NE(Complete(seen_[0]->id - (uint64_t{1} << RequestTable::kIndexBits)),
            0);
  EXPECT_EQ(Complete(seen_[1]->id), 0);
  Turn();
  EXPECT_EQ(io.ended, 2);
}

// The medium has reads and writes only.
class CompareTest : public CallbackBackendTest {
 protected:
  CompareTest() : medium_(kSize, 'm') {
    io_.request.op = IoRequest::Op::kCompareAndWrite;
    io_.request.offset = 1024;
    io_.request.fua = true;
    // Pieces that have nothing to do with the halves.
    iov_[0] = {data_.data(), 100};
    iov_[1] = {data_.data() + 100, 600};
    iov_[2] = {data_.data() + 700, 324};
    io_.request.iov = iov_;
    io_.request.iov_count = 3;
  }

  // What a backend does for a request.
  int Execute(const skiff_request* request) {
    ops_.push_back(request->op);
    if (request->op == SKIFF_REQUEST_COMPARE_AND_WRITE) return -EOPNOTSUPP;
    if (request->op == write_fails_) return -EIO;
    const bool read = request->op == SKIFF_REQUEST_READ;
    EXPECT_EQ(request->flags, read ? 0u : SKIFF_REQUEST_FUA);
    char* at = medium_.data() + request->offset;
    for (uint32_t i = 0; i < request->iov_count; ++i) {
      const iovec& piece = request->iov[i];
      std::memcpy(read ? piece.iov_base : at, read ? at : piece.iov_base,
                  piece.iov_len);
      at += piece.iov_len;
    }
    return 0;
  }
  void Run() {
    io_.ended = 0;
    if (channel_->Submit(&io_.request)) ++io_.ended;
    Turn();
    EXPECT_EQ(io_.ended, 1);
  }

  std::string medium_;
  std::string data_ = std::string(512, 'm') + std::string(512, 'n');
  iovec iov_[3];
  Io io_;
  uint32_t write_fails_ = 0;
  std::vector<uint32_t> ops_;
};

TEST_F(CompareTest, IsDoneByReadingAndWriting) {
  for (const bool inside : {true, false}) {
    SCOPED_TRACE(inside);
    on_submit_ = [&](const skiff_request* request) {
      const auto complete = [this, request] {
        EXPECT_EQ(Complete(request->id, Execute(request)), 0);
      };
      if (inside) return complete();
      reactor_->Post(complete);
    };
    Run();
    EXPECT_EQ(io_.request.status, IoStatus::kOk);
    EXPECT_TRUE(medium_.substr(1024, 512) == std::string(512, 'n'));
    EXPECT_EQ(medium_[1023], 'm');
    EXPECT_EQ(medium_[1536], 'm');
    // Now it has changed.
    medium_[1024] = 'm';
    Run();
    EXPECT_EQ(io_.request.status, IoStatus::kMiscompare);
    EXPECT_EQ(io_.request.error_offset, 1025u);
    medium_.assign(kSize, 'm');
    write_fails_ = SKIFF_REQUEST_WRITE;
    Run();
    EXPECT_EQ(io_.request.status, IoStatus::kWriteError);
    EXPECT_EQ(io_.request.system_error, EIO);
    write_fails_ = 0;
  }
  // It is asked whether it can once.
  EXPECT_EQ(std::count(ops_.begin(), ops_.end(),
                       uint32_t{SKIFF_REQUEST_COMPARE_AND_WRITE}),
            1);
}

TEST_F(CompareTest, IsCancelledInTheMiddle) {
  on_submit_ = [this](const skiff_request* request) {
    if (request->op == SKIFF_REQUEST_COMPARE_AND_WRITE) {
      EXPECT_EQ(Complete(request->id, -EOPNOTSUPP), 0);
    }
  };
  EXPECT_FALSE(channel_->Submit(&io_.request));
  ASSERT_EQ(seen_.size(), 2u);
  EXPECT_FALSE(channel_->Cancel(&io_.request));
  on_cancel_ = [](const skiff_request*) { return 1; };
  EXPECT_TRUE(channel_->Cancel(&io_.request));
  EXPECT_EQ(Complete(seen_[1]->id), -ESTALE);
  Turn();
  EXPECT_EQ(io_.ended, 0);
}

// An initiator asks again from where the answer ends.
TEST_F(CallbackBackendTest, ProvisioningIsOfWholeBlocksWithin) {
  const struct {
    uint64_t offset, said, length;
  } cases[] = {{0, kSize, kSize},
               {0, 3 * 512 + 100, 3 * 512},
               {0, 0, 512},
               {kSize - 512, ~uint64_t{0}, 512},
               {kSize + 512, 4096, 512}};
  for (const auto& c : cases) {
    on_provisioning_ = [&c](uint64_t offset, uint64_t* length) {
      EXPECT_EQ(offset, c.offset);
      *length = c.said;
      return 0;
    };
    const scsi::ProvisioningExtent extent = backend_->ProvisioningAt(c.offset);
    EXPECT_EQ(extent.length, c.length);
    EXPECT_FALSE(extent.mapped);
  }
}

TEST_F(CallbackBackendTest, ChangesItsSize) {
  EXPECT_TRUE(backend_->SetSize(kSize * 2).ok());
  EXPECT_EQ(backend_->info().size_bytes, kSize * 2);
  EXPECT_FALSE(backend_->SetSize(kSize + 1).ok());
  EXPECT_FALSE(backend_->SetSize(0).ok());
  EXPECT_EQ(backend_->info().size_bytes, kSize * 2);
  backend_->Unused();
  EXPECT_EQ(unused_, 1);
}

}  // namespace
}  // namespace skiff::library
