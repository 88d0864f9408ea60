// The layers below the library, as a program of this repository uses them.
#include <array>
#include <memory>
#include <utility>

#include "bench/compare/util.h"
#include "bench/library/disk_load.h"
#include "protocol/initiator/initiator.h"
#include "scsi/initiator/disk.h"
#include "transport/reactor/epoll_reactor.h"
#include "transport/registry.h"
#include "transport/tcp/tcp_transport.h"

namespace skiff::bench {
namespace {

void Must(const absl::Status& status) {
  if (!status.ok()) Die("library_bench: " + status.ToString());
}

template <typename T>
T Must(absl::StatusOr<T> value) {
  Must(value.status());
  return *std::move(value);
}

class InternalLoad : public DiskLoad {
 public:
  explicit InternalLoad(const transport::Address& portal) {
    Must(registry_.Add(transport::MakeTcpTransport()));
    transport::EpollReactorOptions polling;
    polling.spin = absl::InfiniteDuration();
    reactor_ = Must(transport::EpollReactor::Create(polling));
    protocol::InitiatorOptions options;
    options.portal = portal;
    options.target_name = kTargetName;
    bool ready = false;
    initiator_ = Must(protocol::Initiator::Create(
        &registry_, reactor_.get(), options,
        [&ready](const absl::Status& status) { Must(status), ready = true; }));
    while (!ready) reactor_->Poll();
    disk_ = Must(scsi::Disk::Create(initiator_.get(), reactor_.get()));
    bool open = false;
    disk_->Open(
        [&open](const absl::Status& status) { Must(status), open = true; });
    while (!open) reactor_->Poll();
  }
  ~InternalLoad() override { disk_->Close(); }

 private:
  struct Slot {
    InternalLoad* load = nullptr;
    uint32_t number = 0;
    iovec piece = {};
    scsi::DiskIo io;
  };

  void Submit(const DiskWork& work, uint32_t number, uint64_t offset,
              void* memory) override {
    Slot& slot = slots_[number];
    slot.load = this;
    slot.number = number;
    slot.piece = {memory, work.bytes};
    slot.io.op =
        work.write ? scsi::DiskIo::Op::kWrite : scsi::DiskIo::Op::kRead;
    slot.io.offset = offset;
    slot.io.length = work.bytes;
    slot.io.iov = &slot.piece;
    slot.io.iov_count = 1;
    slot.io.context = &slot;
    slot.io.done = [](scsi::DiskIo* io) {
      Must(io->status);
      auto* const ended = static_cast<Slot*>(io->context);
      ended->load->OnDone(ended->number);
    };
    disk_->Submit(&slot.io);
  }
  void Poll() override { reactor_->Poll(); }

  transport::Registry registry_;
  std::unique_ptr<transport::EpollReactor> reactor_;
  std::unique_ptr<protocol::Initiator> initiator_;
  std::unique_ptr<scsi::Disk> disk_;
  std::array<Slot, kMaxDepth> slots_;
};

}  // namespace

std::unique_ptr<DiskLoad> MakeInternalLoad(const transport::Address& portal) {
  return std::make_unique<InternalLoad>(portal);
}

}  // namespace skiff::bench
