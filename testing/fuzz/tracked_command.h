#ifndef SKIFF_TESTING_FUZZ_TRACKED_COMMAND_H_
#define SKIFF_TESTING_FUZZ_TRACKED_COMMAND_H_

#include <sys/uio.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "protocol/initiator/initiator.h"
#include "scsi/initiator/cdb.h"
#include "scsi/initiator/command.h"
#include "testing/fuzz/check.h"
#include "testing/sim/guard_pages.h"
#include "testing/sim/sim_world.h"

namespace skiff::protocol {

// The memory of commands, each piece with its end at a page that nobody may
// touch; or all in one piece of memory, with gaps.
class Memories {
 public:
  explicit Memories(bool as_a_whole) {
    if (!as_a_whole) return;
    arena_ = std::make_shared<testing::GuardPages>(kArenaBytes);
    arena_->Use(kArenaBytes, kGap);
  }

  char* Allocate(size_t size, char content) {
    if (arena_ == nullptr) {
      testing::GuardPages& memory =
          *pages_.emplace_back(std::make_unique<testing::GuardPages>(size));
      memory.Use(size, content);
      return memory.data();
    }
    at_ += kGapBytes;
    char* const memory = arena_->data() + at_;
    std::fill_n(memory, size, content);
    used_.emplace_back(at_, size);
    at_ += size;
    SKIFF_FUZZ_CHECK(at_ < kArenaBytes);
    return memory;
  }

  // Nothing but what was allocated has changed.
  void Check() const {
    for (const auto& memory : pages_) SKIFF_FUZZ_CHECK(memory->intact());
    if (arena_ == nullptr) return;
    size_t begin = 0;
    for (const auto& [offset, size] : used_) {
      CheckGap(begin, offset);
      begin = offset + size;
    }
    CheckGap(begin, kArenaBytes);
  }

  const std::shared_ptr<testing::GuardPages>& arena() const { return arena_; }

 private:
  static constexpr size_t kArenaBytes = 65536;
  static constexpr size_t kGapBytes = 100;
  static constexpr char kGap = 'g';

  void CheckGap(size_t begin, size_t end) const {
    for (char c : arena_->view().substr(begin, end - begin)) {
      SKIFF_FUZZ_CHECK(c == kGap);
    }
  }

  std::vector<std::unique_ptr<testing::GuardPages>> pages_;
  std::shared_ptr<testing::GuardPages> arena_;
  size_t at_ = 0;
  std::vector<std::pair<size_t, size_t>> used_;
};

// A command that can be issued again and again.
class TrackedCommand {
 public:
  struct Shape {
    uint32_t in;
    uint32_t out;
    int pieces;
  };
  TrackedCommand(const Shape& shape, Memories* memories,
                 const testing::SimWorld* world)
      : world_(world) {
    SetCdb(scsi::cdb::TestUnitReady(), &command_);
    command_.context = this;
    command_.done = [](scsi::Command* done) {
      static_cast<TrackedCommand*>(done->context)->OnDone();
    };
    in_.Allocate(shape.in, shape.pieces, kUntouched, memories);
    out_.Allocate(shape.out, shape.pieces, kSent, memories);
    command_.data_in = in_.iov.data();
    command_.data_in_count = static_cast<int>(in_.iov.size());
    command_.data_in_length = shape.in;
    command_.data_out = out_.iov.data();
    command_.data_out_count = static_cast<int>(out_.iov.size());
    command_.data_out_length = shape.out;
  }

  void Submit(Initiator* initiator) {
    if (!finished_) return;
    Check();
    finished_ = false;
    submitted_ = world_->now();
    command_.outcome = scsi::Command::Outcome::kPending;
    in_.Fill(kUntouched);
    initiator->Submit(&command_);
  }
  scsi::Command* command() { return &command_; }
  bool finished() const { return finished_; }

  // What is to be sent never changes, and what has come not any more.
  void Check() const {
    SKIFF_FUZZ_CHECK(out_.Content().find_first_not_of(kSent) ==
                     std::string::npos);
    SKIFF_FUZZ_CHECK(!finished_ || !came_.has_value() ||
                     in_.Content() == *came_);
  }

 private:
  static constexpr char kUntouched = '\xa5';
  static constexpr char kSent = 's';
  // A command that waits for the window may see each of those before it end at
  // the last moment of SessionTimeouts::command_timeout.
  static constexpr absl::Duration kLongest = absl::Minutes(10);

  struct Data {
    std::vector<iovec> iov;

    void Allocate(uint32_t size, int pieces, char content, Memories* memories) {
      if (size == 0) return;
      for (int i = 0; i < pieces; ++i) {
        const size_t piece = size / pieces;
        iov.push_back({memories->Allocate(piece, content), piece});
      }
    }
    void Fill(char content) {
      for (const iovec& piece : iov) {
        std::fill_n(static_cast<char*>(piece.iov_base), piece.iov_len, content);
      }
    }
    std::string Content() const {
      std::string content;
      for (const iovec& piece : iov) {
        content.append(static_cast<const char*>(piece.iov_base), piece.iov_len);
      }
      return content;
    }
  };

  void OnDone() {
    SKIFF_FUZZ_CHECK(!finished_);
    SKIFF_FUZZ_CHECK(command_.outcome != scsi::Command::Outcome::kPending);
    SKIFF_FUZZ_CHECK(world_->now() - submitted_ <= kLongest);
    finished_ = true;
    came_ = in_.Content();
  }

  const testing::SimWorld* const world_;
  absl::Time submitted_;
  scsi::Command command_;
  Data in_;
  Data out_;
  bool finished_ = true;
  std::optional<std::string> came_;
};

}  // namespace skiff::protocol

#endif  // SKIFF_TESTING_FUZZ_TRACKED_COMMAND_H_
