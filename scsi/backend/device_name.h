#ifndef SKIFF_SCSI_BACKEND_DEVICE_NAME_H_
#define SKIFF_SCSI_BACKEND_DEVICE_NAME_H_

#include <sys/types.h>

#include <string>

#include "absl/strings/string_view.h"

namespace skiff::scsi {

// What a block device is known by, however it is called at the moment.
struct DeviceName {
  std::string name;
  // Nobody else's in the world, and the same on every machine.
  bool unique = false;
  // A loop device's file.
  std::string backing_file;
};

// From what sysfs says (at `sysfs`, "/sys" but in tests). `path` is the name
// that it gets where there is nothing better. It is used as it is: what links
// lead to may be called otherwise after a reboot.
DeviceName DeviceNameOf(dev_t device, absl::string_view path,
                        const std::string& sysfs = "/sys");

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_BACKEND_DEVICE_NAME_H_
