#include "scsi/backend/device_name.h"

#include <sys/sysmacros.h>

#include <fstream>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace skiff::scsi {
namespace {

// The first line of a file; empty if there is none.
std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return std::string(absl::StripAsciiWhitespace(line));
}

}  // namespace

DeviceName DeviceNameOf(dev_t device, absl::string_view path,
                        const std::string& sysfs) {
  const std::string own =
      absl::StrCat(sysfs, "/dev/block/", major(device), ":", minor(device));
  // A volume of the device mapper, such as LVM's.
  if (const std::string uuid = FirstLine(absl::StrCat(own, "/dm/uuid"));
      !uuid.empty()) {
    return {absl::StrCat("dm-", uuid), true, ""};
  }
  const std::string partition = FirstLine(absl::StrCat(own, "/partition"));
  const std::string disk = partition.empty() ? own : absl::StrCat(own, "/..");
  const std::string suffix =
      partition.empty() ? "" : absl::StrCat("-part", partition);
  // NVMe's is the disk's, SCSI's the device's below it.
  for (const char* const file : {"/wwid", "/device/wwid"}) {
    const std::string wwid = FirstLine(absl::StrCat(disk, file));
    if (!wwid.empty()) return {absl::StrCat("wwid-", wwid, suffix), true, ""};
  }
  const std::string backing =
      FirstLine(absl::StrCat(disk, "/loop/backing_file"));
  if (!backing.empty()) {
    const std::string offset = FirstLine(absl::StrCat(disk, "/loop/offset"));
    return {absl::StrCat("loop-", backing, "-", offset, suffix), false,
            backing};
  }
  return {absl::StrCat("path-", path), false, ""};
}

}  // namespace skiff::scsi
