#ifndef SKIFF_TOOLS_CLIENTS_LIBISCSI_FOUND_H_
#define SKIFF_TOOLS_CLIENTS_LIBISCSI_FOUND_H_

#include <skiff/disk.h>

#include <string>
#include <utility>

#include "tools/clients/libiscsi/types.h"

namespace skiff::libiscsi {

// The targets of a portal, in libiscsi's lists: the last one comes first.
class Found {
 public:
  Found() = default;
  Found(const Found&) = delete;
  Found& operator=(const Found&) = delete;
  ~Found() { Free(first_); }

  // `portal` is where a target is that names none.
  void Add(const skiff_found_target& target, const std::string& portal);
  iscsi_discovery_address* first() const { return first_; }
  iscsi_discovery_address* release() { return std::exchange(first_, nullptr); }
  // Takes null, too.
  static void Free(iscsi_discovery_address* first);

 private:
  iscsi_discovery_address* first_ = nullptr;
};

}  // namespace skiff::libiscsi

#endif  // SKIFF_TOOLS_CLIENTS_LIBISCSI_FOUND_H_
