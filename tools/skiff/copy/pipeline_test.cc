#include "tools/skiff/copy/pipeline.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/skiff/base/exit_code.h"

namespace skiff::tools {
namespace {

constexpr uint32_t kPiece = 4096;

// A peer in memory. Synchronous, or answering in reverse order when asked to.
class MemoryPeer : public CopyPeer {
 public:
  explicit MemoryPeer(std::string bytes) : bytes(std::move(bytes)) {}

  std::string name() const override { return "memory"; }
  std::optional<uint64_t> size() const override { return size_; }
  uint32_t granularity() const override { return granularity_; }
  bool ordered() const override { return ordered_; }

  void Read(CopySlot* slot) override {
    Do([this, slot] {
      if (slot->offset == fail_at) slot->status = absl::DataLossError("no");
      const uint64_t left =
          slot->offset < bytes.size() ? bytes.size() - slot->offset : 0;
      if (left < slot->size) slot->end = true;
      slot->size = static_cast<uint32_t>(std::min<uint64_t>(left, slot->size));
      if (!reads_nothing_) {
        std::memcpy(slot->data, bytes.data() + slot->offset, slot->size);
      }
      slot->done(slot);
    });
  }
  void Write(CopySlot* slot) override {
    if (ordered_) {
      EXPECT_EQ(slot->offset, expected_offset_);
      expected_offset_ += slot->size;
    }
    Do([this, slot] {
      if (slot->offset == fail_at) slot->status = absl::DataLossError("no");
      bytes.resize(std::max(bytes.size(), slot->offset + slot->size));
      std::memcpy(bytes.data() + slot->offset, slot->data, slot->size);
      slot->done(slot);
    });
  }
  bool WriteZeroes(CopySlot* slot) override {
    if (!zeroes_) return false;
    ++zeroed;
    bytes.resize(std::max(bytes.size(), slot->offset + slot->size));
    slot->done(slot);
    return true;
  }
  absl::Status Finish(uint64_t) override { return absl::OkStatus(); }

  // Runs what was asked of an asynchronous peer, the last first.
  bool RunOne() {
    if (queue_.empty()) return false;
    const std::function<void()> fn = std::move(queue_.back());
    queue_.pop_back();
    fn();
    return true;
  }

  std::string bytes;
  std::optional<uint64_t> size_;
  uint32_t granularity_ = 1;
  bool ordered_ = false;
  bool asynchronous_ = false;
  bool zeroes_ = false;
  bool reads_nothing_ = false;  // And says that it did.
  uint64_t fail_at = ~uint64_t{0};
  int zeroed = 0;

 private:
  void Do(std::function<void()> fn) {
    asynchronous_ ? queue_.push_back(std::move(fn)) : fn();
  }
  std::deque<std::function<void()>> queue_;
  uint64_t expected_offset_ = 0;
};

std::string Bytes(size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<char>((i * 7 + i / 251) & 0xff);
  }
  return bytes;
}

// Runs a pass to its end and returns its status.
absl::Status Copy(Pipeline* pipeline, MemoryPeer* from, MemoryPeer* to) {
  std::optional<absl::Status> status;
  pipeline->Copy(from, to, [&](const absl::Status& s) { status = s; });
  while (!status.has_value() && (from->RunOne() || to->RunOne())) {
  }
  EXPECT_TRUE(status.has_value()) << "the pipeline hangs";
  return status.value_or(absl::UnknownError("hangs"));
}

absl::Status Verify(Pipeline* pipeline, MemoryPeer* peer) {
  std::optional<absl::Status> status;
  pipeline->Verify(peer, [&](const absl::Status& s) { status = s; });
  while (!status.has_value() && peer->RunOne()) {
  }
  EXPECT_TRUE(status.has_value()) << "the pipeline hangs";
  return status.value_or(absl::UnknownError("hangs"));
}

PipelineOptions Options(std::optional<uint64_t> length = std::nullopt) {
  PipelineOptions options;
  options.length = length;
  options.piece_bytes = kPiece;
  options.depth = 4;
  return options;
}

TEST(PipelineTest, StoppedWithAWholeStart) {
  MemoryPeer from(Bytes(100 * kPiece));
  MemoryPeer to("");
  from.asynchronous_ = to.asynchronous_ = true;
  Pipeline pipeline(Options(100 * kPiece));
  std::optional<absl::Status> status;
  pipeline.Copy(&from, &to, [&](const absl::Status& s) { status = s; });
  for (int i = 0; i < 20; ++i) from.RunOne() || to.RunOne();
  pipeline.Stop();
  while (from.RunOne() || to.RunOne()) {
  }
  ASSERT_TRUE(status.has_value());
  EXPECT_TRUE(status->ok()) << *status;
  EXPECT_GT(pipeline.bytes_done(), 0u);
  EXPECT_LT(pipeline.bytes_done(), 100 * kPiece);
  EXPECT_EQ(to.bytes, from.bytes.substr(0, pipeline.bytes_done()));
}

// What a pipe gave of a block when nobody wants to wait for the rest of it.
TEST(PipelineTest, StoppedWithinABlock) {
  MemoryPeer from(Bytes(kPiece + 700));
  MemoryPeer to("");
  from.asynchronous_ = true;
  to.granularity_ = 512;
  Pipeline pipeline(Options());
  std::optional<absl::Status> status;
  pipeline.Copy(&from, &to, [&](const absl::Status& s) { status = s; });
  pipeline.Stop();
  while (from.RunOne()) {
  }
  ASSERT_TRUE(status.has_value());
  EXPECT_TRUE(status->ok()) << *status;
  EXPECT_EQ(pipeline.bytes_done(), kPiece + 512u);
  EXPECT_EQ(to.bytes, from.bytes.substr(0, kPiece + 512));
}

TEST(PipelineTest, CopiesWhateverIsAsynchronous) {
  for (const size_t size : {0u, 1u, 4096u, 4097u, 50000u}) {
    for (int kinds = 0; kinds < 8; ++kinds) {
      MemoryPeer from(Bytes(size));
      MemoryPeer to("");
      from.asynchronous_ = (kinds & 1) != 0;
      to.asynchronous_ = (kinds & 2) != 0;
      to.ordered_ = (kinds & 4) != 0;
      Pipeline pipeline(Options(size));
      ASSERT_TRUE(Copy(&pipeline, &from, &to).ok());
      EXPECT_TRUE(from.bytes == to.bytes) << size << " " << kinds;
      EXPECT_EQ(pipeline.bytes_done(), size);
      EXPECT_TRUE(Verify(&pipeline, &to).ok());
    }
  }
}

TEST(PipelineTest, CopiesAPipeToItsEnd) {
  for (const size_t size : {0u, 4095u, 4096u, 40960u, 50000u}) {
    MemoryPeer from(Bytes(size));
    MemoryPeer to("");
    to.asynchronous_ = true;
    Pipeline pipeline(Options());
    ASSERT_TRUE(Copy(&pipeline, &from, &to).ok());
    EXPECT_TRUE(from.bytes == to.bytes) << size;
  }
}

TEST(PipelineTest, CopiesNoMoreThanAskedFor) {
  MemoryPeer from(Bytes(50000));
  MemoryPeer to("");
  Pipeline pipeline(Options(5000));
  ASSERT_TRUE(Copy(&pipeline, &from, &to).ok());
  EXPECT_TRUE(to.bytes == from.bytes.substr(0, 5000));
}

TEST(PipelineTest, NoticesASourceThatEndsEarly) {
  MemoryPeer from(Bytes(5000));
  MemoryPeer to("");
  Pipeline pipeline(Options(6000));
  EXPECT_EQ(Copy(&pipeline, &from, &to).message(),
            "memory ended after 5000 of 6000 bytes");
}

TEST(PipelineTest, VerifyFindsOneChangedBit) {
  MemoryPeer from(Bytes(50000));
  MemoryPeer to("");
  to.asynchronous_ = true;
  Pipeline pipeline(Options(50000));
  ASSERT_TRUE(Copy(&pipeline, &from, &to).ok());
  to.bytes[9000] ^= 4;
  const absl::Status status = Verify(&pipeline, &to);
  EXPECT_EQ(status.message(),
            "verification failed: memory differs from the source between bytes "
            "8192 and 12288 of the copy");
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kVerifyFailed);
}

