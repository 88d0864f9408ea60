#include "scsi/backend/ram_backend.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace skiff::scsi {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Op = IoRequest::Op;

constexpr uint64_t kMiB = 1u << 20;

std::unique_ptr<Backend> Make(const RamBackendOptions& options) {
  auto backend = MakeRamBackend(options);
  EXPECT_TRUE(backend.ok()) << backend.status();
  return *std::move(backend);
}

// One channel, and requests in short.
class Medium {
 public:
  explicit Medium(const RamBackendOptions& options)
      : backend_(Make(options)),
        channel_(*backend_->OpenChannel(/*reactor=*/nullptr)) {}

  Backend* operator->() { return backend_.get(); }

  IoRequest Do(Op op, uint64_t offset, uint64_t length, void* data = nullptr,
               bool may_unmap = false) {
    const uint64_t bytes = op == Op::kCompareAndWrite ? 2 * length : length;
    const iovec iov = {data, bytes};
    IoRequest request;
    request.op = op;
    request.offset = offset;
    request.length = length;
    request.may_unmap = may_unmap;
    request.iov = &iov;
    request.iov_count = 1;
    EXPECT_TRUE(channel_->Submit(&request)) << "RAM completes at once";
    request.iov = nullptr;
    return request;
  }
  IoStatus Write(uint64_t offset, std::string data) {
    return Do(Op::kWrite, offset, data.size(), data.data()).status;
  }
  std::string Read(uint64_t offset, uint64_t length) {
    std::string data(length, '?');
    EXPECT_EQ(Do(Op::kRead, offset, length, data.data()).status, IoStatus::kOk);
    return data;
  }
  bool Resident(uint64_t offset) {
    const uint64_t page = offset & ~uint64_t(sysconf(_SC_PAGESIZE) - 1);
    unsigned char in_core = 0;
    EXPECT_EQ(mincore(backend_->direct_memory() + page, 1, &in_core), 0)
        << std::strerror(errno);
    return (in_core & 1) != 0;
  }

 private:
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<BackendChannel> channel_;
};

TEST(RamBackendTest, RefusesImpossibleSizesWithReasons) {
  EXPECT_THAT(MakeRamBackend({}).status().message(),
              HasSubstr("size_bytes is 0"));
  EXPECT_THAT(MakeRamBackend({.size_bytes = 1000}).status().message(),
              HasSubstr("1000 bytes, is not a multiple of its block size"));
  EXPECT_THAT(MakeRamBackend({.size_bytes = 4608, .block_size = 4096})
                  .status()
                  .message(),
              HasSubstr("multiple"));
  EXPECT_THAT(MakeRamBackend({.size_bytes = 5200, .block_size = 520})
                  .status()
                  .message(),
              HasSubstr("512 or 4096 bytes, not 520"));
  EXPECT_THAT(MakeRamBackend({.size_bytes = ~uint64_t{511}}).status().message(),
              HasSubstr("larger than any address space"));
  // Larger than what the CPU can address: mmap itself refuses.
  const absl::Status status =
      MakeRamBackend({.size_bytes = uint64_t{1} << 60}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("RLIMIT_AS"));
}

TEST(RamBackendTest, DescribesItself) {
  auto backend = Make({.size_bytes = kMiB, .block_size = 4096});
  EXPECT_EQ(backend->info().size_bytes, kMiB);
  EXPECT_EQ(backend->info().block_size, 4096u);
  EXPECT_TRUE(backend->info().thin);
  EXPECT_FALSE(backend->info().volatile_write_cache);
  EXPECT_EQ(backend->info().description, "memory, 1048576 bytes, huge pages");
}

TEST(RamBackendTest, TerabyteIsSparse) {
  constexpr uint64_t kTiB = uint64_t{1} << 40;
  Medium medium({.size_bytes = kTiB});
  EXPECT_EQ(medium.Write(kTiB - 512, std::string(512, 'x')), IoStatus::kOk);
  EXPECT_TRUE(medium.Resident(kTiB - 512));
  EXPECT_EQ(medium.Read(kTiB - 512, 512), std::string(512, 'x'));
  // 2 MiB away at least, in case the system uses huge pages.
  for (uint64_t offset = 0; offset < kTiB - 2 * kMiB; offset += kTiB / 64) {
    EXPECT_FALSE(medium.Resident(offset)) << offset;
  }
  EXPECT_EQ(medium.Read(kTiB / 2, 512), std::string(512, '\0'));
  const ProvisioningExtent extent = medium->ProvisioningAt(0);
  EXPECT_FALSE(extent.mapped);
  EXPECT_GT(extent.length, 0u);
  EXPECT_TRUE(medium->ProvisioningAt(kTiB - 512).mapped);
  EXPECT_EQ(medium->ProvisioningAt(kTiB - 512).length, 512u);
}

