#ifndef SKIFF_TESTING_VERBS_RPING_END_H_
#define SKIFF_TESTING_VERBS_RPING_END_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "transport/transport.h"

namespace skiff::testing {

// One end of a connection that speaks the protocol of rping, an example of
// librdmacm (rdma-core, librdmacm/examples/rping.c): in each round the client
// tells the server where its source is, the server READs it and says so, the
// client tells where its sink is, the server WRITEs there what it read and says
// so, and the client compares the two. What is told are messages of 16 bytes.
//
// Lives on one reactor, which it sleeps on.
class RpingEnd final : private transport::FdHandler {
 public:
  struct Settings {
    bool client = false;
    int rounds = 0;      // Of the client; 0: until the connection ends.
    size_t bytes = 100;  // The client's data; the most that a server takes.
    // A server that reads the first source again and again, so that something
    // is always under way. Each time is a round.
    bool keep_reading = false;
    std::function<void(int)> on_round;  // Gets the number of rounds; optional.
  };
  // Runs once when it is over: what ended it, or OK after the client's last
  // round or when the peer left between rounds.
  using Done = std::function<void(const absl::Status&)>;

  RpingEnd(transport::Reactor* reactor, const Settings& settings, Done done);
  ~RpingEnd() override;

  // For Connect or Accept; refer to this.
  void FillOptions(transport::ConnectOptions* options);
  // The connection stands.
  void Start(std::unique_ptr<transport::RdmaEndpoint> endpoint);

  int rounds() const { return rounds_; }
  // Completions that brought something else than success, in order.
  const std::vector<transport::Completion>& failures() const {
    return failures_;
  }

 private:
  // What the next completion that counts is about.
  enum class Step : uint8_t {
    kTellSource,  // Nothing is under way.
    kAwaitRead,   // The peer reads, or we do.
    kTellSink,    // Server only: it waits for the sink.
    kAwaitWrite,
    kOver,
  };

  void OnFdReady(uint32_t events) override;
  absl::Status Prepare(transport::RdmaEndpoint& endpoint);
  void PostReceive(transport::RdmaEndpoint& endpoint, uint32_t slot);
  void Drain();
  void OnCompletion(const transport::Completion& completion);
  void OnMessage(const uint8_t* message);
  void BeginRound();
  void CountRound();
  void Tell(size_t offset);
  void Move(const uint8_t* message);
  void Transfer();
  void Expect(transport::PostResult result, const char* what);
  void Finish(const absl::Status& status);

  size_t ReceiveAt(uint32_t slot) const { return kMessage * slot; }
  size_t SendAt() const { return kMessage * kReceives; }
  size_t SourceAt() const { return kMessage * (kReceives + 1); }
  size_t SinkAt() const { return SourceAt() + settings_.bytes; }

  static constexpr size_t kMessage = 16;
  static constexpr uint32_t kReceives = 2;

  transport::Reactor* const reactor_;
  const Settings settings_;
  const Done done_;
  std::vector<uint8_t> memory_;
  std::unique_ptr<transport::MemoryRegion> region_;
  std::unique_ptr<transport::RdmaEndpoint> endpoint_;
  transport::CompletionQueue* queue_ = nullptr;
  Step step_ = Step::kTellSource;
  transport::RemoteBuffer remote_;  // What the client told of last.
  size_t length_ = 0;               // Of the data of this round.
  int rounds_ = 0;
  std::vector<transport::Completion> failures_;
};

}  // namespace skiff::testing

#endif  // SKIFF_TESTING_VERBS_RPING_END_H_