// The buffers still hold what was copied.
TEST(PipelineTest, VerifyFindsReadsThatBringNothing) {
  MemoryPeer from(Bytes(kPiece));
  MemoryPeer to("");
  Pipeline pipeline(Options(kPiece));
  ASSERT_TRUE(Copy(&pipeline, &from, &to).ok());
  to.reads_nothing_ = true;
  EXPECT_EQ(ExitCodeOf(Verify(&pipeline, &to)), ExitCode::kVerifyFailed);
}

TEST(PipelineTest, RefusesOrPadsAPartialBlock) {
  MemoryPeer from(Bytes(5000));
  MemoryPeer to("");
  to.granularity_ = 512;
  Pipeline pipeline(Options());
  const absl::Status status = Copy(&pipeline, &from, &to);
  EXPECT_EQ(status.message(),
            "memory has 5000 bytes, no multiple of the block size, 512: --pad "
            "fills the last block with zeroes. The 4096 bytes before were "
            "written");
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kUsage);

  PipelineOptions options = Options();
  options.pad = true;
  Pipeline padding(options);
  ASSERT_TRUE(Copy(&padding, &from, &to).ok());
  EXPECT_TRUE(to.bytes == from.bytes + std::string(120, '\0'));
  EXPECT_TRUE(Verify(&padding, &to).ok());
}

TEST(PipelineTest, RefusesWhatDoesNotFit) {
  MemoryPeer from(Bytes(9000));
  MemoryPeer to("");
  to.size_ = 8192;
  Pipeline pipeline(Options());
  EXPECT_EQ(Copy(&pipeline, &from, &to).message(),
            "memory is longer than the 8192 bytes of memory. The 8192 bytes "
            "before were written");
}

TEST(PipelineTest, EndsAfterAFailureWithEverythingBack) {
  for (int kinds = 0; kinds < 16; ++kinds) {
    MemoryPeer from(Bytes(50000));
    MemoryPeer to("");
    from.asynchronous_ = (kinds & 1) != 0;
    to.asynchronous_ = (kinds & 2) != 0;
    to.ordered_ = (kinds & 4) != 0;
    ((kinds & 8) != 0 ? from : to).fail_at = 8192;
    Pipeline pipeline(Options(50000));
    EXPECT_EQ(Copy(&pipeline, &from, &to).message(), "no") << kinds;
  }
}

TEST(PipelineTest, LeavesZeroesOutWhereTheDestinationCan) {
  MemoryPeer from(std::string(8192, '\0') + Bytes(4096) +
                  std::string(4096, '\0'));
  MemoryPeer to("");
  to.zeroes_ = true;
  PipelineOptions options = Options(16384);
  options.sparse = true;
  Pipeline pipeline(options);
  ASSERT_TRUE(Copy(&pipeline, &from, &to).ok());
  EXPECT_EQ(to.zeroed, 3);
  EXPECT_TRUE(to.bytes == from.bytes);

  MemoryPeer cannot("");
  ASSERT_TRUE(Copy(&pipeline, &from, &cannot).ok());
  EXPECT_TRUE(cannot.bytes == from.bytes);
}

}  // namespace
}  // namespace skiff::tools