TEST(RamBackendTest, TakesHugePagesOnlyWhereMemoryIsPlenty) {
  auto description = [](const RamBackendOptions& options) {
    return Make(options)->info().description;
  };
  EXPECT_THAT(description({.size_bytes = kMiB}), HasSubstr("huge pages"));
  EXPECT_THAT(description({.size_bytes = kMiB, .huge_pages = false}),
              Not(HasSubstr("huge pages")));
  const uint64_t memory = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                          static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t half = memory / 2 / kMiB * kMiB;
  EXPECT_THAT(description({.size_bytes = half}), Not(HasSubstr("huge pages")));
  EXPECT_THAT(description({.size_bytes = half, .huge_pages = true}),
              HasSubstr("huge pages"));
}

TEST(RamBackendTest, SmallPagesAreTakenOneByOne) {
  Medium medium({.size_bytes = 4 * kMiB, .huge_pages = false});
  EXPECT_EQ(medium.Write(kMiB, std::string(512, 'x')), IoStatus::kOk);
  EXPECT_TRUE(medium.Resident(kMiB));
  EXPECT_FALSE(medium.Resident(kMiB + 65536));
}

TEST(RamBackendTest, DirectMemoryIsTheMedium) {
  Medium medium({.size_bytes = kMiB});
  uint8_t* memory = medium->direct_memory();
  medium->NoteWritten(8192, 5);
  std::memcpy(memory + 8192, "hello", 5);
  EXPECT_EQ(medium.Read(8192, 5), "hello");
  EXPECT_FALSE(medium->ProvisioningAt(4096).mapped);
  EXPECT_EQ(medium->ProvisioningAt(4096).length, 4096u);
  EXPECT_TRUE(medium->ProvisioningAt(8192).mapped);
  EXPECT_EQ(medium->ProvisioningAt(8704).length, 4096u - 512);
  medium->NoteWritten(0, 0);
  EXPECT_FALSE(medium->ProvisioningAt(0).mapped) << "nothing was written";
}

TEST(RamBackendTest, UnmapFreesWholePagesAndZeroesEdges) {
  Medium medium({.size_bytes = 4 * kMiB});
  medium.Write(0, std::string(4 * kMiB, 'x'));
  ASSERT_TRUE(medium.Resident(2 * kMiB));
  EXPECT_EQ(medium.Do(Op::kUnmap, 512, 4 * kMiB - 1024).status, IoStatus::kOk);
  EXPECT_FALSE(medium.Resident(2 * kMiB));
  EXPECT_EQ(medium.Read(0, 1024),
            std::string(512, 'x') + std::string(512, '\0'));
  EXPECT_EQ(medium.Read(4 * kMiB - 1024, 1024),
            std::string(512, '\0') + std::string(512, 'x'));
  EXPECT_TRUE(medium->ProvisioningAt(0).mapped) << "partly written";
  EXPECT_FALSE(medium->ProvisioningAt(4096).mapped);
  EXPECT_EQ(medium->ProvisioningAt(4096).length, 4 * kMiB - 8192);
  EXPECT_TRUE(medium->ProvisioningAt(4 * kMiB - 512).mapped);
}

TEST(RamBackendTest, UnmapToThePartialEndCoversIt) {
  Medium medium({.size_bytes = 4096 + 512});
  medium.Write(0, std::string(4096 + 512, 'x'));
  medium.Do(Op::kUnmap, 4096, 512);
  EXPECT_FALSE(medium->ProvisioningAt(4096).mapped);
  EXPECT_EQ(medium.Read(4096, 512), std::string(512, '\0'));
  EXPECT_EQ(medium.Read(3584, 512), std::string(512, 'x'));
}

TEST(RamBackendTest, UnmapInsideOnePageTouchesOnlyItsRange) {
  Medium medium({.size_bytes = kMiB});
  medium.Write(0, std::string(2048, 'x'));
  medium.Do(Op::kUnmap, 512, 512);
  EXPECT_EQ(
      medium.Read(0, 2048),
      std::string(512, 'x') + std::string(512, '\0') + std::string(1024, 'x'));
}

TEST(RamBackendTest, ThickMediumKeepsItsPages) {
  Medium medium({.size_bytes = 4 * kMiB, .thin = false});
  medium.Write(0, std::string(4 * kMiB, 'x'));
  medium.Do(Op::kUnmap, 0, 4 * kMiB);
  EXPECT_TRUE(medium.Resident(2 * kMiB));
  EXPECT_EQ(medium.Read(0, 4 * kMiB), std::string(4 * kMiB, '\0'));
  EXPECT_TRUE(medium->ProvisioningAt(0).mapped);
  EXPECT_EQ(medium->ProvisioningAt(0).length, 4 * kMiB);
}

