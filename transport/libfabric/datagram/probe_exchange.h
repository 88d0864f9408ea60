#ifndef SKIFF_TRANSPORT_LIBFABRIC_DATAGRAM_PROBE_EXCHANGE_H_
#define SKIFF_TRANSPORT_LIBFABRIC_DATAGRAM_PROBE_EXCHANGE_H_

#include <cstdint>

namespace skiff::transport {

// One probe each way over the fabric, before a connection stands. The accepting
// end sends its own once the peer's has come. Ours goes out once: from kSent
// there is no way back.
class ProbeExchange {
 public:
  // This end accepts.
  void Accepts() { accepts_ = true; }

  // Ours is to be sent, for the first time.
  bool our_turn() const {
    return ours_ == Ours::kUnsent && (received_ || !accepts_);
  }
  // The provider did not take ours: it is to be sent again.
  bool refused() const { return ours_ == Ours::kRefused; }
  // Ours was handed to the provider, which took it or not.
  void Tried(bool taken) { ours_ = taken ? Ours::kTaken : Ours::kRefused; }
  void Sent() { ours_ = Ours::kSent; }
  // Something came; `is_the_peers`: what was waited for.
  void Received(bool is_the_peers) { received_ = is_the_peers; }

  bool through() const { return received_ && ours_ == Ours::kSent; }

 private:
  enum class Ours : uint8_t { kUnsent, kRefused, kTaken, kSent };

  Ours ours_ = Ours::kUnsent;
  bool accepts_ = false;
  bool received_ = false;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_DATAGRAM_PROBE_EXCHANGE_H_
