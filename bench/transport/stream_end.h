#ifndef SKIFF_BENCH_TRANSPORT_STREAM_END_H_
#define SKIFF_BENCH_TRANSPORT_STREAM_END_H_

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "bench/transport/workload.h"
#include "transport/byte_stream.h"

namespace skiff::bench {

// A ByteStream that does its part of a workload: requests of kHeaderBytes,
// `depth` at once, and answers of kHeaderBytes and `size` more, as those of
// bench/compare's `raw`.
class StreamEnd final : public End, public transport::StreamObserver {
 public:
  static constexpr size_t kHeaderBytes = 48;

  // An accepting end learns the workload from its peer.
  explicit StreamEnd(std::unique_ptr<transport::ByteStream> stream);
  StreamEnd(std::unique_ptr<transport::ByteStream> stream,
            const Workload& workload);

  int Poll() override;
  bool idle() const override { return outstanding_ == 0; }

  absl::Status RunByEvents(transport::Reactor* reactor,
                           std::function<int()> step) override;

  void OnReadable() override { Step(); }
  void OnWritable() override { Step(); }
  transport::ByteStream* stream() const { return stream_.get(); }

 private:
  void Step();
  void SetWorkload(const Workload& workload);
  bool ReceiveWorkload();
  int Receive();
  void Send(size_t messages);
  void Write();

  const std::unique_ptr<transport::ByteStream> stream_;
  const bool connecting_;
  std::function<int()> step_;  // When run by events.
  bool started_ = false;
  size_t in_bytes_ = 0;  // Of a message.
  size_t out_bytes_ = 0;
  std::vector<uint8_t> in_;
  std::vector<uint8_t> out_;
  std::vector<uint8_t> hello_;
  std::vector<iovec> pieces_;  // Of what is unsent.
  size_t partial_ = 0;         // Bytes of the message that is not complete yet.
  size_t unsent_ = 0;  // Bytes of messages that the stream did not take yet.
  uint32_t outstanding_ = 0;
};

}  // namespace skiff::bench

#endif  // SKIFF_BENCH_TRANSPORT_STREAM_END_H_
