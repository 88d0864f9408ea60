#include "scsi/backend/memory_limit.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace skiff::scsi {
namespace {

constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

std::vector<std::string> ReadLines(const std::string& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

// Where a hierarchy of control groups is mounted.
struct Mount {
  std::string root;   // The group that the mount point shows.
  std::string point;  // The mount point.
};

// proc(5), /proc/PID/mountinfo: "ID PARENT DEVICE ROOT POINT OPTIONS TAG... -
// TYPE SOURCE SUPER-OPTIONS", where blanks in paths are written in octal.
std::optional<Mount> ParseMount(absl::string_view line,
                                absl::string_view wanted_type,
                                absl::string_view wanted_option) {
  const std::vector<absl::string_view> halves =
      absl::StrSplit(line, absl::MaxSplits(" - ", 1));
  if (halves.size() != 2) return std::nullopt;
  const std::vector<absl::string_view> left = absl::StrSplit(halves[0], ' ');
  const std::vector<absl::string_view> right = absl::StrSplit(halves[1], ' ');
  if (left.size() < 6 || right.size() < 3 || right[0] != wanted_type) {
    return std::nullopt;
  }
  const std::vector<absl::string_view> options = absl::StrSplit(right[2], ',');
  if (!wanted_option.empty() && std::find(options.begin(), options.end(),
                                          wanted_option) == options.end()) {
    return std::nullopt;
  }
  Mount mount;
  if (!absl::CUnescape(left[3], &mount.root) ||
      !absl::CUnescape(left[4], &mount.point)) {
    return std::nullopt;
  }
  return mount;
}

// The least limit in files `name` of `group` and of the groups above it, down
// from the mount's root.
uint64_t LimitAlong(const std::string& root, const Mount& mount,
                    absl::string_view group, absl::string_view name) {
  // A mount of a part of the hierarchy, as containers have.
  if (mount.root != "/" && !absl::ConsumePrefix(&group, mount.root)) group = "";
  uint64_t least = kNoLimit;
  std::string directory = absl::StrCat(root, mount.point);
  const auto look = [&] {
    uint64_t limit = 0;
    for (const std::string& line :
         ReadLines(absl::StrCat(directory, "/", name))) {
      // "max" is no number, and no limit.
      if (absl::SimpleAtoi(line, &limit)) least = std::min(least, limit);
    }
  };
  look();
  for (const absl::string_view part :
       absl::StrSplit(group, '/', absl::SkipEmpty())) {
    if (part == "..") break;  // Outside of what this namespace shows.
    absl::StrAppend(&directory, "/", part);
    look();
  }
  return least;
}

}  // namespace

uint64_t ControlGroupMemoryLimit(const std::string& root) {
  const std::vector<std::string> mounts =
      ReadLines(absl::StrCat(root, "/proc/self/mountinfo"));
  uint64_t least = kNoLimit;
  // Lines "HIERARCHY:CONTROLLERS:GROUP"; version 2 has no controllers there.
  for (const std::string& line :
       ReadLines(absl::StrCat(root, "/proc/self/cgroup"))) {
    const std::vector<absl::string_view> fields =
        absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3) continue;
    const bool version2 = fields[0] == "0" && fields[1].empty();
    const std::vector<absl::string_view> controllers =
        absl::StrSplit(fields[1], ',');
    if (!version2 && std::find(controllers.begin(), controllers.end(),
                               "memory") == controllers.end()) {
      continue;
    }
    for (const std::string& entry : mounts) {
      const std::optional<Mount> mount = ParseMount(
          entry, version2 ? "cgroup2" : "cgroup", version2 ? "" : "memory");
      if (!mount.has_value()) continue;
      least = std::min(
          least, LimitAlong(root, *mount, fields[2],
                            version2 ? "memory.max" : "memory.limit_in_bytes"));
    }
  }
  return least;
}

uint64_t UsableMemory() {
  const int64_t pages = sysconf(_SC_PHYS_PAGES);
  const int64_t page_size = sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page_size <= 0) return 0;
  uint64_t usable = std::min(static_cast<uint64_t>(pages) * page_size,
                             ControlGroupMemoryLimit());
  rlimit limit = {};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    usable = std::min<uint64_t>(usable, limit.rlim_cur);
  }
  return usable;
}

}  // namespace skiff::scsi
