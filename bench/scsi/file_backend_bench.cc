#include <benchmark/benchmark.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "scsi/backend/backend.h"
#include "scsi/backend/file_backend.h"
#include "scsi/initiator/run_until.h"
#include "transport/reactor/epoll_reactor.h"

// Requests per second of a medium in a file, with a number of requests in
// flight.

namespace skiff::scsi {
namespace {

constexpr uint64_t kSize = 128u << 20;
constexpr uint64_t kFill = 1u << 20;
constexpr size_t kAlignment = 4096;

std::string Path() {
  const char* directory = std::getenv("TMPDIR");
  return absl::StrCat(directory != nullptr ? directory : "/tmp",
                      "/file_backend_bench.", getpid());
}

struct Free {
  void operator()(char* memory) const { std::free(memory); }
};
using AlignedMemory = std::unique_ptr<char, Free>;

AlignedMemory Allocate(uint64_t length) {
  return AlignedMemory(
      static_cast<char*>(std::aligned_alloc(kAlignment, length)));
}

// Keeps requests in flight until a number of them has completed.
class Load {
 public:
  Load(BackendChannel* channel, IoRequest::Op op, uint64_t length, int depth)
      : channel_(channel), length_(length), slots_(depth) {
    for (Slot& slot : slots_) {
      slot.memory = Allocate(length);
      std::fill_n(slot.memory.get(), length, 'x');
      slot.iov = {slot.memory.get(), length};
      slot.load = this;
      slot.request.op = op;
      slot.request.length = length;
      slot.request.iov = &slot.iov;
      slot.request.iov_count = 1;
      slot.request.context = &slot;
      slot.request.done = [](IoRequest* request) {
        auto* done = static_cast<Slot*>(request->context);
        done->load->OnDone(done);
      };
    }
  }

  // Returns false when a request failed.
  bool Run(transport::EpollReactor* reactor, int64_t requests) {
    left_ = requests;
    for (Slot& slot : slots_) Start(&slot);
    RunUntil(reactor, [this] { return in_flight_ == 0; });
    return ok_;
  }

 private:
  struct Slot {
    IoRequest request;
    iovec iov = {};
    AlignedMemory memory;
    Load* load = nullptr;
  };

  void Start(Slot* slot) {
    while (left_ > 0) {
      --left_;
      position_ = (position_ + 40503) % (kSize / length_);
      slot->request.offset = position_ * length_;
      ++in_flight_;
      if (!channel_->Submit(&slot->request)) return;
      --in_flight_;
      ok_ = ok_ && slot->request.status == IoStatus::kOk;
    }
  }
  void OnDone(Slot* slot) {
    --in_flight_;
    ok_ = ok_ && slot->request.status == IoStatus::kOk;
    Start(slot);
  }

  BackendChannel* channel_;
  const uint64_t length_;
  std::vector<Slot> slots_;
  uint64_t position_ = 0;
  int64_t left_ = 0;
  int in_flight_ = 0;
  bool ok_ = true;
};

// Arguments: bytes per request, requests in flight, O_DIRECT, engine.
void BmFile(benchmark::State& state, IoRequest::Op op) {
  FileBackendOptions options;
  options.path = Path();
  options.size_bytes = kSize;
  options.block_size = 4096;
  options.direct = state.range(2) != 0;
  options.io = state.range(3) != 0 ? FileIo::kHelperThread : FileIo::kIoUring;
  auto reactor = *transport::EpollReactor::Create();
  auto backend = MakeFileBackend(options);
  unlink(options.path.c_str());
  if (!backend.ok()) {
    return state.SkipWithError(backend.status().ToString().c_str());
  }
  auto channel = (*backend)->OpenChannel(reactor.get());
  if (!channel.ok()) {
    return state.SkipWithError(channel.status().ToString().c_str());
  }
  // Holes would be faster than data.
  bool ok = Load(channel->get(), IoRequest::Op::kWrite, kFill, 4)
                .Run(reactor.get(), kSize / kFill);
  constexpr int64_t kBatch = 512;
  Load load(channel->get(), op, static_cast<uint64_t>(state.range(0)),
            static_cast<int>(state.range(1)));
  for (auto _ : state) ok = load.Run(reactor.get(), kBatch) && ok;
  if (!ok) state.SkipWithError("a request failed");
  state.SetItemsProcessed(state.iterations() * kBatch);
  state.SetBytesProcessed(state.iterations() * kBatch * state.range(0));
}
BENCHMARK_CAPTURE(BmFile, Read, IoRequest::Op::kRead)
    ->ArgNames({"bytes", "depth", "direct", "thread"})
    ->ArgsProduct({{4096}, {1, 32}, {0, 1}, {0, 1}})
    ->Args({65536, 32, 0, 0})
    ->UseRealTime();
BENCHMARK_CAPTURE(BmFile, Write, IoRequest::Op::kWrite)
    ->ArgNames({"bytes", "depth", "direct", "thread"})
    ->ArgsProduct({{4096}, {1, 32}, {0, 1}, {0, 1}})
    ->Args({65536, 32, 0, 0})
    ->UseRealTime();

}  // namespace
}  // namespace skiff::scsi
