#ifndef SKIFF_BENCH_COMPARE_LOOP_H_
#define SKIFF_BENCH_COMPARE_LOOP_H_

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "absl/base/attributes.h"
#include "bench/compare/util.h"

// The loop that skiff_loop, fabric_loop and verbs_loop are, each over the calls
// of one library.
namespace skiff::bench {

inline constexpr double kLoopWarmupSeconds = 0.2;
inline constexpr uint64_t kLoopReceives = 256;
// Of a flow in one direction: for so many messages the receiver sends one.
inline constexpr uint64_t kLoopCredit = 64;
inline constexpr uint64_t kLoopCreditBytes = 4;

// What the flags say, which all loops have: see loop.cc. Exits where they make
// no sense.
struct LoopPlan {
  enum class Op { kSend, kWrite, kRead };

  static LoopPlan OfFlags();
  // The operations that can be under way, those of the loop itself included.
  uint32_t send_queue() const {
    return static_cast<uint32_t>(depth + kLoopReceives / kLoopCredit + 1);
  }

  Op op = Op::kSend;
  bool ping_pong = true;
  size_t size = 64;
  uint64_t depth = 1;
  uint32_t read_depth = 16;
  size_t inline_bytes = 0;
  int looks = 1;
  double seconds = 2;
  uint64_t operations = 0;  // To be done instead, if there are any.
  int server_core = -1;
  int client_core = -1;
};

struct LoopResult {
  double seconds = 0;
  uint64_t ticks = 0;
  uint64_t operations = 0;
  std::vector<uint64_t> samples;  // Ticks between two completions.
};
// Prints one line of JSON.
void PrintLoop(const LoopPlan& plan, LoopResult* result);
void PrintOperations(uint64_t operations);
inline constexpr size_t kMaxLoopSamples = 1u << 20;
// Operations between looks at the clock, which can be slow.
inline constexpr uint64_t kLoopPerClock = 64;

// Memory that a peer may READ and WRITE.
struct LoopRemote {
  uint64_t address;
  uint64_t key;
};

// What an end sends from, and what it receives into.
struct LoopMemory {
  explicit LoopMemory(size_t size) {
    constexpr size_t kPage = 4096;
    area = (size + kPage - 1) / kPage * kPage;
    sent = static_cast<uint8_t*>(std::aligned_alloc(kPage, 2 * area));
    if (sent == nullptr) Die("no memory for a message");
    std::memset(sent, 0, 2 * area);
    received = sent + area;
  }

  size_t area;  // Bytes of each.
  uint8_t* sent;
  uint8_t* received;  // Behind what is sent.
};

// One end; never closed, since the process ends. A Wire has these, inlined into
// the loop so that no library's calls go a longer way than another's:
//   Wire(const LoopPlan& plan, const LoopMemory& memory, bool client)
//   void Listen(int ready_fd)     Accepts one connection, of which it writes a
//                                 byte there as soon as it can come.
//   void Connect()
//   LoopRemote local()            What the peer may reach.
//   bool Send(size_t bytes), Write(LoopRemote), Read(LoopRemote)
//                                 False: not now.
//   void Flush()                  What was posted is under way from here on.
//   void Receive()
//   bool Poll(sent, received)     Calls sent(operations), received(). False
//                                 when the peer has gone.
template <typename Wire>
class LoopEnd {
 public:
  LoopEnd(const LoopPlan& plan, bool client)
      : plan_(plan),
        client_(client),
        memory_(plan.size),
        wire_(plan, memory_, client) {}

  void Listen(int ready_fd) { wire_.Listen(ready_fd); }
  void Connect() {
    wire_.Connect();
    SendHello();
    wire_.Flush();
  }

  // One look at the queue, and what follows from it. False when the peer has
  // gone.
  bool Poll() {
    const bool there = wire_.Poll(
        [this](uint64_t count) {
          outstanding_ -= count;
          if (!plan_.ping_pong && client_ && greeted_) completed_ += count;
        },
        [this] { OnReceive(); });
    if (!there) return false;
    if (greeted_ && plan_.ping_pong) {
      if (plan_.op == LoopPlan::Op::kWrite) WatchMemory();
    } else if (greeted_ && client_) {
      while (outstanding_ < plan_.depth && allowed_ > 0 && PostOperation()) {
        if (plan_.op == LoopPlan::Op::kSend) --allowed_;
      }
    }
    wire_.Flush();
    for (; receives_due_ > 0; --receives_due_) wire_.Receive();
    return true;
  }

  uint64_t completed() const { return completed_; }

 private:
  bool Posted(bool posted) {
    if (posted) ++outstanding_;
    return posted;
  }

  // Inlined whichever the wire: it is not to make a difference between them.
  ABSL_ATTRIBUTE_ALWAYS_INLINE bool PostOperation() {
    switch (plan_.op) {
      case LoopPlan::Op::kSend:
        return Posted(wire_.Send(plan_.size));
      case LoopPlan::Op::kWrite:
        return Posted(wire_.Write({peer_.address + memory_.area, peer_.key}));
      case LoopPlan::Op::kRead:
        return Posted(wire_.Read(peer_));
    }
    return false;
  }

  // Where the memory is; the connecting end first, as it has to be on iWARP.
  void SendHello() {
    const LoopRemote hello = wire_.local();
    std::memcpy(memory_.sent, &hello, sizeof(hello));
    if (!Posted(wire_.Send(sizeof(hello)))) Die("the first SEND is refused");
  }

