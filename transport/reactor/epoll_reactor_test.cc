#include "transport/reactor/epoll_reactor.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace skiff::transport {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<EpollReactor> MakeReactor(
    absl::Duration spin = absl::ZeroDuration()) {
  EpollReactorOptions options;
  options.spin = spin;
  auto reactor = EpollReactor::Create(options);
  EXPECT_TRUE(reactor.ok()) << reactor.status();
  return *std::move(reactor);
}

absl::Duration ThreadCpuTime() {
  timespec ts;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
  return absl::DurationFromTimespec(ts);
}

class EventFd {
 public:
  EventFd() : fd_(eventfd(0, EFD_NONBLOCK)) {}
  ~EventFd() { close(fd_); }
  int get() const { return fd_; }
  void Signal() {
    const uint64_t one = 1;
    EXPECT_EQ(write(fd_, &one, sizeof(one)), 8);
  }

 private:
  int fd_;
};

class CallbackHandler : public FdHandler {
 public:
  explicit CallbackHandler(std::function<void(uint32_t)> fn)
      : fn_(std::move(fn)) {}
  void OnFdReady(uint32_t events) override { fn_(events); }

 private:
  std::function<void(uint32_t)> fn_;
};

class CallbackPoller : public Poller {
 public:
  explicit CallbackPoller(std::function<int()> fn) : fn_(std::move(fn)) {}
  int Poll() override { return fn_(); }

 private:
  std::function<int()> fn_;
};

class CallbackHook : public TurnHook {
 public:
  explicit CallbackHook(std::function<void()> fn) : fn_(std::move(fn)) {}
  void OnTurnEnd() override { fn_(); }

 private:
  std::function<void()> fn_;
};

bool Readable(int fd) {
  pollfd p = {fd, POLLIN, 0};
  return poll(&p, 1, 0) == 1;
}

TEST(EpollReactorTest, RefusesBadOptions) {
  EpollReactorOptions options;
  options.max_events_per_turn = 0;
  EXPECT_EQ(EpollReactor::Create(options).status().code(),
            absl::StatusCode::kInvalidArgument);
  options = {};
  options.spin = -absl::Seconds(1);
  EXPECT_EQ(EpollReactor::Create(options).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(EpollReactorTest, RunReturnsAfterStop) {
  auto reactor = MakeReactor();
  reactor->Post([&] { reactor->Stop(); });
  reactor->Run();
  // A Stop() before Run() ends the next one.
  reactor->Stop();
  reactor->Run();
  // And only that one.
  int turns = 0;
  Timer timer(reactor.get(), [&] {
    ++turns;
    reactor->Stop();
  });
  timer.ScheduleAfter(absl::Milliseconds(1));
  reactor->Run();
  EXPECT_EQ(turns, 1);
}

TEST(EpollReactorTest, StopFromAnotherThreadWakesASleeper) {
  auto reactor = MakeReactor();
  std::thread stopper([&] {
    absl::SleepFor(absl::Milliseconds(20));
    reactor->Stop();
  });
  reactor->Run();
  stopper.join();
}

TEST(EpollReactorTest, PostsOfEachThreadKeepTheirOrder) {
  constexpr int kThreads = 4;
  constexpr int kPosts = 5000;
  auto reactor = MakeReactor();
  std::vector<int> next(kThreads, 0);
  int total = 0;
  bool ordered = true;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kPosts; ++i) {
        reactor->Post([&, t, i] {
          ordered = ordered && next[t] == i;
          next[t] = i + 1;
          if (++total == kThreads * kPosts) reactor->Stop();
        });
      }
    });
  }
  reactor->Run();
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(ordered);
  EXPECT_EQ(total, kThreads * kPosts);
}

// Ping-pong between two sleeping reactors: a lost wakeup would hang this.
TEST(EpollReactorTest, NoWakeupIsLost) {
  auto a = MakeReactor();
  auto b = MakeReactor();
  std::thread other([&] { b->Run(); });
  int rounds = 0;
  std::function<void()> ping = [&] {
    if (++rounds == 2000) {
      a->Stop();
      return;
    }
    b->Post([&] { a->Post(ping); });
  };
  a->Post(ping);
  a->Run();
  b->Stop();
  other.join();
  EXPECT_EQ(rounds, 2000);
}

