#include "scsi/backend/device_name.h"

#include <sys/sysmacros.h>

#include <fstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace skiff::scsi {
namespace {

// The first line of a file; empty if there is none.
std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return std::string(absl::StripAsciiWhitespace(line));
}

// Names of other forms come from vendors or from whoever made the device: every
// virtual machine has a "t10.ATA QEMU HARDDISK QM00001".
bool IsUniqueWwid(absl::string_view wwid) {
  for (const char* const prefix : {"naa.", "eui.", "uuid."}) {
    if (absl::StartsWith(wwid, prefix)) return true;
  }
  return false;
}

// scsi_id, which names SCSI disks for multipath, writes "3" for "naa." and "2"
// for "eui.".
bool IsUniqueScsiId(absl::string_view id) {
  if (id.size() < 17 || (id[0] != '3' && id[0] != '2')) return false;
  for (const char c : id) {
    if (!absl::ascii_isxdigit(static_cast<unsigned char>(c))) return false;
  }
  return true;
}

bool IsUniqueDmUuid(absl::string_view uuid) {
  if (absl::ConsumePrefix(&uuid, "mpath-")) {
    return IsUniqueWwid(uuid) || IsUniqueScsiId(uuid);
  }
  return absl::StartsWith(uuid, "LVM-");
}

}  // namespace

DeviceName DeviceNameOf(dev_t device, absl::string_view path,
                        const std::string& sysfs) {
  const std::string own =
      absl::StrCat(sysfs, "/dev/block/", major(device), ":", minor(device));
  // A volume of the device mapper, such as LVM's.
  if (const std::string uuid = FirstLine(absl::StrCat(own, "/dm/uuid"));
      IsUniqueDmUuid(uuid)) {
    return {absl::StrCat("dm-", uuid), true, ""};
  }
  const std::string partition = FirstLine(absl::StrCat(own, "/partition"));
  const std::string disk = partition.empty() ? own : absl::StrCat(own, "/..");
  const std::string suffix =
      partition.empty() ? "" : absl::StrCat("-part", partition);
  // NVMe's is the disk's, SCSI's the device's below it.
  for (const char* const file : {"/wwid", "/device/wwid"}) {
    const std::string wwid = FirstLine(absl::StrCat(disk, file));
    if (IsUniqueWwid(wwid))
      return {absl::StrCat("wwid-", wwid, suffix), true, ""};
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