  void OnReceive() {
    ++receives_due_;
    if (!greeted_) {
      std::memcpy(&peer_, memory_.received, sizeof(peer_));
      std::memset(memory_.received, 0, sizeof(peer_));
      greeted_ = true;
      if (!client_) SendHello();
      if (client_ && plan_.ping_pong) Begin();
    } else if (plan_.ping_pong) {
      ++completed_;
      Begin();
    } else if (client_) {
      allowed_ += kLoopCredit;
    } else if (++received_ % kLoopCredit == 0) {
      // It stands for these: iWARP has no retries for a message without one.
      for (; receives_due_ > 0; --receives_due_) wire_.Receive();
      if (!Posted(wire_.Send(kLoopCreditBytes))) Die("the send queue is full");
    }
  }

  // A round of what goes to and fro.
  void Begin() {
    if (plan_.op == LoopPlan::Op::kWrite) {
      // Never 0, what the memory is before the first.
      sequence_ = static_cast<uint8_t>(sequence_ % 255 + 1);
      memory_.sent[plan_.size - 1] = sequence_;
    }
    if (!PostOperation()) Die("the send queue is full");
  }

  // A WRITE to and fro is seen by its last byte.
  void WatchMemory() {
    const uint8_t expected =
        client_ ? sequence_ : static_cast<uint8_t>(sequence_ % 255 + 1);
    if (expected == 0) return;
    const std::atomic_ref last(memory_.received[plan_.size - 1]);
    for (int look = 0; look < plan_.looks; ++look) {
      if (last.load() != expected) continue;
      ++completed_;
      Begin();
      return;
    }
  }

  const LoopPlan plan_;
  const bool client_;
  LoopMemory memory_;
  Wire wire_;

  LoopRemote peer_ = {};
  bool greeted_ = false;
  uint64_t outstanding_ = 0;
  uint64_t completed_ = 0;
  uint64_t received_ = 0;
  uint64_t receives_due_ = 0;
  uint64_t allowed_ = kLoopReceives;  // Messages the peer has receives for.
  uint8_t sequence_ = 0;              // Of the last WRITE to and fro.
};

template <typename Wire>
void RunLoopFor(LoopEnd<Wire>* end, double seconds, LoopResult* result) {
  const double begin = Now();
  const uint64_t ticks = Ticks();
  const uint64_t first = end->completed();
  uint64_t last = ticks;
  double now = begin;
  while (now - begin < seconds) {
    const uint64_t goal = end->completed() + kLoopPerClock;
    while (end->completed() < goal) {
      const uint64_t before = end->completed();
      if (!end->Poll()) Die("the peer has gone");
      if (end->completed() == before) continue;
      const uint64_t at = Ticks();
      if (result->samples.size() < kMaxLoopSamples) {
        result->samples.push_back(at - last);
      }
      last = at;
    }
    now = Now();
  }
  result->seconds = now - begin;
  result->ticks = Ticks() - ticks;
  result->operations = end->completed() - first;
}

// A function of its own for programs that count instructions, and look at
// nothing else.
template <typename Wire>
ABSL_ATTRIBUTE_NOINLINE void RunTo(LoopEnd<Wire>* end, uint64_t operations) {
  while (end->completed() < operations) {
    const uint64_t before = end->completed();
    if (!end->Poll()) Die("the peer has gone");
    if (end->completed() == before) usleep(kCountedNapMicroseconds);
  }
}

// Ends this process when it takes far too long, and the client as soon as its
// server has ended, which says why itself.
void GuardLoop(const LoopPlan& plan);
// From here on the client goes on without its server.
void IgnoreServersEnd();

template <typename Wire>
[[noreturn]] void ServeLoop(const LoopPlan& plan, pid_t client, int ready_fd) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != client) _exit(1);
  GuardLoop(plan);
  PinToCore(plan.server_core);
  LoopEnd<Wire> end(plan, /*client=*/false);
  end.Listen(ready_fd);
  while (end.Poll()) {
  }
  Die("the client has gone");
}

// The whole program: both ends, each on its core.
template <typename Wire>
[[noreturn]] void RunLoop() {
  const LoopPlan plan = LoopPlan::OfFlags();
  int pipe_ends[2];
  if (pipe(pipe_ends) != 0) Die("no pipe", true);
  const pid_t client = getpid();
  GuardLoop(plan);
  const pid_t server = fork();
  if (server < 0) Die("cannot fork", true);
  if (server == 0) ServeLoop<Wire>(plan, client, pipe_ends[1]);
  close(pipe_ends[1]);
  char ready;
  if (read(pipe_ends[0], &ready, 1) != 1) Die("no server");
  PinToCore(plan.client_core);
  LoopEnd<Wire> end(plan, /*client=*/true);
  end.Connect();
  LoopResult result;
  if (plan.operations > 0) {
    RunTo(&end, plan.operations);
  } else {
    result.samples.reserve(kMaxLoopSamples);
    RunLoopFor(&end, kLoopWarmupSeconds, &result);
    result.samples.clear();
    RunLoopFor(&end, plan.seconds, &result);
  }
  IgnoreServersEnd();
  kill(server, SIGKILL);
  waitpid(server, nullptr, 0);
  if (plan.operations > 0) {
    PrintOperations(end.completed());
  } else {
    PrintLoop(plan, &result);
  }
  std::fflush(stdout);
  _exit(0);
}

}  // namespace skiff::bench

#endif  // SKIFF_BENCH_COMPARE_LOOP_H_
