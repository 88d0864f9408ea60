#include "scsi/backend/file_backend.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scsi/backend/file_test_util.h"
#include "transport/reactor/epoll_reactor.h"

namespace skiff::scsi {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Op = IoRequest::Op;

constexpr uint64_t kMiB = 1u << 20;

class Medium {
 public:
  explicit Medium(const FileBackendOptions& options)
      : reactor_(*transport::EpollReactor::Create()) {
    auto backend = MakeFileBackend(options);
    EXPECT_TRUE(backend.ok()) << backend.status();
    backend_ = *std::move(backend);
    auto channel = backend_->OpenChannel(reactor_.get());
    EXPECT_TRUE(channel.ok()) << channel.status();
    channel_ = *std::move(channel);
  }

  FileBackend* operator->() { return backend_.get(); }
  BackendChannel* channel() { return channel_.get(); }
  void Turn() { reactor_->Poll(); }

  IoRequest Do(Op op, uint64_t offset, uint64_t length, void* data = nullptr,
               bool option = false) {
    const iovec iov = {data, op == Op::kCompareAndWrite ? 2 * length : length};
    return DoPieces(op, offset, length, {&iov, 1}, option);
  }
  IoRequest DoPieces(Op op, uint64_t offset, uint64_t length,
                     absl::Span<const iovec> iov, bool option = false) {
    bool done = false;
    IoRequest request;
    request.op = op;
    request.offset = offset;
    request.length = length;
    request.fua = op == Op::kWrite && option;
    request.may_unmap = op == Op::kWriteZeroes && option;
    request.iov = iov.data();
    request.iov_count = static_cast<int>(iov.size());
    request.context = &done;
    request.done = [](IoRequest* r) { *static_cast<bool*>(r->context) = true; };
    done = channel_->Submit(&request);
    const absl::Time give_up =
        transport::EpollReactor::MonotonicNow() + absl::Seconds(30);
    while (!done && transport::EpollReactor::MonotonicNow() < give_up) Turn();
    EXPECT_TRUE(done) << "lost request";
    request.iov = nullptr;
    return request;
  }
  IoStatus Write(uint64_t offset, std::string data, bool fua = false) {
    return Do(Op::kWrite, offset, data.size(), data.data(), fua).status;
  }
  std::string Read(uint64_t offset, uint64_t length) {
    std::string data(length, '?');
    EXPECT_EQ(Do(Op::kRead, offset, length, data.data()).status, IoStatus::kOk);
    return data;
  }

 private:
  std::unique_ptr<transport::EpollReactor> reactor_;
  std::unique_ptr<FileBackend> backend_;
  std::unique_ptr<BackendChannel> channel_;
};

class FileBackendTest : public ::testing::TestWithParam<FileIo> {
 protected:
  FileBackendOptions Options(uint64_t size) const {
    FileBackendOptions options;
    options.path = file_.path();
    options.size_bytes = size;
    options.io = GetParam();
    return options;
  }

