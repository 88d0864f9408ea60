#ifndef SKIFF_TRANSPORT_LIBFABRIC_FABRIC_FABRIC_WORK_H_
#define SKIFF_TRANSPORT_LIBFABRIC_FABRIC_FABRIC_WORK_H_

#include <rdma/fi_rma.h>
#include <sys/uio.h>

#include <cstddef>

#include "transport/libfabric/fabric/fabric_info.h"
#include "transport/rdma_endpoint.h"

namespace skiff::transport {

// The memory of an operation, as libfabric takes it.
struct FabricPieces {
  const iovec* iovecs;
  void** descriptors;  // One for each, or null.
  size_t count;
  size_t length;  // Of all of them.
};

// An operation in the form that the provider wants.
struct FabricWork {
  iovec pieces[kMaxFabricSges];
  void* descriptors[kMaxFabricSges];
  size_t count = 0;
  size_t length = 0;
  RemoteBuffer remote;
  bool is_inline = false;
  bool undescribed = false;  // Some pieces have no descriptor.

  // All descriptors, or no array of them: the verbs provider looks at each.
  FabricPieces AsPieces() const {
    return {pieces, undescribed ? nullptr : const_cast<void**>(descriptors),
            count, length};
  }
};

// A READ or WRITE of one piece, with what is the same for each filled in.
class OneSidedMessage {
 public:
  OneSidedMessage() {
    message_.msg_iov = &piece_;
    message_.desc = &descriptor_;
    message_.iov_count = 1;
    message_.addr = FI_ADDR_UNSPEC;
    message_.rma_iov = &target_;
    message_.rma_iov_count = 1;
  }
  OneSidedMessage(const OneSidedMessage&) = delete;
  OneSidedMessage& operator=(const OneSidedMessage&) = delete;

  // Of an unconnected endpoint; else there is none.
  void SetPeer(fi_addr_t peer) { message_.addr = peer; }
  fi_addr_t peer() const { return message_.addr; }

  const fi_msg_rma* Fill(const Sge& piece, void* descriptor,
                         const RemoteBuffer& remote, void* context) {
    piece_ = {piece.data, piece.length};
    descriptor_ = descriptor;
    target_ = {remote.address, piece.length, remote.key.value};
    message_.context = context;
    return &message_;
  }
  // Of the last one.
  RemoteBuffer remote() const { return {target_.addr, {target_.key}}; }

 private:
  fi_msg_rma message_ = {};
  iovec piece_ = {};
  void* descriptor_ = nullptr;
  fi_rma_iov target_ = {};
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_FABRIC_FABRIC_WORK_H_
