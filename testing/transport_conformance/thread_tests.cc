// A reactor on each of several threads, and connections on all of them.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "testing/transport_conformance/conformance_pair.h"
#include "transport/reactor/reactor_threads.h"

namespace skiff::testing {
namespace {

using transport::Completion;
using transport::CompletionStatus;
using transport::Endpoint;
using transport::OperationKind;
using transport::RdmaEndpoint;
using transport::Reactor;

constexpr size_t kBytes = 64;

// What the connections of all threads have in common.
struct Tally {
  void Fail(std::string why) {
    const std::lock_guard<std::mutex> lock(mutex);
    failures.push_back(std::move(why));
    failed = true;
  }

  int rounds = 0;
  std::atomic<int> finished = 0;  // Connecting ends that had all answers.
  std::atomic<bool> failed = false;
  std::mutex mutex;
  std::vector<std::string> failures;
};

// One end of a connection, which plays ping-pong with the other end. Lives and
// dies on its reactor's thread.
class Player final : public transport::Poller {
 public:
  Player(Reactor* reactor, bool serves_first, char mark, Tally* tally)
      : reactor_(reactor),
        serves_first_(serves_first),
        mark_(mark),
        tally_(tally),
        out_(kBytes, mark),
        in_(kBytes, 0) {}
  ~Player() override {
    if (polling_) reactor_->RemovePoller(this);
  }

  // The place for the first RECEIVE: before the peer can send.
  absl::Status Prepare(RdmaEndpoint& endpoint) {
    for (const auto& [memory, region] :
         {std::pair(&out_, &out_region_), std::pair(&in_, &in_region_)}) {
      auto made = endpoint.domain()->Register(memory->data(), memory->size(),
                                              transport::Access::kLocal);
      if (!made.ok()) return made.status();
      *region = *std::move(made);
    }
    PostReceive(endpoint);
    return absl::OkStatus();
  }

  void Start(absl::StatusOr<Endpoint> made) {
    if (!made.ok()) {
      tally_->Fail(made.status().ToString());
      return;
    }
    endpoint_ = std::get<std::unique_ptr<RdmaEndpoint>>(*std::move(made));
    thread_ = std::this_thread::get_id();
    reactor_->AddPoller(this, /*busy=*/true);
    polling_ = true;
    if (serves_first_) PostSend();
  }

  int Poll() override {
    if (std::this_thread::get_id() != thread_) {
      tally_->Fail("a reactor turned on another thread than before");
    }
    Completion completions[4];
    const int count =
        endpoint_->completion_queue()->Poll(absl::MakeSpan(completions));
    for (int i = 0; i < count && !tally_->failed; ++i) Handle(completions[i]);
    return count;
  }

 private:
  void PostReceive(RdmaEndpoint& endpoint) {
    const transport::Sge sge = {in_.data(), in_.size(), in_region_.get()};
    if (endpoint.PostReceive({0, 1}, {&sge, 1}) !=
        transport::PostResult::kAccepted) {
      tally_->Fail("a RECEIVE was not accepted");
    }
    endpoint.Flush();
  }
  void PostSend() {
    const transport::Sge sge = {out_.data(), out_.size(), out_region_.get()};
    if (endpoint_->PostSend({0, 2}, {&sge, 1}) !=
        transport::PostResult::kAccepted) {
      tally_->Fail("a SEND was not accepted");
    }
    endpoint_->Flush();
  }
  void Handle(const Completion& completion) {
    if (completion.endpoint != endpoint_.get()) {
      tally_->Fail("a completion of another thread's endpoint");
    }
    // The end of the other side, when all is said.
    if (done_) return;
    if (completion.status != CompletionStatus::kOk) {
      if (serves_first_) tally_->Fail("an operation failed");
      done_ = true;
      return;
    }
    if (completion.kind == OperationKind::kReceive) Received(completion.bytes);
  }
  void Received(uint32_t bytes) {
    if (bytes != kBytes || in_ != std::vector<char>(kBytes, mark_)) {
      tally_->Fail("a message of another connection arrived");
      return;
    }
    PostReceive(*endpoint_);
    ++rounds_;
    if (serves_first_ && rounds_ == tally_->rounds) {
      done_ = true;
      ++tally_->finished;
      return;
    }
    PostSend();
  }

  Reactor* const reactor_;
  const bool serves_first_;
  const char mark_;
  Tally* const tally_;
  std::vector<char> out_;
  std::vector<char> in_;
  std::unique_ptr<transport::MemoryRegion> out_region_;
  std::unique_ptr<transport::MemoryRegion> in_region_;
  std::unique_ptr<RdmaEndpoint> endpoint_;
  std::thread::id thread_;
  bool polling_ = false;
  bool done_ = false;
  int rounds_ = 0;
};

class ThreadTest : public ConformancePair {
 protected:
  static constexpr int kThreads = 4;

