#include "bench/library/disk_load.h"

#include "bench/compare/util.h"

namespace skiff::bench {

double DiskLoad::Measure(const DiskWork& work, double seconds) {
  work_ = &work;
  stopping_ = false;
  completed_ = 0;
  for (uint32_t slot = 0; slot < work.depth; ++slot) SubmitNext(slot);
  // A turn of the loop costs little beside reading the clock each time.
  constexpr int kTurns = 64;
  const double begin = Now();
  double end = begin;
  while (end - begin < seconds) {
    for (int i = 0; i < kTurns; ++i) Poll();
    end = Now();
  }
  const double rate = static_cast<double>(completed_) / (end - begin);
  stopping_ = true;
  while (in_flight_ > 0) Poll();
  return rate;
}

void DiskLoad::OnDone(uint32_t slot) {
  --in_flight_;
  ++completed_;
  if (!stopping_) SubmitNext(slot);
}

void DiskLoad::SubmitNext(uint32_t slot) {
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  ++in_flight_;
  Submit(*work_, slot, random_ % (kDiskBytes / work_->bytes) * work_->bytes,
         &memory_[size_t{slot} * kMaxBytes]);
}

}  // namespace skiff::bench
