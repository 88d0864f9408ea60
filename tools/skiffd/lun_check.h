#ifndef SKIFF_TOOLS_SKIFFD_LUN_CHECK_H_
#define SKIFF_TOOLS_SKIFFD_LUN_CHECK_H_

#include <sys/stat.h>

#include <map>
#include <string>
#include <vector>

#include "tools/skiffd/checker.h"
#include "tools/skiffd/config.h"

namespace skiff::tools::skiffd {

class File;
class Lun;
class Target;

// Checks the LUNs of all targets of a configuration.
class LunChecker {
 public:
  explicit LunChecker(Checker* checker) : checker_(checker) {}

  std::vector<LunConfig> Check(const Target& target);

 private:
  struct FileUse {
    std::string where;
    bool read_only = false;
  };

  void CheckMedium(const Lun& lun, LunConfig* out);
  void CheckFile(const Lun& lun, scsi::FileBackendOptions* out,
                 FileFacts* facts);
  // `info`: of what is at the path.
  void CheckExistingFile(const File& file, const struct stat& info,
                         scsi::FileBackendOptions* out, FileFacts* facts);
  // For errno's reason.
  void CannotOpen(const File& file, const scsi::FileBackendOptions& out);
  void CheckMissingFile(const File& file, const scsi::FileBackendOptions& out);
  // Two writers of one file would destroy each other's data.
  void CheckSharing(const File& file, const std::string& identity,
                    const scsi::FileBackendOptions& out);

  Checker* checker_;
  std::map<std::string, FileUse> files_;  // By device and inode, or path.
};

}  // namespace skiff::tools::skiffd

#endif  // SKIFF_TOOLS_SKIFFD_LUN_CHECK_H_