TEST(EpollReactorTest, WhatAPostPostsRunsInALaterTurn) {
  auto reactor = MakeReactor();
  std::string order;
  reactor->Post([&] {
    order += "a";
    reactor->Post([&] { order += "b"; });
  });
  reactor->Poll();
  EXPECT_EQ(order, "a");
  EXPECT_LE(reactor->NextDeadline(), reactor->Now());
  EXPECT_TRUE(Readable(reactor->fd()));
  reactor->Poll();
  EXPECT_EQ(order, "ab");
}

TEST(EpollReactorTest, UnrunPostsAreDestroyedWithTheReactor) {
  auto reactor = MakeReactor();
  auto token = std::make_shared<int>(0);
  bool ran = false;
  reactor->Post([token, &ran] { ran = true; });
  EXPECT_EQ(token.use_count(), 2);
  reactor.reset();
  EXPECT_EQ(token.use_count(), 1);
  EXPECT_FALSE(ran);
}

// Uses the reactor to its end, as a connection that is being accepted does.
class Owned : public ReactorObject {
 public:
  Owned(Reactor* reactor, int* alive)
      : reactor_(reactor), alive_(alive), timer_(reactor, [] {}) {
    ++*alive_;
    timer_.ScheduleAfter(absl::Hours(1));
  }
  ~Owned() override {
    --*alive_;
    reactor_->Post([] { ADD_FAILURE() << "nobody turns the reactor"; });
  }

 private:
  Reactor* const reactor_;
  int* const alive_;
  Timer timer_;
};

TEST(EpollReactorTest, OwnedObjectsGoWithTheReactor) {
  int alive = 0;
  auto reactor = MakeReactor();
  std::vector<ReactorObject*> objects;
  for (int i = 0; i < 5; ++i) {
    auto object = std::make_unique<Owned>(reactor.get(), &alive);
    objects.push_back(object.get());
    reactor->Own(std::move(object));
  }
  // The first, one in the middle, and the last.
  for (const int i : {0, 2, 4}) {
    const auto back = reactor->Disown(objects[i]);
    EXPECT_EQ(back.get(), objects[i]);
  }
  EXPECT_EQ(alive, 2);
  reactor.reset();
  EXPECT_EQ(alive, 0);
}

TEST(EpollReactorTest, CallersLoopSeesPostsThroughTheDescriptor) {
  auto reactor = MakeReactor();
  EXPECT_FALSE(Readable(reactor->fd()));
  EXPECT_EQ(reactor->NextDeadline(), absl::InfiniteFuture());
  bool ran = false;
  std::thread poster([&] { reactor->Post([&] { ran = true; }); });
  pollfd p = {reactor->fd(), POLLIN, 0};
  ASSERT_EQ(poll(&p, 1, 10000), 1);
  poster.join();
  EXPECT_EQ(reactor->Poll(), 1);
  EXPECT_TRUE(ran);
  EXPECT_FALSE(Readable(reactor->fd()));
  // And again: the wakeup works more than once.
  reactor->Post([] {});
  reactor->Post([] {});
  EXPECT_TRUE(Readable(reactor->fd()));
  EXPECT_EQ(reactor->Poll(), 2);
  EXPECT_FALSE(Readable(reactor->fd()));
}

TEST(EpollReactorTest, CallersLoopSeesTimersThroughTheDeadline) {
  auto reactor = MakeReactor();
  bool expired = false;
  Timer timer(reactor.get(), [&] { expired = true; });
  const absl::Time start = EpollReactor::MonotonicNow();
  timer.ScheduleAfter(absl::Milliseconds(10));
  EXPECT_GE(reactor->NextDeadline(), start + absl::Milliseconds(10));
  EXPECT_LT(reactor->NextDeadline(), start + absl::Seconds(5));
  while (EpollReactor::MonotonicNow() < reactor->NextDeadline()) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  reactor->Poll();
  EXPECT_TRUE(expired);
  EXPECT_EQ(reactor->NextDeadline(), absl::InfiniteFuture());
}

