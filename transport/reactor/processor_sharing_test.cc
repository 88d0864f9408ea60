#include "transport/reactor/processor_sharing.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <future>
#include <initializer_list>
#include <iostream>
#include <memory>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "transport/reactor/reactor.h"
#include "transport/reactor/reactor_threads.h"

namespace {

// Yields of the thread that has set it.
thread_local std::atomic<int>* yields = nullptr;

}  // namespace

// Instead of the library's.
extern "C" int sched_yield() noexcept {
  if (yields != nullptr) ++*yields;
  return static_cast<int>(syscall(SYS_sched_yield));
}

namespace skiff::transport {
namespace {

constexpr absl::Time kStart = absl::UnixEpoch();

cpu_set_t Set(std::initializer_list<int> processors) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int processor : processors) CPU_SET(processor, &set);
  return set;
}

// Those that the test may run on.
std::vector<int> Allowed() {
  cpu_set_t set;
  EXPECT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
  std::vector<int> processors;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &set)) processors.push_back(i);
  }
  return processors;
}

// What the kernel tells of the calling thread's slice. Zero if there is no
// such: in older kernels, and where the test is run as SCHED_IDLE or the like.
absl::Duration Slice() {
  struct {
    uint32_t size, policy;
    uint64_t flags;
    uint32_t nice, priority;
    uint64_t runtime, deadline, period;
  } attributes = {};
  EXPECT_EQ(syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0),
            0);
  return attributes.policy == SCHED_OTHER
             ? absl::Nanoseconds(attributes.runtime)
             : absl::ZeroDuration();
}

TEST(ProcessorSharingTest, IsCrowdedWhereMoreAreConfinedThanThereAre) {
  const auto crowded = [](const cpu_set_t& own,
                          const std::vector<cpu_set_t>& all) {
    ProcessorSharing::Crowd crowd(own);
    for (const cpu_set_t& each : all) crowd.Add(each);
    return crowd.too_many();
  };
  const cpu_set_t both = Set({0, 1});
  EXPECT_FALSE(crowded(both, {both}));
  EXPECT_FALSE(crowded(both, {both, both}));
  EXPECT_TRUE(crowded(both, {both, both, both}));
  // Each has one of its own.
  EXPECT_FALSE(crowded(Set({0}), {Set({0}), Set({1}), Set({2})}));
  EXPECT_TRUE(crowded(Set({0}), {Set({0}), Set({1}), Set({0})}));
  EXPECT_FALSE(crowded(Set({1}), {Set({0}), Set({1}), Set({0})}));
  // Those who can go elsewhere do.
  EXPECT_FALSE(crowded(Set({0}), {Set({0}), both}));
  EXPECT_TRUE(crowded(both, {Set({0}), both, Set({1})}));
  EXPECT_FALSE(
      crowded(Set({0, 1, 2, 3}), {Set({0}), Set({0}), Set({0, 1, 2, 3})}));
}

// Of two threads that may run on one processor, the test's is one.
class OneProcessorTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(sched_getaffinity(0, sizeof(allowed_), &allowed_), 0);
    const cpu_set_t one = Set({Allowed().front()});
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    own_slice_ = Slice();
    yields = &yielded_;
    sharing_.Begin(kStart);
    other_ = std::thread([this] {
      ProcessorSharing other;
      other.Begin(kStart);
      began_.set_value();
      end_.get_future().wait();
    });
    began_.get_future().wait();
  }
  void TearDown() override {
    OtherEnds();
    yields = nullptr;
    sched_setaffinity(0, sizeof(allowed_), &allowed_);
  }
  void OtherEnds() {
    if (!other_.joinable()) return;
    end_.set_value();
    other_.join();
  }
  // A turn of the reactor that begins now, without sleep before it. True if it
  // yields.
  bool Turn(absl::Time now) {
    const int before = yielded_;
    if (sharing_.due(now) && sharing_.Attend(now)) sharing_.OnYielded(now);
    return yielded_ > before;
  }

  const absl::Time looked_ = kStart + ProcessorSharing::kFirstLook;
  cpu_set_t allowed_;
  absl::Duration own_slice_;
  std::atomic<int> yielded_{0};
  ProcessorSharing sharing_;
  std::promise<void> began_, end_;
  std::thread other_;
};

TEST_F(OneProcessorTest, YieldsAfterWork) {
  EXPECT_FALSE(Turn(looked_ - absl::Nanoseconds(1)));
  EXPECT_FALSE(sharing_.crowded());
  EXPECT_TRUE(Turn(looked_));
  EXPECT_TRUE(sharing_.crowded());
  absl::Time now = looked_;
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(Turn(now + ProcessorSharing::kMostWork / 2));
    now += ProcessorSharing::kMostWork;
    EXPECT_TRUE(Turn(now));
  }
}

