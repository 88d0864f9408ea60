#ifndef SKIFF_TRANSPORT_REACTOR_POLLER_LIST_H_
#define SKIFF_TRANSPORT_REACTOR_POLLER_LIST_H_

#include <cstddef>
#include <vector>

#include "transport/reactor/reactor.h"

namespace skiff::transport {

// The pollers of one reactor; for reactor implementations. Pollers may be added
// and removed while PollAll() runs.
class PollerList {
 public:
  // `poller` must not be in the list.
  void Add(Poller* poller, bool busy) {
    entries_.push_back({poller, busy});
    if (busy) ++busy_;
  }

  // Removing what is not in the list does nothing.
  void Remove(Poller* poller) {
    for (Entry& entry : entries_) {
      if (entry.poller != poller) continue;
      if (entry.busy) --busy_;
      entry.poller = nullptr;
      has_gaps_ = true;
      break;
    }
    if (!polling_) Compact();
  }

  // Polls each once; pollers added meanwhile have their first turn next time.
  // Returns the sum of what they handled.
  int PollAll() {
    polling_ = true;
    int handled = 0;
    const size_t count = entries_.size();
    for (size_t i = 0; i < count; ++i) {
      if (entries_[i].poller != nullptr) handled += entries_[i].poller->Poll();
    }
    polling_ = false;
    Compact();
    return handled;
  }

  bool any_busy() const { return busy_ > 0; }
  bool empty() const { return entries_.empty(); }

 private:
  struct Entry {
    Poller* poller;
    bool busy;
  };

  void Compact() {
    if (!has_gaps_) return;
    has_gaps_ = false;
    size_t kept = 0;
    for (const Entry& entry : entries_) {
      if (entry.poller != nullptr) entries_[kept++] = entry;
    }
    entries_.resize(kept);
  }

  std::vector<Entry> entries_;
  int busy_ = 0;
  bool polling_ = false;
  bool has_gaps_ = false;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_REACTOR_POLLER_LIST_H_
