#ifndef SKIFF_TOOLS_CLIENTS_LIBISCSI_CDB_BUILDER_H_
#define SKIFF_TOOLS_CLIENTS_LIBISCSI_CDB_BUILDER_H_

#include <cstddef>
#include <cstdint>
#include <limits>

#include "tools/clients/libiscsi/bytes.h"
#include "tools/clients/libiscsi/task.h"
#include "tools/clients/libiscsi/types.h"

namespace skiff::libiscsi {

// A CDB in the making. Bits are added to what is there.
class Cdb {
 public:
  Cdb(int size, int operation_code) : size_(size) {
    bytes_[0] = static_cast<unsigned char>(operation_code);
  }

  Cdb& Bits(size_t offset, int shift, int mask, int value) {
    bytes_[offset] |= static_cast<unsigned char>((value & mask) << shift);
    return *this;
  }
  // Any value but 0 sets the bit.
  Cdb& Bit(size_t offset, int bit, int value) {
    return Bits(offset, bit, 1, value != 0 ? 1 : 0);
  }
  Cdb& Byte(size_t offset, int value) { return Bits(offset, 0, 0xff, value); }
  template <typename Number>
  Cdb& Set(size_t offset, Number number) {
    StoreBig(number, bytes_ + offset);
    return *this;
  }

  // A number that a program gave; one that Field cannot hold makes no task.
  template <typename Field, typename Number>
  Cdb& Fit(size_t offset, Number number) {
    const auto wide = static_cast<int64_t>(number);
    if (wide < 0 || wide > std::numeric_limits<Field>::max()) fits_ = false;
    return Set(offset, static_cast<Field>(wide));
  }

  scsi_task* NoData() { return Moving(kNoTransfer, 0); }
  scsi_task* In(int length) { return Moving(kTransferIn, length); }
  scsi_task* Out(int length) { return Moving(kTransferOut, length); }

 private:
  scsi_task* Moving(scsi_xfer_dir direction, int length) {
    if (!fits_ || length < 0) return nullptr;
    return scsi_create_task(size_, bytes_,
                            length != 0 ? direction : kNoTransfer, length);
  }

  const int size_;
  bool fits_ = true;
  unsigned char bytes_[kMaxCdb] = {};
};

}  // namespace skiff::libiscsi

#endif  // SKIFF_TOOLS_CLIENTS_LIBISCSI_CDB_BUILDER_H_