  // All of this runs on reactor 0's thread.
  void Listen();
  void OnRequest(std::unique_ptr<transport::ConnectionRequest> request);
  // On that reactor's thread.
  void ConnectOn(int reactor, int number);
  // On every reactor's thread, what belongs to it.
  void DestroyAll();

  Tally tally_;
  std::unique_ptr<transport::ReactorThreads> threads_;
  std::unique_ptr<transport::Listener> listener_;
  std::string address_;
  int accepted_ = 0;
  std::vector<std::unique_ptr<Player>> players_[kThreads];
  std::vector<std::unique_ptr<transport::ConnectAttempt>> attempts_[kThreads];
};

SKIFF_CONFORMANCE_SUITE(ThreadTest, RdmaFactories);

void ThreadTest::Listen() {
  auto listener =
      world()
          .transport(Side::kListening)
          ->Listen(threads_->reactor(0), world().listen_address(), {},
                   [this](auto request) { OnRequest(std::move(request)); });
  if (!listener.ok()) {
    tally_.Fail(listener.status().ToString());
    return;
  }
  listener_ = *std::move(listener);
  address_ = listener_->address().ToString();
}

void ThreadTest::OnRequest(
    std::unique_ptr<transport::ConnectionRequest> request) {
  const int home = accepted_++ % kThreads;
  // The first byte of the private data marks the connection.
  const char mark = request->private_data().empty()
                        ? '?'
                        : static_cast<char>(request->private_data()[0]);
  Reactor* reactor = threads_->reactor(home);
  auto player = std::make_shared<std::unique_ptr<Player>>(
      std::make_unique<Player>(reactor, false, mark, &tally_));
  transport::AcceptOptions options;
  options.send_queue = 4;
  options.receive_queue = 4;
  options.prepare = [player](RdmaEndpoint& endpoint) {
    return (*player)->Prepare(endpoint);
  };
  request->Accept(reactor, options,
                  [this, home, player](absl::StatusOr<Endpoint> made) {
                    (*player)->Start(std::move(made));
                    players_[home].push_back(std::move(*player));
                  });
}

void ThreadTest::ConnectOn(int reactor, int number) {
  const char mark = static_cast<char>('A' + number % 50);
  players_[reactor].push_back(std::make_unique<Player>(
      threads_->reactor(reactor), true, mark, &tally_));
  Player* player = players_[reactor].back().get();
  transport::ConnectOptions options;
  options.private_data = {static_cast<uint8_t>(mark)};
  options.send_queue = 4;
  options.receive_queue = 4;
  options.prepare = [player](RdmaEndpoint& endpoint) {
    return player->Prepare(endpoint);
  };
  auto attempt =
      world()
          .transport(Side::kConnecting)
          ->Connect(threads_->reactor(reactor),
                    transport::Address::Parse(address_).value(), options,
                    [player](absl::StatusOr<Endpoint> made) {
                      player->Start(std::move(made));
                    });
  if (attempt.ok()) {
    attempts_[reactor].push_back(*std::move(attempt));
  } else {
    tally_.Fail(attempt.status().ToString());
  }
}

void ThreadTest::DestroyAll() {
  threads_->RunOn(0, [this] { listener_.reset(); });
  for (int i = 0; i < kThreads; ++i) {
    threads_->RunOn(i, [this, i] {
      attempts_[i].clear();
      players_[i].clear();
    });
  }
  threads_->Stop();
}

TEST_P(ThreadTest, ManyConnectionsOnManyReactors) {
  if (!world().real_time()) {
    NotSupported("threads: virtual time has one");
    return;
  }
  if (ServerInThisProcess() == nullptr) return;
  const int connections = std::min(32, scale().connections_at_once);
  tally_.rounds = std::max(1, scale().operations / connections);
  transport::ReactorThreadsOptions options;
  options.count = kThreads;
  auto threads = transport::ReactorThreads::Start(options);
  ASSERT_TRUE(threads.ok()) << threads.status();
  threads_ = *std::move(threads);
  threads_->RunOn(0, [this] { Listen(); });
  for (int i = 0; i < connections && !tally_.failed; ++i) {
    // Not the same number as where it is accepted.
    const int reactor = (i + 1) % kThreads;
    threads_->RunOn(reactor, [this, reactor, i] { ConnectOn(reactor, i); });
  }
  const auto end = std::chrono::steady_clock::now() +
                   absl::ToChronoNanoseconds(scale().patience);
  while (tally_.finished < connections && !tally_.failed &&
         std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(tally_.finished, connections)
      << "connections that played " << tally_.rounds << " rounds";
  DestroyAll();
  for (const std::string& failure : tally_.failures) ADD_FAILURE() << failure;
}

}  // namespace
}  // namespace skiff::testing
