#ifndef SKIFF_TRANSPORT_LIBFABRIC_DATAGRAM_FAREWELL_H_
#define SKIFF_TRANSPORT_LIBFABRIC_DATAGRAM_FAREWELL_H_

#include <algorithm>
#include <cstdint>

namespace skiff::transport {

// What an end says of its end, in this order.
enum class FarewellStep : uint8_t {
  kNothing,
  kDisconnect,    // It posts nothing any more.
  kDisconnected,  // All that the other end posted was done.
  kQuiet,         // It does not touch the other's memory any more.
};

// How far the end has come on either side. After kDisconnect, an end says a
// step once the other has said the one before: it is never further than one
// step ahead.
class Farewell {
 public:
  // We say kDisconnect.
  void Begin() { said_ = FarewellStep::kDisconnect; }
  // The peer says `step`, and so has said all before it.
  void Heard(FarewellStep step) { heard_ = std::max(heard_, step); }

  // The step that we say now, and have said from then on; kNothing while it is
  // the peer's turn.
  FarewellStep Next() {
    const bool our_turn = said_ != FarewellStep::kNothing &&
                          said_ != FarewellStep::kQuiet && heard_ >= said_;
    if (!our_turn) return FarewellStep::kNothing;
    said_ = static_cast<FarewellStep>(static_cast<uint8_t>(said_) + 1);
    return said_;
  }
  bool over() const {
    return said_ == FarewellStep::kQuiet && heard_ == FarewellStep::kQuiet;
  }

 private:
  FarewellStep said_ = FarewellStep::kNothing;
  FarewellStep heard_ = FarewellStep::kNothing;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_DATAGRAM_FAREWELL_H_
