#include "transport/libfabric/datagram/this_host.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <string>

namespace skiff::transport {

// random(4), proc(5): /proc/sys/kernel/random/boot_id.
std::array<uint8_t, 16> ThisHost() {
  std::array<uint8_t, 16> out = {};
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string text;
  std::getline(file, text);
  text.erase(std::remove(text.begin(), text.end(), '-'), text.end());
  if (text.size() != 2 * out.size()) return out;
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<uint8_t>(
        std::strtoul(text.substr(2 * i, 2).c_str(), nullptr, 16));
  }
  return out;
}

}  // namespace skiff::transport
