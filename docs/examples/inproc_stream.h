#ifndef SKIFF_DOCS_EXAMPLES_INPROC_STREAM_H_
#define SKIFF_DOCS_EXAMPLES_INPROC_STREAM_H_

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "transport/byte_stream.h"
#include "transport/reactor/reactor.h"

namespace example {

class InprocStream;

// One connection: what its two ends share. They may belong to reactors of
// different threads, so a mutex guards it. Side 0 connects, side 1 accepts.
struct InprocWire {
  struct End {
    skiff::transport::Reactor* reactor = nullptr;  // Null: nobody is there.
    // Set by the end when it goes, so that nothing posted to it runs any more.
    std::shared_ptr<InprocStream*> stream;
    std::string address;
    std::string inbox;   // What has come, and was not read.
    bool ended = false;  // Nothing will come any more.
    absl::Status error;  // Why the end is dead.
    // It has seen kWouldBlock, and wants to be told.
    bool wants_read = false;
    bool wants_write = false;
    // It is about to be told.
    bool tell_read = false;
    bool tell_write = false;
  };

  // Runs `what` on the reactor of an end, if somebody is there.
  void Post(int side, absl::AnyInvocable<void()> what);
  // The side is gone: the other one reads the end behind what has come, or an
  // error, if `abort`, at once.
  void Close(int side, bool abort);

  std::mutex mutex;
  End ends[2];
};

// One end, for its user.
class InprocStream final : public skiff::transport::ByteStream {
 public:
  InprocStream(skiff::transport::Reactor* reactor,
               std::shared_ptr<InprocWire> wire, int side);
  ~InprocStream() override;

  void SetObserver(skiff::transport::StreamObserver* observer) override;
  skiff::transport::IoResult Readv(absl::Span<const iovec> to) override;
  skiff::transport::IoResult Writev(absl::Span<const iovec> from) override;
  size_t unacknowledged() const override;
  void ShutdownWrite() override;
  void Abort() override;
  absl::Status error() const override;
  absl::string_view scheme() const override { return "inproc"; }
  std::string local_address() const override { return near_.address; }
  std::string peer_address() const override { return far_.address; }

  // Tells the observer what it is to be told. On the reactor.
  static void Tell(InprocStream* stream);

 private:
  const std::shared_ptr<InprocWire> wire_;
  InprocWire::End& near_;
  InprocWire::End& far_;
  const int side_;
  const std::shared_ptr<InprocStream*> self_;
  skiff::transport::StreamObserver* observer_ = nullptr;
  bool write_ended_ = false;
};

}  // namespace example

#endif  // SKIFF_DOCS_EXAMPLES_INPROC_STREAM_H_
