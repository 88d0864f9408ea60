#ifndef SKIFF_TRANSPORT_TRACE_PCAPNG_H_
#define SKIFF_TRANSPORT_TRACE_PCAPNG_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

// Captures in the format that Wireshark reads (draft-ietf-opsawg-pcapng): what
// a connection carried, as the payload of TCP segments that never were. A
// dissector of the bytes (iSCSI's is found by its own heuristics, on any port)
// sees the same, whatever the transport really was.
//
// Pure functions: they make bytes.

namespace skiff::transport {

// Takes whole blocks of a capture, of any connection, to go after
// PcapngHeader(). Called on the threads of reactors, and so perhaps on several
// at once. Null: nobody wants a capture, nor ever will.
class CaptureSink {
 public:
  // What takes the blocks.
  using Function = std::function<void(absl::string_view blocks)>;

  CaptureSink() = default;
  // As without an argument.
  // NOLINTNEXTLINE(google-explicit-constructor): as of std::function.
  CaptureSink(std::nullptr_t) {}
  // One that wants all blocks.
  template <typename F, typename = std::enable_if_t<
                            std::is_invocable_v<F&, absl::string_view> &&
                            !std::is_same_v<std::decay_t<F>, CaptureSink>>>
  // NOLINTNEXTLINE(google-explicit-constructor): as of std::function.
  CaptureSink(F function) : function_(std::move(function)) {}
  // Only while `wanted`, which any thread may change, are there blocks.
  // Meanwhile a connection pays for one look at it, per message or system call.
  CaptureSink(Function function,
              std::shared_ptr<const std::atomic<bool>> wanted)
      : function_(std::move(function)), wanted_(std::move(wanted)) {}

  // Whether there is to be a block now.
  bool wanted() const {
    return wanted_ == nullptr || wanted_->load(std::memory_order_relaxed);
  }
  // Takes blocks. Not of one that is null.
  void operator()(absl::string_view blocks) const { function_(blocks); }
  // Whether it is null.
  friend bool operator==(const CaptureSink& sink, std::nullptr_t) {
    return sink.function_ == nullptr;
  }

 private:
  Function function_;
  std::shared_ptr<const std::atomic<bool>> wanted_;  // Null: always.
};

// What a file begins with: a Section Header Block and an Interface Description
// Block (raw IP packets, time stamps in nanoseconds).
std::string PcapngHeader();

// The two directions of one connection. Each call makes the blocks for what it
// is given, in order.
class PcapngConversation {
 public:
  // Numeric `host:port` forms, as endpoints give them.
  static absl::StatusOr<PcapngConversation> Create(absl::string_view local,
                                                   absl::string_view peer);

  // One Enhanced Packet Block for each `kMaxSegment` bytes. `comment` is for
  // people: Wireshark shows it beside the (first) packet.
  std::string Data(bool sent, absl::Time when, absl::string_view bytes,
                   absl::string_view comment = {});

  static constexpr size_t kMaxSegment = 32768;

 private:
  struct Side {
    std::array<uint8_t, 16> address = {};
    uint16_t port = 0;
    uint32_t next_sequence = 1;
  };

  PcapngConversation() = default;
  std::string Packet(bool sent, absl::string_view bytes);

  bool v6_ = false;
  Side local_;
  Side peer_;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_TRACE_PCAPNG_H_