TEST(RamBackendTest, WriteZeroesKeepsOrFreesBlocks) {
  for (const uint64_t length : {uint64_t{8192}, 2 * kMiB}) {
    Medium medium({.size_bytes = 4 * kMiB});
    medium.Write(0, std::string(4 * kMiB, 'x'));
    medium.Do(Op::kWriteZeroes, 4096, length, nullptr, /*may_unmap=*/true);
    EXPECT_FALSE(medium->ProvisioningAt(4096).mapped);
    EXPECT_EQ(medium.Read(4096, length), std::string(length, '\0'));
    medium.Do(Op::kWriteZeroes, 4096, length);
    EXPECT_TRUE(medium->ProvisioningAt(4096).mapped);
    EXPECT_EQ(medium.Read(4096, length), std::string(length, '\0'));
    EXPECT_EQ(medium.Read(4096 + length, 1), "x");
    EXPECT_EQ(medium.Read(4095, 1), "x");
  }
}

TEST(RamBackendTest, CompareAndWrite) {
  Medium medium({.size_bytes = kMiB});
  medium.Write(512, std::string(512, 'a'));
  std::string data = std::string(512, 'a') + std::string(512, 'b');
  EXPECT_EQ(medium.Do(Op::kCompareAndWrite, 512, 512, data.data()).status,
            IoStatus::kOk);
  EXPECT_EQ(medium.Read(512, 512), std::string(512, 'b'));

  data = std::string(100, 'b') + std::string(412, 'a') + std::string(512, 'c');
  const IoRequest miss = medium.Do(Op::kCompareAndWrite, 512, 512, data.data());
  EXPECT_EQ(miss.status, IoStatus::kMiscompare);
  EXPECT_EQ(miss.error_offset, 612u);
  EXPECT_EQ(medium.Read(512, 512), std::string(512, 'b')) << "unchanged";
}

TEST(RamBackendTest, RefusesWhatIsOutOfBoundsOrReadOnly) {
  Medium medium({.size_bytes = kMiB, .read_only = true});
  std::string data(1024, 'x');
  EXPECT_EQ(medium.Do(Op::kRead, kMiB - 512, 1024, data.data()).status,
            IoStatus::kReadError);
  EXPECT_EQ(medium.Do(Op::kRead, ~uint64_t{0} - 511, 1024, data.data()).status,
            IoStatus::kReadError);
  for (const Op op : {Op::kWrite, Op::kUnmap, Op::kWriteZeroes}) {
    EXPECT_EQ(medium.Do(op, 0, 1024, data.data()).status,
              IoStatus::kNotSupported);
  }
  EXPECT_EQ(medium.Do(Op::kFlush, 0, 0).status, IoStatus::kOk);
  EXPECT_EQ(medium.Read(0, 1024), std::string(1024, '\0'));
}

TEST(RamBackendTest, AgreesWithAModel) {
  constexpr uint64_t kSize = 256 * 1024;
  Medium medium({.size_bytes = kSize});
  std::string model(kSize, '\0');
  std::mt19937 random(7);
  for (int i = 0; i < 5000; ++i) {
    const uint64_t offset = random() % (kSize / 512) * 512;
    const uint64_t length =
        std::min<uint64_t>(kSize - offset, random() % 64 * 512);
    switch (random() % 4) {
      case 0: {
        const std::string data(length, static_cast<char>('a' + i % 26));
        medium.Write(offset, data);
        model.replace(offset, length, data);
        break;
      }
      case 1:
        medium.Do(Op::kUnmap, offset, length);
        model.replace(offset, length, std::string(length, '\0'));
        break;
      case 2:
        medium.Do(Op::kWriteZeroes, offset, length, nullptr, random() % 2);
        model.replace(offset, length, std::string(length, '\0'));
        break;
      default:
        ASSERT_EQ(medium.Read(offset, length), model.substr(offset, length));
    }
  }
  EXPECT_EQ(medium.Read(0, kSize), model);
  // What is said to be unmapped reads as zeroes.
  for (uint64_t at = 0; at < kSize;) {
    const ProvisioningExtent extent = medium->ProvisioningAt(at);
    ASSERT_GT(extent.length, 0u);
    if (!extent.mapped) {
      ASSERT_EQ(model.substr(at, extent.length),
                std::string(extent.length, '\0'));
    }
    at += extent.length;
  }
}

}  // namespace
}  // namespace skiff::scsi
