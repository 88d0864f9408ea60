#include <benchmark/benchmark.h>
#include <sys/uio.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "scsi/backend/backend.h"
#include "scsi/backend/ram_backend.h"

// What a medium in memory costs a request: through its channel, which copies,
// and in place, which only notes what is written.

namespace skiff::scsi {
namespace {

constexpr uint64_t kSize = 256u << 20;

// A medium whose pages are all there, and memory for one request.
class Medium {
 public:
  explicit Medium(uint64_t length)
      : backend_(*MakeRamBackend({.size_bytes = kSize})),
        channel_(*backend_->OpenChannel(nullptr)),
        length_(length),
        buffer_(length, 'x') {
    backend_->NoteWritten(0, kSize);
    std::memset(backend_->direct_memory(), 'y', kSize);
  }

  Backend* backend() { return backend_.get(); }
  uint64_t NextOffset() {
    // Coprime to the number of slots: visits all of them.
    slot_ = (slot_ + 40503) % (kSize / length_);
    return slot_ * length_;
  }
  void Run(IoRequest::Op op) {
    const iovec iov = {buffer_.data(), buffer_.size()};
    IoRequest request;
    request.op = op;
    request.offset = NextOffset();
    request.length = length_;
    request.iov = &iov;
    request.iov_count = 1;
    channel_->Submit(&request);
    benchmark::DoNotOptimize(request.status);
  }

 private:
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<BackendChannel> channel_;
  const uint64_t length_;
  std::vector<char> buffer_;
  uint64_t slot_ = 0;
};

void BmChannel(benchmark::State& state, IoRequest::Op op) {
  Medium medium(static_cast<uint64_t>(state.range(0)));
  for (auto _ : state) medium.Run(op);
  state.SetItemsProcessed(state.iterations());
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK_CAPTURE(BmChannel, Read, IoRequest::Op::kRead)->Arg(4096)->Arg(65536);
BENCHMARK_CAPTURE(BmChannel, Write, IoRequest::Op::kWrite)
    ->Arg(4096)
    ->Arg(65536);
// Gives the page back; the next round finds it gone.
BENCHMARK_CAPTURE(BmChannel, Unmap, IoRequest::Op::kUnmap)->Arg(4096);

// All that a write in place asks of the backend, once the granule is mapped.
void BmNoteWritten(benchmark::State& state) {
  Medium medium(static_cast<uint64_t>(state.range(0)));
  for (auto _ : state) {
    medium.backend()->NoteWritten(medium.NextOffset(),
                                  static_cast<uint64_t>(state.range(0)));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BmNoteWritten)->Arg(4096)->Arg(1 << 20);

}  // namespace
}  // namespace skiff::scsi
