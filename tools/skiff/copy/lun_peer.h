#ifndef SKIFF_TOOLS_SKIFF_COPY_LUN_PEER_H_
#define SKIFF_TOOLS_SKIFF_COPY_LUN_PEER_H_

#include <sys/uio.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "scsi/initiator/disk.h"
#include "tools/skiff/base/lun.h"
#include "tools/skiff/copy/copy_peer.h"
#include "transport/reactor/reactor.h"

namespace skiff::tools {

// A logical unit as one end of a copy. I/O runs on the session's reactor;
// pieces come back to the pipeline's.
class LunPeer final : public CopyPeer {
 public:
  // `start` is in bytes, a multiple of the block size. `slots` are those of the
  // pipeline, and `home` is its reactor. `lun` must outlive the peer.
  LunPeer(std::string name, Lun* lun, uint64_t start, uint32_t slots,
          transport::Reactor* home);

  std::string name() const override { return name_; }
  std::optional<uint64_t> size() const override {
    return lun_->info().size_bytes - start_;
  }
  uint32_t granularity() const override { return lun_->info().block_size; }
  bool ordered() const override { return false; }

  void Read(CopySlot* slot) override;
  void Write(CopySlot* slot) override;
  bool WriteZeroes(CopySlot* slot) override;
  absl::Status Finish(uint64_t total) override;

 private:
  struct Operation {
    scsi::DiskIo io;
    iovec iov;
    LunPeer* peer = nullptr;
    CopySlot* slot = nullptr;
  };

  void Submit(CopySlot* slot, scsi::DiskIo::Op op);
  static void OnDone(scsi::DiskIo* io);

  const std::string name_;
  Lun* const lun_;
  const uint64_t start_;
  transport::Reactor* const home_;
  std::vector<Operation> operations_;  // By slot.
};

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_SKIFF_COPY_LUN_PEER_H_
