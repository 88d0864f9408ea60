#include "tools/skiffd/lun_check.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tools/common/units.h"
#include "tools/skiffd/config.pb.h"
#include "tools/skiffd/settings.h"

namespace skiff::tools::skiffd {
namespace {

std::string Directory(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string NotAMultiple(uint64_t size, uint32_t block_size) {
  return absl::StrCat("the size, ", size, " bytes, is not a multiple of the ",
                      "block size, ", block_size);
}

// 0: it does not say. Whoever opens it finds out why.
uint64_t SizeOfDevice(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const off_t end = lseek(fd, 0, SEEK_END);
  close(fd);
  return end < 0 ? 0 : static_cast<uint64_t>(end);
}

FileFacts FactsOf(const std::string& path, const struct stat& info) {
  if (S_ISREG(info.st_mode)) {
    return {absl::StrCat("inode ", info.st_dev, ":", info.st_ino),
            static_cast<uint64_t>(info.st_size)};
  }
  return {absl::StrCat("device ", info.st_rdev), SizeOfDevice(path)};
}

}  // namespace

FileFacts LookAtFile(const std::string& path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) return {};
  return FactsOf(path, info);
}

std::vector<LunConfig> LunChecker::Check(const Target& target) {
  std::vector<LunConfig> luns;
  std::map<uint64_t, std::string> taken;
  uint64_t next = 0;
  for (const Lun& lun : target.lun()) {
    LunConfig config;
    config.where = checker_->Where(lun);
    config.options.lun = next;
    checker_->Read(lun, SettingsOf(&config));
    const uint64_t number = config.options.lun;
    next = number + 1;
    if (number > kMaxLun) {
      checker_->Problem(
          lun, 0,
          absl::StrCat("LUN ", number, " is beyond ", kMaxLun,
                       ": without a number, it has the next one; give it one "
                       "that is free, as lun: NUMBER, or serve it by another "
                       "target"));
    }
    const auto [other, fresh] = taken.emplace(number, config.where);
    if (!fresh) {
      checker_->Problem(
          lun, Lun::kLunFieldNumber,
          absl::StrCat("LUN ", number, " is taken by ", other->second,
                       "; give each LUN of a target a number of its own"));
    }
    CheckMedium(lun, &config);
    luns.push_back(std::move(config));
  }
  return luns;
}

void LunChecker::CheckMedium(const Lun& lun, LunConfig* out) {
  if (lun.has_block_size() && lun.block_size() != 512 &&
      lun.block_size() != 4096) {
    checker_->Problem(lun, Lun::kBlockSizeFieldNumber,
                      absl::StrCat("block_size is ", lun.block_size(),
                                   "; it can be 512 or 4096"));
    return;
  }
  const uint32_t block_size = lun.has_block_size() ? lun.block_size() : 512;
  if (lun.has_ram()) {
    scsi::RamBackendOptions ram;
    ram.block_size = block_size;
    ram.read_only = lun.read_only();
    if (lun.ram().has_huge_pages()) ram.huge_pages = lun.ram().huge_pages();
    if (!lun.ram().has_size()) {
      checker_->Problem(lun.ram(), 0,
                        "ram needs its size, such as size: \"1GiB\"");
      return;
    }
    checker_->Read(lun, SettingsOf(&ram));
    if (ram.size_bytes % block_size != 0) {
      checker_->Problem(lun.ram(), Ram::kSizeFieldNumber,
                        absl::StrCat(NotAMultiple(ram.size_bytes, block_size),
                                     "; change one of them"));
    }
    out->medium = ram;
  } else if (lun.has_file()) {
    scsi::FileBackendOptions file;
    file.block_size = block_size;
    file.read_only = lun.read_only();
    CheckFile(lun, &file, &out->file);
    out->medium = std::move(file);
  } else {
    checker_->Problem(lun, 0,
                      "this LUN has no medium; add ram { size: \"1GiB\" } or "
                      "file { path: \"/path\" }");
  }
}

void LunChecker::CheckFile(const Lun& lun, scsi::FileBackendOptions* out,
                           FileFacts* facts) {
  const File& file = lun.file();
  if (file.path().empty()) {
    checker_->Problem(file, 0, "file needs its path");
    return;
  }
  out->path = file.path();
  checker_->Read(lun, SettingsOf(out));
  if (out->size_bytes % out->block_size != 0) {
    checker_->Problem(
        file, File::kSizeFieldNumber,
        absl::StrCat(NotAMultiple(out->size_bytes, out->block_size),
                     "; change one of them"));
    return;
  }
  // Each LUN's file is looked at whenever a configuration is taken over.
  struct stat info = {};
  if (stat(out->path.c_str(), &info) == 0) {
    CheckExistingFile(file, info, out, facts);
  } else if (errno == ENOENT) {
    CheckMissingFile(file, *out);
  } else {
    CannotOpen(file, *out);
  }
}

void LunChecker::CannotOpen(const File& file,
                            const scsi::FileBackendOptions& out) {
  checker_->Problem(
      file, File::kPathFieldNumber,
      absl::StrCat("cannot open ", out.path, ": ", std::strerror(errno),
                   "; skiffd must be allowed to read ",
                   out.read_only ? "it" : "and write it"));
}

void LunChecker::CheckExistingFile(const File& file, const struct stat& info,
                                   scsi::FileBackendOptions* out,
                                   FileFacts* facts) {
  const int mode = out->read_only ? R_OK : R_OK | W_OK;
  if (access(out->path.c_str(), mode) != 0) return CannotOpen(file, *out);
  const bool regular = S_ISREG(info.st_mode);
  if (!regular && !S_ISBLK(info.st_mode)) {
    checker_->Problem(file, File::kPathFieldNumber,
                      absl::StrCat(out->path,
                                   " is neither a regular file nor "
                                   "a block device"));
    return;
  }
  const auto size = static_cast<uint64_t>(info.st_size);
  if (regular && out->size_bytes != 0 && size != out->size_bytes) {
    checker_->Problem(
        file, File::kSizeFieldNumber,
        absl::StrCat(out->path, " has ", size, " bytes, not ", out->size_bytes,
                     "; leave the size out to serve it as it is"));
  } else if (regular && size == 0) {
    checker_->Problem(file, File::kPathFieldNumber,
                      absl::StrCat(out->path,
                                   " is empty; remove it and give a "
                                   "size to have it created"));
  } else if (regular && size % out->block_size != 0) {
    checker_->Problem(
        file, File::kPathFieldNumber,
        absl::StrCat(out->path, ": ", NotAMultiple(size, out->block_size),
                     "; extend the file with truncate(1)"));
  }
  *facts = FactsOf(out->path, info);
  CheckSharing(file, facts->identity, *out);
}

void LunChecker::CheckMissingFile(const File& file,
                                  const scsi::FileBackendOptions& out) {
  if (out.size_bytes == 0) {
    checker_->Problem(file, File::kPathFieldNumber,
                      absl::StrCat(out.path,
                                   " does not exist; correct the "
                                   "path, or give a size to have it "
                                   "created"));
    return;
  }
  if (out.read_only) {
    checker_->Problem(file, File::kPathFieldNumber,
                      absl::StrCat(out.path,
                                   " does not exist; a read_only "
                                   "LUN needs a file that does"));
    return;
  }
  const std::string directory = Directory(out.path);
  if (access(directory.c_str(), W_OK | X_OK) != 0) {
    checker_->Problem(file, File::kPathFieldNumber,
                      absl::StrCat("cannot create ", out.path, ": directory ",
                                   directory, ": ", std::strerror(errno)));
    return;
  }
  CheckSharing(file, absl::StrCat("path ", out.path), out);
}

void LunChecker::CheckSharing(const File& file, const std::string& identity,
                              const scsi::FileBackendOptions& out) {
  const auto [other, fresh] =
      files_.emplace(identity, FileUse{checker_->Where(file), out.read_only});
  if (fresh || (out.read_only && other->second.read_only)) return;
  checker_->Problem(
      file, File::kPathFieldNumber,
      absl::StrCat(out.path, " is served already by ", other->second.where,
                   "; two LUNs may share a file only when both are read_only"));
}

}  // namespace skiff::tools::skiffd