TEST(EpollReactorTest, TimersExpireInOrderAndNotEarly) {
  auto reactor = MakeReactor();
  std::string order;
  const absl::Time start = EpollReactor::MonotonicNow();
  Timer c(reactor.get(), [&] {
    order += "c";
    EXPECT_GE(EpollReactor::MonotonicNow() - start, absl::Milliseconds(20));
    reactor->Stop();
  });
  Timer a(reactor.get(), [&] { order += "a"; });
  Timer b(reactor.get(), [&] { order += "b"; });
  Timer cancelled(reactor.get(), [&] { order += "x"; });
  c.ScheduleAfter(absl::Milliseconds(20));
  b.ScheduleAfter(absl::Milliseconds(10));
  a.ScheduleAfter(absl::Milliseconds(5));
  cancelled.ScheduleAfter(absl::Milliseconds(7));
  cancelled.Cancel();
  reactor->Run();
  EXPECT_EQ(order, "abc");
}

TEST(EpollReactorTest, NowStandsStillDuringATurn) {
  auto reactor = MakeReactor();
  absl::Time first, second;
  reactor->Post([&] { first = reactor->Now(); });
  reactor->Post([&] {
    absl::SleepFor(absl::Milliseconds(2));
    second = reactor->Now();
  });
  reactor->Poll();
  EXPECT_EQ(first, second);
  EXPECT_GE(reactor->Now(), second + absl::Milliseconds(2));
}

TEST(EpollReactorTest, ATurnGoesInTheDocumentedOrder) {
  auto reactor = MakeReactor();
  std::string order;
  CallbackHook late([&] { order += "L"; });
  CallbackHook hook([&] {
    order += "H";
    reactor->ScheduleTurnEnd(&late);
    reactor->ScheduleTurnEnd(&late);
  });
  CallbackPoller poller([&] {
    order += "P";
    reactor->ScheduleTurnEnd(&hook);
    return 0;
  });
  Timer timer(reactor.get(), [&] { order += "T"; });
  EventFd fd;
  CallbackHandler handler([&](uint32_t) {
    order += "F";
    reactor->ScheduleTurnEnd(&hook);
    reactor->ScheduleTurnEnd(&hook);
  });
  ASSERT_TRUE(reactor->WatchFd(fd.get(), EPOLLIN | EPOLLET, &handler).ok());
  fd.Signal();
  timer.ScheduleAt(absl::InfinitePast());
  reactor->Post([&] { order += "Q"; });
  reactor->AddPoller(&poller, /*busy=*/false);
  reactor->Poll();
  EXPECT_EQ(order, "FQTPHL");
  reactor->RemovePoller(&poller);
  reactor->UnwatchFd(fd.get());
  reactor->Poll();
  EXPECT_EQ(order, "FQTPHL");
}

// Whatever schedules itself again each time leaves the others their turns.
TEST(EpollReactorTest, NothingKeepsATurnFromEnding) {
  auto reactor = MakeReactor();
  int hooks = 0, posts = 0, timers = 0, events = 0;
  CallbackHook hook([&] {
    ++hooks;
    reactor->ScheduleTurnEnd(&hook);
  });
  std::function<void()> post = [&] {
    ++posts;
    reactor->Post(post);
  };
  Timer timer(reactor.get(), [&] {
    ++timers;
    timer.ScheduleAt(absl::InfinitePast());
  });
  EventFd fd;
  CallbackHandler handler([&](uint32_t) { ++events; });
  ASSERT_TRUE(reactor->WatchFd(fd.get(), EPOLLIN, &handler).ok());
  fd.Signal();
  reactor->ScheduleTurnEnd(&hook);
  reactor->Post(post);
  timer.ScheduleAt(absl::InfinitePast());
  for (int turn = 1; turn <= 100; ++turn) {
    EXPECT_GT(reactor->Poll(), 0);
    EXPECT_LE(hooks, turn * 8);
    EXPECT_EQ(posts, turn);
    EXPECT_EQ(timers, turn);
    EXPECT_EQ(events, turn);
    EXPECT_LE(reactor->NextDeadline(), reactor->Now());
  }
  reactor->UnwatchFd(fd.get());
}

