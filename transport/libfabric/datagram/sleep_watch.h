#ifndef SKIFF_TRANSPORT_LIBFABRIC_DATAGRAM_SLEEP_WATCH_H_
#define SKIFF_TRANSPORT_LIBFABRIC_DATAGRAM_SLEEP_WATCH_H_

#include <cstdint>
#include <utility>

namespace skiff::transport {

// Which of the two ends does not look at the fabric for the time being, as the
// other end knows it. An end that sleeps is woken once for each time that it
// said so.
class SleepWatch {
 public:
  // We stop looking. True: the peer does not know it yet.
  bool Sleep() { return !std::exchange(asleep_, true); }
  // The peer has woken us.
  void Woken() { asleep_ = false; }

  // What this end sees when the peer says that it sleeps.
  struct Progress {
    uint64_t sent = 0;       // Messages of ours.
    uint64_t received = 0;   // Of those, what the peer has.
    uint64_t one_sided = 0;  // Operations of ours, ever.
    bool waits_for_peer = false;
  };
  enum class Answer : uint8_t {
    kWake,           // It has missed something.
    kWakeLater,      // It has looked in vain: perhaps it has no RECEIVE.
    kWakeAtNextPost  // It has nothing to do.
  };
  // What was posted before the peer looked last may have come too late for it.
  Answer PeerSleeps(const Progress& now) {
    const bool posted = now.one_sided != one_sided_;
    const bool missed = now.received < now.sent || now.waits_for_peer || posted;
    const uint64_t messages = now.sent + now.received;
    const bool moved = messages != messages_ || posted;
    one_sided_ = now.one_sided;
    messages_ = messages;
    if (missed) return moved ? Answer::kWake : Answer::kWakeLater;
    peer_asleep_ = true;
    return Answer::kWakeAtNextPost;
  }
  // Something was posted. True: the peer sleeps, and is to be woken now.
  bool WakePeer() { return std::exchange(peer_asleep_, false); }

 private:
  bool asleep_ = false;       // The peer has been told.
  bool peer_asleep_ = false;  // It is woken at the next post.
  // When it fell asleep last.
  uint64_t one_sided_ = 0;
  uint64_t messages_ = 0;  // Sent by us and received by it.
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_DATAGRAM_SLEEP_WATCH_H_
