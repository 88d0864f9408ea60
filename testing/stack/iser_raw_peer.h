#ifndef SKIFF_TESTING_STACK_ISER_RAW_PEER_H_
#define SKIFF_TESTING_STACK_ISER_RAW_PEER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "protocol/codec/iser_header.h"
#include "protocol/codec/pdu.h"
#include "testing/sim/guard_pages.h"
#include "testing/sim/sim_world.h"
#include "transport/rdma_endpoint.h"
#include "transport/reactor/reactor.h"
#include "transport/transport.h"

namespace skiff::protocol {

// A message: the iSER header, then the PDU without padding.
template <typename Pdu>
std::string ToIser(const Pdu& pdu, absl::string_view data = "",
                   const IserControlHeader& header = {}) {
  std::string bytes(kIserControlSize, '\0');
  auto* out = reinterpret_cast<uint8_t*>(bytes.data());
  Encode(header, out);
  Encode(pdu, out + kIserHeaderSize);
  EncodeLengths(out + kIserHeaderSize, 0, static_cast<uint32_t>(data.size()));
  bytes.append(data.data(), data.size());
  return bytes;
}

// The same for a message that is a header only.
template <typename Hello>
std::string ToIserHello(const Hello& hello) {
  std::string bytes(kIserHeaderSize, '\0');
  Encode(hello, reinterpret_cast<uint8_t*>(bytes.data()));
  return bytes;
}

// One end of a simulated RDMA connection that sends and receives what a test
// wants, whatever iSER says about it.
class RawIserPeer {
 public:
  // Memory that the other end may use, between guard pages: the simulated
  // network copies into it, so that a byte too many crashes the test.
  class Memory {
   public:
    Memory(transport::MemoryDomain* domain, size_t size,
           transport::Access access);
    char* data() { return memory_.data(); }
    transport::RemoteBuffer Remote() const;
    // Takes the key out of use.
    void Revoke() { region_.reset(); }
    bool registered() const { return region_ != nullptr; }
    // Whether nothing was written between the first guard page and the memory.
    bool GuardsAreIntact() const { return memory_.intact(); }
    std::string Content() const { return std::string(memory_.view()); }

   private:
    testing::GuardPages memory_;
    std::unique_ptr<transport::MemoryRegion> region_;
  };

  explicit RawIserPeer(testing::SimWorld* world) : world_(world) {}

  // Connects from `reactor` and waits.
  void Connect(transport::Transport* transport, transport::Reactor* reactor,
               const std::string& address);
  // The same, where the other end may refuse.
  absl::Status TryToConnect(transport::Transport* transport,
                            transport::Reactor* reactor,
                            const std::string& address);
  // While connecting or accepting, in place of what iSER says.
  void SetPrivateData(std::vector<uint8_t> data) {
    private_data_ = std::move(data);
  }
  // Accepts the first that connects there, and refuses all others.
  void AcceptAt(transport::Transport* transport, transport::Reactor* reactor,
                const std::string& address);
  // Forgets the connection, and accepts one more.
  void AcceptAnother();

  void Send(const std::string& message,
            std::optional<uint32_t> invalidated = std::nullopt);
  // Writes into the other end's memory, and reads from it.
  void Write(const std::string& data, transport::RemoteBuffer to);
  void Read(size_t size, transport::RemoteBuffer from);
  // Posts nothing for what it receives from now on.
  void StopPosting() { posting_ = false; }
  // Polls. Messages that came wait in `received`.
  void Poll();
  // Lets the world go on until a message has come, or the connection has ended.
  std::optional<std::string> Next();
  // Waits for the end of the connection.
  bool Closed(absl::Duration limit = absl::Seconds(10));
  // The PDU of a message that Next() gave.
  static const uint8_t* BhsOf(const std::string& message) {
    return reinterpret_cast<const uint8_t*>(message.data()) + kIserHeaderSize;
  }

  transport::RdmaEndpoint* endpoint() const { return endpoint_.get(); }
  bool connected() const {
    return endpoint_ != nullptr && endpoint_->connected();
  }
  // Keys that messages of the other end invalidated.
  const std::vector<transport::RemoteKey>& invalidated() const {
    return invalidated_;
  }
  // What completed with an error.
  const std::vector<transport::Completion>& failures() const {
    return failures_;
  }

  std::deque<std::string> received;

 private:
  static constexpr size_t kReceiveBytes = 8576;
  static constexpr uint32_t kReceives = 64;
  struct Buffer {
    std::string bytes;
    std::unique_ptr<transport::MemoryRegion> region;
  };

  void FillIn(transport::ConnectOptions* options);
  absl::Status Prepare(transport::RdmaEndpoint& endpoint);
  void Post(transport::RdmaEndpoint& endpoint, uint32_t index);
  Buffer* NewBuffer(std::string bytes, transport::Access access);

  testing::SimWorld* const world_;
  // Whatever can be invalidated may be.
  std::vector<uint8_t> private_data_ = {0x80, 0, 0, 0};
  std::unique_ptr<transport::ConnectAttempt> attempt_;
  std::unique_ptr<transport::Listener> listener_;
  bool accepted_ = false;
  std::deque<Buffer> receives_;
  std::deque<Buffer> sends_;
  bool posting_ = true;
  std::vector<transport::Completion> failures_;
  std::vector<transport::RemoteKey> invalidated_;
  std::unique_ptr<transport::RdmaEndpoint> endpoint_;
};

}  // namespace skiff::protocol

#endif  // SKIFF_TESTING_STACK_ISER_RAW_PEER_H_
