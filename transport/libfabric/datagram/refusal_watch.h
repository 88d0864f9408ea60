#ifndef SKIFF_TRANSPORT_LIBFABRIC_DATAGRAM_REFUSAL_WATCH_H_
#define SKIFF_TRANSPORT_LIBFABRIC_DATAGRAM_REFUSAL_WATCH_H_

#include <cstdint>

namespace skiff::transport {

// Finds that the peer's provider forgot a one-sided operation of ours, where
// that is all that it does when it refuses one. Refused it is if two answers in
// a row lack some of what was asked for, and the second knows of no more than
// the first.
class RefusalWatch {
 public:
  // The peer is asked, when so many operations were under way or over.
  void Asked(uint64_t operations) { asked_ = operations; }
  // It has served so many. True: it has refused one.
  bool Answered(uint64_t served) {
    const bool lags = served < asked_;
    const bool stuck = lags && lagging_ && served == served_;
    lagging_ = lags;
    served_ = served;
    return stuck;
  }
  // Operations that are known to have been served.
  uint64_t served() const { return served_; }

 private:
  uint64_t asked_ = 0;
  uint64_t served_ = 0;
  bool lagging_ = false;  // The last answer lacked some.
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_DATAGRAM_REFUSAL_WATCH_H_