  TemporaryFile file_{"file_backend_test"};
};

INSTANTIATE_TEST_SUITE_P(Io, FileBackendTest,
                         ::testing::Values(FileIo::kIoUring,
                                           FileIo::kHelperThread),
                         [](const auto& info) {
                           return info.param == FileIo::kIoUring
                                      ? "IoUring"
                                      : "HelperThread";
                         });

TEST_P(FileBackendTest, CreatesSparseAndKeepsContent) {
  constexpr uint64_t kSize = uint64_t{1} << 36;
  {
    Medium medium(Options(kSize));
    EXPECT_EQ(medium->info().size_bytes, kSize);
    EXPECT_TRUE(medium->info().volatile_write_cache);
    EXPECT_THAT(medium->info().description, HasSubstr(file_.path()));
    EXPECT_EQ(
        medium->info().description.find("helper thread") != std::string::npos,
        GetParam() == FileIo::kHelperThread);
    EXPECT_EQ(medium.Write(kSize - 512, std::string(512, 'x')), IoStatus::kOk);
    EXPECT_EQ(medium.Read(0, 4096), std::string(4096, '\0'));
  }
  EXPECT_LT(file_.AllocatedBytes(), kMiB);
  struct stat facts = {};
  ASSERT_EQ(stat(file_.path().c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u) << "an image is nobody else's";
  Medium again(Options(0));
  EXPECT_EQ(again->info().size_bytes, kSize);
  EXPECT_EQ(again.Read(kSize - 512, 512), std::string(512, 'x'));
}

TEST_P(FileBackendTest, PunchesHoles) {
  Medium medium(Options(8 * kMiB));
  ASSERT_TRUE(medium->info().thin) << "the test's directory cannot punch holes";
  medium.Write(0, std::string(8 * kMiB, 'x'));
  medium.Do(Op::kFlush, 0, 0);
  const uint64_t full = file_.AllocatedBytes();
  EXPECT_GE(full, 8 * kMiB);
  EXPECT_EQ(medium.Do(Op::kUnmap, 512, 4 * kMiB).status, IoStatus::kOk);
  EXPECT_LE(file_.AllocatedBytes(), full - 4 * kMiB + 64 * 1024);
  EXPECT_EQ(medium.Read(0, 1024),
            std::string(512, 'x') + std::string(512, '\0'));
  EXPECT_EQ(medium.Read(4 * kMiB, 1024),
            std::string(512, '\0') + std::string(512, 'x'));

  const uint64_t block = medium->info().physical_block_size;
  EXPECT_TRUE(medium->ProvisioningAt(0).mapped);
  EXPECT_EQ(medium->ProvisioningAt(0).length, block);
  EXPECT_FALSE(medium->ProvisioningAt(block).mapped);
  EXPECT_EQ(medium->ProvisioningAt(block).length, 4 * kMiB - block);
  EXPECT_TRUE(medium->ProvisioningAt(4 * kMiB).mapped);
  EXPECT_EQ(medium->ProvisioningAt(4 * kMiB).length, 4 * kMiB);
}

TEST_P(FileBackendTest, ServesAsMuchOfTheFileAsItIsTold) {
  Medium medium(Options(kMiB));
  const std::string data(4096, 'x');
  ASSERT_EQ(truncate(file_.path().c_str(), 2 * kMiB), 0);
  EXPECT_EQ(medium.Write(kMiB, data), IoStatus::kWriteError) << "not told yet";
  ASSERT_EQ(medium->Resize(2 * kMiB), absl::OkStatus());
  EXPECT_EQ(medium->info().size_bytes, 2 * kMiB);
  EXPECT_EQ(medium.Write(2 * kMiB - 4096, data), IoStatus::kOk);
  EXPECT_EQ(medium.Read(2 * kMiB - 4096, 4096), data);
  EXPECT_EQ(medium->ProvisioningAt(2 * kMiB - 4096).length, 4096u);

  EXPECT_THAT(medium->Resize(3 * kMiB).message(),
              AllOf(HasSubstr(file_.path()), HasSubstr("has 2097152 bytes"),
                    HasSubstr("extend it first")));
  EXPECT_THAT(medium->Resize(kMiB + 1).message(),
              HasSubstr("not a positive multiple of its block size 512"));
  EXPECT_THAT(medium->Resize(0).message(), HasSubstr("not a positive"));
  EXPECT_EQ(medium->info().size_bytes, 2 * kMiB) << "as it was";

  ASSERT_EQ(medium->Resize(kMiB), absl::OkStatus());
  ASSERT_EQ(truncate(file_.path().c_str(), kMiB), 0);
  EXPECT_EQ(medium.Write(kMiB, data), IoStatus::kWriteError);
  EXPECT_EQ(medium.Do(Op::kUnmap, kMiB, 4096).status, IoStatus::kWriteError);
  std::string buffer(4096, '?');
  EXPECT_EQ(medium.Do(Op::kRead, kMiB, 4096, buffer.data()).status,
            IoStatus::kReadError);
  EXPECT_EQ(medium->ProvisioningAt(kMiB).length, 0u);
  EXPECT_EQ(file_.Content().size(), kMiB) << "nothing is written beyond";
}

TEST_P(FileBackendTest, WriteZeroes) {
  Medium medium(Options(4 * kMiB));
  medium.Write(0, std::string(4 * kMiB, 'x'));
  for (const bool may_unmap : {false, true}) {
    const uint64_t offset = may_unmap ? 2 * kMiB + 512 : 512;
    EXPECT_EQ(
        medium.Do(Op::kWriteZeroes, offset, kMiB, nullptr, may_unmap).status,
        IoStatus::kOk);
    EXPECT_EQ(medium.Read(offset - 1, kMiB + 2),
              'x' + std::string(kMiB, '\0') + 'x');
  }
  medium.Do(Op::kFlush, 0, 0);
  EXPECT_FALSE(medium->ProvisioningAt(2 * kMiB + 8192).mapped);
}

TEST_P(FileBackendTest, CompareAndWrite) {
  Medium medium(Options(kMiB));
  medium.Write(512, std::string(512, 'a'));
  std::string data = std::string(512, 'a') + std::string(512, 'b');
  EXPECT_EQ(medium.Do(Op::kCompareAndWrite, 512, 512, data.data()).status,
            IoStatus::kOk);
  const IoRequest miss = medium.Do(Op::kCompareAndWrite, 512, 512, data.data());
  EXPECT_EQ(miss.status, IoStatus::kMiscompare);
  EXPECT_EQ(miss.error_offset, 512u);
  EXPECT_EQ(medium.Read(512, 512), std::string(512, 'b'));
}

TEST_P(FileBackendTest, FuaAndFlushSucceedAndReachTheFile) {
  Medium medium(Options(kMiB));
  EXPECT_EQ(medium.Write(0, std::string(512, 'f'), /*fua=*/true),
            IoStatus::kOk);
  EXPECT_EQ(medium.Write(512, std::string(512, 'g')), IoStatus::kOk);
  EXPECT_EQ(medium.Do(Op::kFlush, 0, 0).status, IoStatus::kOk);
  EXPECT_EQ(file_.Content().substr(0, 1024),
            std::string(512, 'f') + std::string(512, 'g'));
}

TEST_P(FileBackendTest, ReadOnly) {
  file_.SetContent(std::string(8192, 'r'));
  FileBackendOptions options = Options(0);
  options.read_only = true;
  Medium medium(options);
  Medium second(options);  // Readers share.
  EXPECT_EQ(medium.Read(4096, 512), std::string(512, 'r'));
  EXPECT_EQ(medium.Write(0, std::string(512, 'w')), IoStatus::kNotSupported);
  EXPECT_EQ(medium.Do(Op::kUnmap, 0, 512).status, IoStatus::kNotSupported);
  EXPECT_EQ(medium.Do(Op::kFlush, 0, 0).status, IoStatus::kOk);
  options.read_only = false;
  EXPECT_THAT(MakeFileBackend(options).status().message(),
              HasSubstr("served by another process"));
}

TEST_P(FileBackendTest, FileThatShrinksGivesReadErrors) {
  Medium medium(Options(kMiB));
  medium.Write(0, std::string(kMiB, 'x'));
  ASSERT_EQ(truncate(file_.path().c_str(), 512), 0);
  std::string data(1024, '?');
  const IoRequest read = medium.Do(Op::kRead, 0, 1024, data.data());
  EXPECT_EQ(read.status, IoStatus::kReadError);
  EXPECT_EQ(read.error_offset, 512u);
}

TEST_P(FileBackendTest, WriteErrorTellsWhere) {
  Medium medium(Options(kMiB));
  // Stands for a medium that fails half way.
  auto* const old_handler = signal(SIGXFSZ, SIG_IGN);
  rlimit old = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  const rlimit small = {64 * 1024, old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  std::string data(16384, 'w');
  const IoRequest write =
      medium.Do(Op::kWrite, 64 * 1024 - 4096, data.size(), data.data());
  setrlimit(RLIMIT_FSIZE, &old);
  (void)signal(SIGXFSZ, old_handler);
  EXPECT_EQ(write.status, IoStatus::kWriteError);
  EXPECT_EQ(write.error_offset, 64u * 1024);
  EXPECT_EQ(write.system_error, EFBIG);
  EXPECT_EQ(medium.Write(0, std::string(512, 'w')), IoStatus::kOk);
}

TEST_P(FileBackendTest, DirectIo) {
  FileBackendOptions options = Options(kMiB);
  options.block_size = 4096;
  options.direct = true;
  auto probe = MakeFileBackend(options);
  if (!probe.ok()) {
    // A file system without O_DIRECT: then the message has to say so.
    EXPECT_THAT(probe.status().message(), HasSubstr("turn direct off"));
    RecordProperty("o_direct", "not supported");
    return;
  }
  probe->reset();
  Medium medium(options);
  EXPECT_THAT(medium->info().description, HasSubstr("O_DIRECT"));
  ASSERT_GE(medium->info().buffer_alignment, 1u);
  // One byte off any alignment: bounced. 600 KiB are several bounce buffers.
  std::string data(600 * 1024 + 1, '\0');
  std::mt19937 random(3);
  for (char& c : data) c = static_cast<char>(random());
  EXPECT_EQ(medium.Do(Op::kWrite, 4096, 600 * 1024, data.data() + 1).status,
            IoStatus::kOk);
  EXPECT_EQ(medium.Read(4096, 600 * 1024), data.substr(1));
  void* aligned = nullptr;
  ASSERT_EQ(posix_memalign(&aligned, 4096, 8192), 0);
  EXPECT_EQ(medium.Do(Op::kRead, 4096, 8192, aligned).status, IoStatus::kOk);
  EXPECT_EQ(std::memcmp(aligned, data.data() + 1, 8192), 0);
  EXPECT_EQ(medium.Do(Op::kCompareAndWrite, 4096, 4096, aligned).status,
            IoStatus::kOk);
  EXPECT_EQ(medium.Read(4096, 4096), data.substr(4097, 4096));
  // Aligned memory in pieces that are no whole blocks, as a device whose memory
  // alignment is four bytes would have them.
  std::memset(aligned, 0, 8192);
  auto* const bytes = static_cast<char*>(aligned);
  const iovec pieces[] = {{bytes, 516}, {bytes + 516, 4096 - 516}};
  EXPECT_EQ(medium.DoPieces(Op::kRead, 4096, 4096, pieces).status,
            IoStatus::kOk);
  EXPECT_EQ(std::memcmp(aligned, data.data() + 4097, 4096), 0);
  std::free(aligned);
  EXPECT_EQ(medium.Do(Op::kWriteZeroes, 0, 8192).status, IoStatus::kOk);
  EXPECT_EQ(medium.Do(Op::kFlush, 0, 0).status, IoStatus::kOk);
  EXPECT_EQ(medium.Read(0, 8192), std::string(8192, '\0'));
}

// A server opens channels before its reactors' threads run, and closes them
// after.
TEST_P(FileBackendTest, ChannelIsUsedByTheThreadThatRunsTheReactor) {
  auto backend = MakeFileBackend(Options(kMiB));
  ASSERT_TRUE(backend.ok()) << backend.status();
  auto reactor = *transport::EpollReactor::Create();
  auto channel = (*backend)->OpenChannel(reactor.get());
  ASSERT_TRUE(channel.ok()) << channel.status();

  std::string data(4096, 'w');
  const iovec iov = {data.data(), data.size()};
  IoRequest request;
  request.op = Op::kWrite;
  request.fua = true;
  request.length = data.size();
  request.iov = &iov;
  request.iov_count = 1;
  request.context = reactor.get();
  request.done = [](IoRequest* done) {
    static_cast<transport::EpollReactor*>(done->context)->Stop();
  };
  std::thread thread([&] {
    reactor->Post([&] { EXPECT_FALSE((*channel)->Submit(&request)); });
    reactor->Run();
  });
  thread.join();
  EXPECT_EQ(request.status, IoStatus::kOk);
  EXPECT_EQ(file_.Content().substr(0, 4096), data);
  channel->reset();
  backend->reset();
  EXPECT_TRUE(MakeFileBackend(Options(kMiB)).ok()) << "the lock is free again";
}

// Many requests in flight, in disjoint regions, against a model.
class RandomIo {
 public:
  static constexpr uint64_t kRegion = 64 * 1024;
  static constexpr uint64_t kRegions = 48;
  static constexpr uint64_t kSize = kRegion * kRegions;

  explicit RandomIo(Medium* medium)
      : medium_(medium), model_(kSize, '\0'), slots_(kRegions) {
    for (uint64_t i = 0; i < kRegions; ++i) {
      slots_[i].owner = this;
      slots_[i].base = i * kRegion;
    }
  }

  void Run(int operations) {
    left_ = operations;
    for (Slot& slot : slots_) Next(&slot);
    const absl::Time give_up =
        transport::EpollReactor::MonotonicNow() + absl::Seconds(60);
    while (busy_ > 0) {
      medium_->Turn();
      ASSERT_LT(transport::EpollReactor::MonotonicNow(), give_up)
          << busy_ << " requests lost";
    }
  }
  const std::string& model() const { return model_; }

 private:
  struct Slot {
    RandomIo* owner = nullptr;
    uint64_t base = 0;
    IoRequest request;
    std::string data;
    iovec iov[3] = {};
  };

  void Next(Slot* slot) {
    while (left_ > 0) {
      --left_;
      Prepare(slot);
      ++busy_;
      if (!medium_->channel()->Submit(&slot->request)) return;
      Check(slot);
    }
  }

  void Prepare(Slot* slot) {
    constexpr Op kOps[] = {Op::kRead,  Op::kRead,        Op::kWrite, Op::kWrite,
                           Op::kUnmap, Op::kWriteZeroes, Op::kFlush};
    IoRequest& request = slot->request;
    request.op = kOps[random_() % std::size(kOps)];
    const uint64_t first = random_() % 128;
    const uint64_t count = 1 + random_() % (128 - first);
    request.offset = slot->base + first * 512;
    request.length = request.op == Op::kFlush ? 0 : count * 512;
    request.fua = random_() % 16 == 0;
    request.may_unmap = random_() % 2 == 0;
    slot->data.assign(count * 512, static_cast<char>(random_()));
    // Cut at odd places.
    const size_t a = random_() % slot->data.size();
    const size_t b = a + random_() % (slot->data.size() - a);
    slot->iov[0] = {slot->data.data(), a};
    slot->iov[1] = {slot->data.data() + a, b - a};
    slot->iov[2] = {slot->data.data() + b, slot->data.size() - b};
    request.iov = slot->iov;
    request.iov_count = 3;
    request.context = slot;
    request.done = [](IoRequest* r) {
      auto* done = static_cast<Slot*>(r->context);
      done->owner->Check(done);
      done->owner->Next(done);
    };
  }

  void Check(Slot* slot) {
    const IoRequest& request = slot->request;
    --busy_;
    ASSERT_EQ(request.status, IoStatus::kOk) << static_cast<int>(request.op);
    switch (request.op) {
      case Op::kRead:
        ASSERT_EQ(slot->data, model_.substr(request.offset, request.length));
        break;
      case Op::kWrite:
        model_.replace(request.offset, request.length, slot->data);
        break;
      default:
        model_.replace(request.offset, request.length,
                       std::string(request.length, '\0'));
    }
  }

  Medium* medium_;
  std::string model_;
  std::vector<Slot> slots_;
  std::mt19937 random_{11};
  int left_ = 0;
  int busy_ = 0;
};

TEST_P(FileBackendTest, RandomIoAgreesWithAModel) {
  FileBackendOptions options = Options(RandomIo::kSize);
  options.queue_depth = 16;  // Fewer than are in flight.
  Medium medium(options);
  RandomIo io(&medium);
  ASSERT_NO_FATAL_FAILURE(io.Run(1500));
  EXPECT_EQ(medium.Read(0, RandomIo::kSize), io.model());
  EXPECT_EQ(medium.Do(Op::kFlush, 0, 0).status, IoStatus::kOk);
  EXPECT_EQ(file_.Content(), io.model());
}

}  // namespace
}  // namespace skiff::scsi
