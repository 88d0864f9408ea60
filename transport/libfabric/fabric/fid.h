#ifndef SKIFF_TRANSPORT_LIBFABRIC_FABRIC_FID_H_
#define SKIFF_TRANSPORT_LIBFABRIC_FABRIC_FID_H_

#include <rdma/fabric.h>

#include <memory>

namespace skiff::transport {

// Owns a libfabric object (fid_fabric, fid_domain, fid_ep ...) and closes it.
struct FidCloser {
  template <typename T>
  void operator()(T* object) const {
    fi_close(&object->fid);
  }
};
template <typename T>
using Fid = std::unique_ptr<T, FidCloser>;

struct FreeInfo {
  void operator()(fi_info* info) const { fi_freeinfo(info); }
};
using InfoPtr = std::unique_ptr<fi_info, FreeInfo>;

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_FABRIC_FID_H_
