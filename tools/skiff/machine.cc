#include "tools/skiff/machine.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "tools/common/read_file.h"
#include "tools/common/units.h"

namespace skiff::tools {
namespace {

namespace fs = std::filesystem;

// Below these, a program with a few hundred connections runs into the limit.
constexpr uint64_t kEnoughLockedBytes = uint64_t{256} << 20;
constexpr uint64_t kEnoughFiles = 4096;
constexpr int kCapIpcLock = 14;  // capabilities(7), <linux/capability.h>.

struct KnownModule {
  const char* name;
  const char* purpose;
  bool needed;
  // Exists while the module's work is done, also where it is built in.
  const char* sign;
};

constexpr KnownModule kModules[] = {
    {"ib_core", "RDMA in the kernel", true, "sys/class/infiniband"},
    {"ib_uverbs", "RDMA for programs", true, "sys/class/infiniband_verbs"},
    {"rdma_cm", "connections over RDMA", true, "sys/module/rdma_cm"},
    {"rdma_ucm", "connections for programs", true, "sys/class/misc/rdma_cm"},
    {"rdma_rxe", "RoCE in software", false, "sys/module/rdma_rxe"},
    {"siw", "iWARP in software", false, "sys/module/siw"},
};

bool Exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// The paths in a directory, in order; none if there is no directory.
std::vector<fs::path> List(const fs::path& directory) {
  std::error_code error;
  std::vector<fs::path> paths;
  for (fs::directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    paths.push_back(it->path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::optional<uint64_t> ReadNumber(const fs::path& path) {
  const auto text = ReadFile(path.string());
  uint64_t number = 0;
  if (!text.ok() ||
      !absl::SimpleAtoi(absl::StripAsciiWhitespace(*text), &number)) {
    return std::nullopt;
  }
  return number;
}

bool MayLockAnything(const std::string& root) {
  const auto status = ReadFile(root + "/proc/self/status");
  if (!status.ok()) return false;
  for (absl::string_view line : absl::StrSplit(*status, '\n')) {
    uint64_t set = 0;
    if (absl::ConsumePrefix(&line, "CapEff:") &&
        absl::SimpleHexAtoi(absl::StripAsciiWhitespace(line), &set)) {
      return (set >> kCapIpcLock & 1) != 0;
    }
  }
  return false;
}

std::optional<uint64_t> ToOptional(rlim_t limit) {
  if (limit == RLIM_INFINITY) return std::nullopt;
  return limit;
}

rlimit LimitOf(__rlimit_resource resource) {
  rlimit limit = {};
  getrlimit(resource, &limit);
  return limit;
}

std::vector<HugePagesReport> ReadHugePages(const std::string& root) {
  std::vector<HugePagesReport> reports;
  for (const fs::path& path : List(root + "/sys/kernel/mm/hugepages")) {
    const std::string name = path.filename().string();
    absl::string_view size = name;
    uint64_t kilobytes = 0;
    if (!absl::ConsumePrefix(&size, "hugepages-") ||
        !absl::ConsumeSuffix(&size, "kB") ||
        !absl::SimpleAtoi(size, &kilobytes)) {
      continue;
    }
    reports.push_back({kilobytes << 10,
                       ReadNumber(path / "nr_hugepages").value_or(0),
                       ReadNumber(path / "free_hugepages").value_or(0)});
  }
  std::sort(reports.begin(), reports.end(), [](const auto& a, const auto& b) {
    return a.page_bytes < b.page_bytes;
  });
  return reports;
}

std::vector<KernelModuleReport> ReadModules(const std::string& root) {
  utsname kernel = {};
  uname(&kernel);
  const std::string release = kernel.release;
  const auto installed =
      ReadFile(absl::StrCat(root, "/lib/modules/", release, "/modules.dep"));
  std::vector<KernelModuleReport> reports;
  for (const KnownModule& module : kModules) {
    KernelModuleReport report;
    report.name = module.name;
    report.purpose = module.purpose;
    const bool loaded = Exists(absl::StrCat(root, "/sys/module/", module.name));
    if (loaded || Exists(absl::StrCat(root, "/", module.sign))) {
      report.state = "loaded";
    } else if (installed.ok() &&
               absl::StrContains(*installed,
                                 absl::StrCat("/", module.name, ".ko"))) {
      report.state = "not loaded";
      if (module.needed) {
        report.problem = absl::StrCat(
            "verbs needs it, on a machine with RDMA devices; modprobe ",
            module.name);
      }
    } else {
      report.state = "missing";
      if (module.needed) {
        report.problem = absl::StrCat(
            "verbs needs it, and no module for this kernel (", release,
            ") is installed; install the package that has the kernel's "
            "modules, or boot a kernel with RDMA");
      }
    }
    reports.push_back(std::move(report));
  }
  return reports;
}

std::vector<DeviceFileReport> ReadDeviceFiles(const std::string& root) {
  std::vector<DeviceFileReport> reports;
  for (const fs::path& path : List(root + "/dev/infiniband")) {
    const std::string name = path.filename().string();
    if (name != "rdma_cm" && !absl::StartsWith(name, "uverbs")) continue;
    DeviceFileReport report;
    report.path = path.string().substr(root.size());
    report.usable = access(path.c_str(), R_OK | W_OK) == 0;
    if (!report.usable) {
      report.problem =
          absl::StrCat(std::strerror(errno),
                       "; give this user access (the group of the file, or a "
                       "udev rule such as rdma-core's)");
    }
    reports.push_back(std::move(report));
  }
  return reports;
}

}  // namespace

LimitReport ReportLockedMemory(const rlimit& limit, bool exempt) {
  LimitReport report;
  report.key = "locked_memory";
  report.label = "locked memory";
  report.is_bytes = true;
  if (exempt) return report;
  report.value = ToOptional(limit.rlim_cur);
  report.maximum = ToOptional(limit.rlim_max);
  if (report.value.has_value() && *report.value < kEnoughLockedBytes) {
    report.problem = absl::StrCat(
        "RDMA locks its buffers, and ", FormatSize(*report.value),
        " are few; ulimit -l unlimited, LimitMEMLOCK=infinity in a systemd "
        "unit, or memlock in /etc/security/limits.conf");
  }
  return report;
}

LimitReport ReportOpenFiles(const rlimit& limit) {
  LimitReport report;
  report.key = "open_files";
  report.label = "open files";
  report.value = ToOptional(limit.rlim_cur);
  report.maximum = ToOptional(limit.rlim_max);
  if (report.value.has_value() && *report.value < kEnoughFiles) {
    const bool raisable = report.maximum.value_or(kEnoughFiles) >= kEnoughFiles;
    report.problem =
        absl::StrCat("each connection takes one or more; ",
                     raisable ? absl::StrCat("ulimit -n ", kEnoughFiles)
                              : "nofile in /etc/security/limits.conf",
                     ", or LimitNOFILE= in a systemd unit");
  }
  return report;
}

MachineReport ReadMachine(const std::string& root) {
  MachineReport report;
  report.limits = {
      ReportLockedMemory(LimitOf(RLIMIT_MEMLOCK), MayLockAnything(root)),
      ReportOpenFiles(LimitOf(RLIMIT_NOFILE)),
  };
  report.huge_pages = ReadHugePages(root);
  report.modules = ReadModules(root);
  report.device_files = ReadDeviceFiles(root);
  return report;
}

}  // namespace skiff::tools
