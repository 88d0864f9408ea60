#ifndef SKIFF_TESTING_TRANSPORT_CONFORMANCE_FORWARDING_STREAM_H_
#define SKIFF_TESTING_TRANSPORT_CONFORMANCE_FORWARDING_STREAM_H_

#include <sys/uio.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "testing/transport_conformance/forwarding_transport.h"
#include "transport/byte_stream.h"

namespace skiff::testing {

// Where goes what ought to end and does not. Nothing leaves it again: what is
// in there may need reactors that are gone by the end of a test.
template <typename T>
void KeepForever(std::unique_ptr<T> kept) {
  static auto* const kKept = new std::vector<std::unique_ptr<T>>;
  kKept->push_back(std::move(kept));
}

// Lets another stream do the work, with at most one fault.
class ForwardingStream final : public transport::ByteStream,
                               private transport::StreamObserver {
 public:
  ForwardingStream(std::unique_ptr<transport::ByteStream> inner,
                   ForwardingFault fault)
      : inner_(std::move(inner)), fault_(fault) {}
  ~ForwardingStream() override;

  void SetObserver(transport::StreamObserver* observer) override;
  transport::IoResult Readv(absl::Span<const iovec> to) override;
  transport::IoResult Writev(absl::Span<const iovec> from) override;
  void SetReadThreshold(size_t bytes) override;
  size_t unacknowledged() const override;
  void ShutdownWrite() override;
  void Abort() override;
  int ReleaseDescriptor(std::string* unread) override;
  absl::Status error() const override;
  absl::string_view scheme() const override;
  std::string local_address() const override;
  std::string peer_address() const override;

 private:
  bool Has(ForwardingFault fault) const { return fault_ == fault; }
  // Of the inner stream.
  void OnReadable() override;
  void OnWritable() override;

  std::unique_ptr<transport::ByteStream> inner_;
  const ForwardingFault fault_;
  transport::StreamObserver* observer_ = nullptr;
  int notices_ = 0;
  size_t threshold_ = 1;
  size_t written_ = 0;
  bool write_ended_ = false;
  bool released_ = false;
  std::vector<iovec> borrowed_;
};

}  // namespace skiff::testing

#endif  // SKIFF_TESTING_TRANSPORT_CONFORMANCE_FORWARDING_STREAM_H_