TEST(EpollReactorTest, AHookThatIsDestroyedDoesNotRun) {
  auto reactor = MakeReactor();
  bool ran = false;
  {
    CallbackHook hook([&] { ran = true; });
    reactor->ScheduleTurnEnd(&hook);
    EXPECT_LE(reactor->NextDeadline(), reactor->Now());
  }
  EXPECT_EQ(reactor->NextDeadline(), absl::InfiniteFuture());
  reactor->Poll();
  EXPECT_FALSE(ran);
}

TEST(EpollReactorTest, UnwatchedHandlerIsNotCalledForACollectedEvent) {
  auto reactor = MakeReactor();
  EventFd a, b;
  int calls = 0;
  // Whichever of the two comes first silences the other.
  CallbackHandler on_a([&](uint32_t) {
    ++calls;
    reactor->UnwatchFd(b.get());
  });
  CallbackHandler on_b([&](uint32_t) {
    ++calls;
    reactor->UnwatchFd(a.get());
  });
  ASSERT_TRUE(reactor->WatchFd(a.get(), EPOLLIN, &on_a).ok());
  ASSERT_TRUE(reactor->WatchFd(b.get(), EPOLLIN, &on_b).ok());
  a.Signal();
  b.Signal();
  reactor->Poll();
  EXPECT_EQ(calls, 1);
}

TEST(EpollReactorTest, CollectedEventDoesNotReachTheNextWatchOfTheNumber) {
  auto reactor = MakeReactor();
  EventFd a, b;
  int stale = 0;
  CallbackHandler fresh([&](uint32_t) { ++stale; });
  auto rewatch = [&](int fd) {
    reactor->UnwatchFd(fd);
    // For output, which an eventfd reports at once, but not in this turn.
    ASSERT_TRUE(reactor->WatchFd(fd, EPOLLOUT, &fresh).ok());
  };
  CallbackHandler on_a([&](uint32_t) { rewatch(b.get()); });
  CallbackHandler on_b([&](uint32_t) { rewatch(a.get()); });
  ASSERT_TRUE(reactor->WatchFd(a.get(), EPOLLIN | EPOLLET, &on_a).ok());
  ASSERT_TRUE(reactor->WatchFd(b.get(), EPOLLIN | EPOLLET, &on_b).ok());
  a.Signal();
  b.Signal();
  reactor->Poll();
  EXPECT_EQ(stale, 0);
  reactor->Poll();
  EXPECT_EQ(stale, 1);
}

