#include "scsi/backend/device_name.h"

#include <sys/sysmacros.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace skiff::scsi {
namespace {

class DeviceNameTest : public ::testing::Test {
 protected:
  // What sysfs has for the device 8:17 (and the disk that it may be a part of).
  void Put(const std::string& file, const std::string& text) {
    const std::filesystem::path path = directory_ + "/dev/block/8:17/" + file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << "\n";
  }
  void PutOfDisk(const std::string& file, const std::string& text) {
    std::filesystem::create_directories(directory_ + "/dev/block/8:17");
    Put("../" + file, text);
  }
  DeviceName Name() {
    return DeviceNameOf(makedev(8, 17), "/dev/sdb1", directory_);
  }

  const std::string directory_ =
      ::testing::TempDir() + "/" +
      ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(DeviceNameTest, APartitionIsNamedByItsDisksWwid) {
  PutOfDisk("device/wwid", "naa.5000c500a1b2c3d4");
  Put("partition", "1");
  EXPECT_EQ(Name().name, "wwid-naa.5000c500a1b2c3d4-part1");
  EXPECT_TRUE(Name().unique);
}

TEST_F(DeviceNameTest, AnNvmeDiskHasItsWwidItself) {
  Put("wwid", "eui.0025388b91b0a0a1");
  EXPECT_EQ(Name().name, "wwid-eui.0025388b91b0a0a1");
}

TEST_F(DeviceNameTest, AVolumeHasAUuid) {
  Put("dm/uuid", "LVM-abc");
  EXPECT_EQ(Name().name, "dm-LVM-abc");
  EXPECT_TRUE(Name().unique);
}

TEST_F(DeviceNameTest, AMultipathDeviceHasTheWwidOfItsDisk) {
  for (const char* const wwid :
       {"naa.600a098038303053", "3600a09803830305374", "eui.0025388b91b0a0a1",
        "uuid.6f8a6e0e-0d44-4bd0-9d1c-2a0d0c0e6f52", "20025388b91b0a0a1"}) {
    const std::string uuid = std::string("mpath-") + wwid;
    Put("dm/uuid", uuid);
    EXPECT_EQ(Name().name, "dm-" + uuid);
    EXPECT_TRUE(Name().unique);
  }
}

// Other machines have devices of the same names.
TEST_F(DeviceNameTest, NamesOfOtherFormsAreNotUnique) {
  for (const char* const uuid :
       {"CRYPT-PLAIN-disk", "CRYPT-LUKS2-0123-disk", "mine", "mpath-1ATA_QEMU",
        "mpath-0QEMU_QEMU_HARDDISK_drive", "mpath-3"}) {
    Put("dm/uuid", uuid);
    EXPECT_EQ(Name().name, "path-/dev/sdb1") << uuid;
    EXPECT_FALSE(Name().unique) << uuid;
  }
  Put("dm/uuid", "");
  for (const char* const wwid :
       {"t10.ATA     QEMU HARDDISK    QM00001", "nvme.1b36-31-51454d55-0001",
        "scsi.QEMU", "0123"}) {
    Put("device/wwid", wwid);
    EXPECT_EQ(Name().name, "path-/dev/sdb1") << wwid;
    EXPECT_FALSE(Name().unique) << wwid;
  }
}

TEST_F(DeviceNameTest, ALoopDeviceIsItsFile) {
  Put("loop/backing_file", "/srv/disk.img");
  Put("loop/offset", "1048576");
  const DeviceName name = Name();
  EXPECT_EQ(name.name, "loop-/srv/disk.img-1048576");
  EXPECT_EQ(name.backing_file, "/srv/disk.img");
  EXPECT_FALSE(name.unique);
}

TEST_F(DeviceNameTest, AnyOtherIsItsPath) {
  EXPECT_EQ(Name().name, "path-/dev/sdb1");
  EXPECT_FALSE(Name().unique);
}

}  // namespace
}  // namespace skiff::scsi