TEST_F(OneProcessorTest, DoesNotYieldAfterSleep) {
  absl::Time now = looked_;
  EXPECT_TRUE(Turn(now));
  for (int i = 0; i < 100; ++i) {
    now += 2 * ProcessorSharing::kMostWork;
    sharing_.OnWaited(now - ProcessorSharing::kMostWork, now);
    EXPECT_FALSE(Turn(now));
  }
  // What was there already is no sleep.
  now += 2 * ProcessorSharing::kMostWork;
  sharing_.OnWaited(now - absl::Microseconds(1), now);
  EXPECT_TRUE(Turn(now));
}

TEST_F(OneProcessorTest, HasLongerSlicesWhileItNeverSleeps) {
  // Kernels without slices of one's own (before Linux 6.12) keep theirs.
  const bool own_slices = own_slice_ != absl::ZeroDuration();
  const auto expected = [&](absl::Duration slice) {
    return own_slices ? slice : absl::ZeroDuration();
  };
  absl::Time now = looked_;
  sharing_.OnWaited(kStart, now);
  Turn(now);
  sharing_.OnWaited(now - absl::Milliseconds(1), now);
  EXPECT_EQ(Slice(), expected(ProcessorSharing::kSlice));
  for (const absl::Time end = now + ProcessorSharing::kNeverIdle; now < end;) {
    EXPECT_EQ(Slice(), expected(ProcessorSharing::kSlice));
    now += ProcessorSharing::kMostWork;
    Turn(now);
  }
  EXPECT_EQ(Slice(), expected(ProcessorSharing::kSliceNeverIdle));
  now += absl::Milliseconds(1);
  sharing_.OnWaited(now - absl::Milliseconds(1), now);
  EXPECT_EQ(Slice(), expected(ProcessorSharing::kSlice));
  sharing_.End();
  EXPECT_EQ(Slice(), own_slice_);
}

TEST_F(OneProcessorTest, SeesTheOthersGo) {
  EXPECT_TRUE(Turn(looked_));
  OtherEnds();
  const absl::Time again = looked_ + ProcessorSharing::kLookInterval;
  EXPECT_TRUE(Turn(again - ProcessorSharing::kMostWork));
  EXPECT_FALSE(Turn(again));
  EXPECT_FALSE(sharing_.crowded());
  EXPECT_EQ(Slice(), own_slice_);
  EXPECT_FALSE(Turn(again + ProcessorSharing::kMostWork));
}

// Always has work.
class Busy : public Poller {
 public:
  explicit Busy(Reactor* reactor) : reactor_(reactor) {}
  int Poll() override {
    yields = &yielded;
    while (reactor_->NowInTurn() - reactor_->Now() < absl::Microseconds(20)) {
    }
    worked_us += 20;
    return 1;
  }
  std::atomic<int> yielded{0};
  std::atomic<int64_t> worked_us{0};

 private:
  Reactor* const reactor_;
};

class ReactorsTest : public testing::Test {
 protected:
  // The first one has work.
  void Start(const std::vector<int>& processors) {
    ReactorThreadsOptions options;
    options.count = static_cast<int>(processors.size());
    options.cpus = processors;
    auto threads = ReactorThreads::Start(options);
    ASSERT_TRUE(threads.ok()) << threads.status();
    threads_ = *std::move(threads);
    busy_ = std::make_unique<Busy>(threads_->reactor(0));
    threads_->RunOn(0, [this] {
      threads_->reactor(0)->AddPoller(busy_.get(), /*busy=*/true);
    });
  }
  void TearDown() override {
    if (threads_ == nullptr) return;
    threads_->RunOn(
        0, [this] { threads_->reactor(0)->RemovePoller(busy_.get()); });
  }
  // Fails where it takes far too long.
  template <typename Condition>
  void WaitUntil(Condition condition) const {
    const absl::Time deadline = absl::Now() + absl::Seconds(30);
    while (!condition()) {
      if (absl::Now() > deadline) {
        FAIL() << busy_->yielded << " yields, " << busy_->worked_us << " us";
      }
      absl::SleepFor(absl::Milliseconds(1));
    }
  }
  void WaitForYields() const {
    WaitUntil([this] { return busy_->yielded >= 100; });
  }

  std::unique_ptr<Busy> busy_;
  std::unique_ptr<ReactorThreads> threads_;
};

TEST_F(ReactorsTest, YieldToOneAnotherOnOneProcessor) {
  const int processor = Allowed().front();
  Start({processor, processor});
  WaitForYields();
}

TEST_F(ReactorsTest, KeepTheirOwnProcessors) {
  const std::vector<int> processors = Allowed();
  if (processors.size() < 2) {
    std::cerr << "Only one processor: nothing to keep.\n";
    return;
  }
  Start({processors[0], processors[1]});
  WaitUntil([this] {
    return busy_->worked_us >=
           absl::ToInt64Microseconds(4 * ProcessorSharing::kFirstLook);
  });
  EXPECT_EQ(busy_->yielded, 0);
  // Whoever runs the process may take one away.
  const cpu_set_t one = Set({processors[0]});
  threads_->RunOn(
      1, [&one] { EXPECT_EQ(sched_setaffinity(0, sizeof(one), &one), 0); });
  WaitForYields();
}

}  // namespace
}  // namespace skiff::transport
