#ifndef SKIFF_TOOLS_SKIFF_BASE_TRANSPORTS_REPORT_H_
#define SKIFF_TOOLS_SKIFF_BASE_TRANSPORTS_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "transport/transport.h"

namespace skiff::tools {

// What `skiff transports` finds out. A `problem` says why something cannot be
// used, or not well, and what to do about it; it is empty if there is none.

// A limit of this process.
struct LimitReport {
  std::string key;    // "locked_memory", for programs.
  std::string label;  // "locked memory", for people.
  bool is_bytes = false;
  std::optional<uint64_t> value;    // Nothing: unlimited.
  std::optional<uint64_t> maximum;  // To which the process may raise it.
  std::string problem;
};

struct HugePagesReport {
  uint64_t page_bytes = 0;
  uint64_t total = 0;
  uint64_t free = 0;
};

struct KernelModuleReport {
  std::string name;
  std::string purpose;
  std::string state;  // "loaded", "not loaded", "missing".
  std::string problem;
};

struct DeviceFileReport {
  std::string path;
  bool usable = false;
  std::string problem;
};

// What transports need of the machine, apart from devices.
struct MachineReport {
  std::vector<LimitReport> limits;
  std::vector<HugePagesReport> huge_pages;  // One for each size.
  std::vector<KernelModuleReport> modules;
  std::vector<DeviceFileReport> device_files;
};

struct TransportsReport {
  struct Transport {
    std::string scheme;
    std::vector<transport::DeviceReport> devices;
  };
  std::vector<Transport> transports;
  MachineReport machine;
};

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_SKIFF_BASE_TRANSPORTS_REPORT_H_