TEST(EpollReactorTest, WatchErrorsSayWhich) {
  auto reactor = MakeReactor();
  EventFd fd;
  CallbackHandler handler([](uint32_t) {});
  EXPECT_FALSE(reactor->WatchFd(-1, EPOLLIN, &handler).ok());
  EXPECT_EQ(reactor->ModifyFd(fd.get(), EPOLLIN).code(),
            absl::StatusCode::kNotFound);
  ASSERT_TRUE(reactor->WatchFd(fd.get(), EPOLLIN, &handler).ok());
  EXPECT_EQ(reactor->WatchFd(fd.get(), EPOLLIN, &handler).code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(reactor->ModifyFd(fd.get(), EPOLLIN | EPOLLOUT).ok());
  reactor->UnwatchFd(fd.get());
  reactor->UnwatchFd(fd.get());
}

TEST(EpollReactorTest, WatchErrorsSayWhatToDo) {
  auto reactor = MakeReactor();
  CallbackHandler handler([](uint32_t) {});
  const int fd = eventfd(0, EFD_NONBLOCK);
  ASSERT_TRUE(reactor->WatchFd(fd, EPOLLIN, &handler).ok());
  close(fd);
  EXPECT_THAT(std::string(reactor->ModifyFd(fd, EPOLLOUT).message()),
              HasSubstr(absl::StrCat("descriptor ", fd, " - it was closed")));
  reactor->UnwatchFd(fd);
  const int directory = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  EXPECT_THAT(
      std::string(reactor->WatchFd(directory, EPOLLIN, &handler).message()),
      HasSubstr("directories cannot be watched"));
  close(directory);
}

TEST(EpollReactorTest, SleepsWithoutUsingTheProcessor) {
  auto reactor = MakeReactor();
  int turns = 0;
  CallbackPoller counter([&] {
    ++turns;
    return 0;
  });
  reactor->AddPoller(&counter, /*busy=*/false);
  Timer end(reactor.get(), [&] { reactor->Stop(); });
  end.ScheduleAfter(absl::Milliseconds(300));
  const absl::Duration before = ThreadCpuTime();
  reactor->Run();
  EXPECT_LE(turns, 3);
  EXPECT_LT(ThreadCpuTime() - before, absl::Milliseconds(30));
}

// It sleeps, works, and sleeps again.
TEST(EpollReactorTest, TellsItsIdleTimeFromItsWork) {
  constexpr absl::Duration kSpan = absl::Milliseconds(20);
  for (const absl::Duration spin : {absl::ZeroDuration(), absl::Hours(1)}) {
    auto reactor = MakeReactor(spin);
    const absl::Time created = EpollReactor::MonotonicNow();
    absl::Duration before;
    absl::Duration after;
    Timer end(reactor.get(), [&] {
      after = reactor->idle_time();
      reactor->Stop();
    });
    Timer begin(reactor.get(), [&] {
      reactor->Post([&] {
        before = reactor->idle_time();
        absl::SleepFor(kSpan);
        end.ScheduleAt(EpollReactor::MonotonicNow() + kSpan);
      });
    });
    begin.ScheduleAfter(kSpan);
    reactor->Run();
    const absl::Duration life = EpollReactor::MonotonicNow() - created;
    EXPECT_GE(before, kSpan - absl::Milliseconds(1));
    EXPECT_GE(after - before, kSpan - absl::Milliseconds(1));
    EXPECT_LE(after, life - kSpan + absl::Milliseconds(1));
  }
}

TEST(EpollReactorTest, BusyPollerKeepsItAwakeUntilRemoved) {
  auto reactor = MakeReactor();
  int turns = 0;
  CallbackPoller poller([&] {
    if (++turns == 1000) reactor->RemovePoller(&poller);
    return 0;
  });
  reactor->AddPoller(&poller, /*busy=*/true);
  EXPECT_LE(reactor->NextDeadline(), reactor->Now());
  Timer end(reactor.get(), [&] { reactor->Stop(); });
  end.ScheduleAfter(absl::Seconds(2));
  Timer check(reactor.get(), [&] {
    if (turns >= 1000) reactor->Stop();
    check.ScheduleAfter(absl::Milliseconds(1));
  });
  check.ScheduleAfter(absl::Milliseconds(1));
  reactor->Run();
  EXPECT_EQ(turns, 1000);
  EXPECT_GT(reactor->NextDeadline(), reactor->Now() - absl::Seconds(1));
  EXPECT_FALSE(reactor->spinning());
}

TEST(EpollReactorTest, SpinsForAsLongAsToldAfterTheLastEvent) {
  auto reactor = MakeReactor(absl::Milliseconds(50));
  int turns = 0;
  CallbackPoller counter([&] {
    ++turns;
    return 0;
  });
  reactor->AddPoller(&counter, /*busy=*/false);
  reactor->Post([] {});
  Timer end(reactor.get(), [&] { reactor->Stop(); });
  end.ScheduleAfter(absl::Milliseconds(300));
  const absl::Duration before = ThreadCpuTime();
  reactor->Run();
  EXPECT_GT(turns, 100);
  // It slept for most of the time.
  EXPECT_LT(ThreadCpuTime() - before, absl::Milliseconds(150));
  EXPECT_FALSE(reactor->spinning());
}

TEST(EpollReactorTest, PollingReactorNeverSleeps) {
  auto reactor = MakeReactor(absl::InfiniteDuration());
  EXPECT_TRUE(reactor->spinning());
  EXPECT_LE(reactor->NextDeadline(), reactor->Now());
  int turns = 0;
  CallbackPoller counter([&] {
    if (++turns == 10000) reactor->Stop();
    return 0;
  });
  reactor->AddPoller(&counter, /*busy=*/false);
  reactor->Run();
  EXPECT_EQ(turns, 10000);
}

TEST(EpollReactorTest, PollerMayAddAndRemovePollers) {
  auto reactor = MakeReactor();
  std::string order;
  CallbackPoller second([&] {
    order += "2";
    return 1;
  });
  CallbackPoller* self = nullptr;
  CallbackPoller first([&] {
    order += "1";
    reactor->AddPoller(&second, /*busy=*/false);
    reactor->RemovePoller(self);
    return 1;
  });
  self = &first;
  reactor->AddPoller(&first, /*busy=*/false);
  EXPECT_EQ(reactor->Poll(), 1);
  EXPECT_EQ(order, "1");
  EXPECT_EQ(reactor->Poll(), 1);
  EXPECT_EQ(order, "12");
}

// Turns of a poller between a descriptor that becomes readable and its
// handler.
int TurnsUntilNoticed(absl::Duration descriptor_interval, bool spinning) {
  EpollReactorOptions options;
  if (spinning) options.spin = absl::InfiniteDuration();
  options.descriptor_interval = descriptor_interval;
  const auto reactor = EpollReactor::Create(options).value();
  EventFd fd;
  int turns = 0;
  CallbackHandler handler([&](uint32_t) { reactor->Stop(); });
  EXPECT_TRUE(reactor->WatchFd(fd.get(), EPOLLIN | EPOLLET, &handler).ok());
  CallbackPoller poller([&] {
    if (turns++ == 0) fd.Signal();
    return 0;
  });
  reactor->AddPoller(&poller, /*busy=*/!spinning);
  reactor->Run();
  return turns;
}

TEST(EpollReactorTest, PollersLeaveDescriptorsAloneForAWhile) {
  for (const bool spinning : {false, true}) {
    SCOPED_TRACE(spinning);
    EXPECT_EQ(TurnsUntilNoticed(absl::ZeroDuration(), spinning), 2);
    const absl::Time start = EpollReactor::MonotonicNow();
    EXPECT_GT(TurnsUntilNoticed(absl::Milliseconds(100), spinning), 10);
    const absl::Duration took = EpollReactor::MonotonicNow() - start;
    EXPECT_GE(took, absl::Milliseconds(100));
    EXPECT_LT(took, absl::Seconds(5));
  }
  for (const absl::Duration wrong :
       {absl::Nanoseconds(-1), absl::InfiniteDuration()}) {
    EpollReactorOptions options;
    options.descriptor_interval = wrong;
    EXPECT_EQ(EpollReactor::Create(options).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST(EpollReactorTest, TakesNoMoreEventsPerTurnThanTold) {
  EpollReactorOptions options;
  options.max_events_per_turn = 2;
  auto created = EpollReactor::Create(options);
  ASSERT_TRUE(created.ok()) << created.status();
  auto& reactor = *created;
  EventFd fds[5];
  int calls = 0;
  CallbackHandler handler([&](uint32_t) { ++calls; });
  for (EventFd& fd : fds) {
    ASSERT_TRUE(reactor->WatchFd(fd.get(), EPOLLIN | EPOLLET, &handler).ok());
    fd.Signal();
  }
  EXPECT_EQ(reactor->Poll(), 2);
  EXPECT_EQ(reactor->Poll(), 2);
  EXPECT_EQ(reactor->Poll(), 1);
  EXPECT_EQ(calls, 5);
}

}  // namespace
}  // namespace skiff::transport
