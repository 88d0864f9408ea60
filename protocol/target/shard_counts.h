#ifndef SKIFF_PROTOCOL_TARGET_SHARD_COUNTS_H_
#define SKIFF_PROTOCOL_TARGET_SHARD_COUNTS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "protocol/connection/connection_info.h"
#include "protocol/datamover/connection_counters.h"
#include "protocol/target/server_counts.h"

namespace skiff::protocol {

// What one reactor adds to ServerCounts; touched there only. What is called
// when something ends takes no memory.
class ShardCounts {
 public:
  // Portals come and go while the server runs. Those that are too many for
  // this are counted as one, called "others".
  static constexpr size_t kMaxPortals = 1024;

  // The entry of the connection that is about to come by `portal`; valid as
  // long as this.
  PortalCounts* OfPortal(const std::string& portal, const ConnectionInfo& info);
  // A connection of that entry is there, or gone, having done this.
  static void Came(PortalCounts* portal) {
    ++portal->connections;
    ++portal->open;
  }
  static void Went(PortalCounts* portal, const ConnectionCounters& done) {
    --portal->open;
    portal->counters.Add(done);
  }

  void RefusedConnection() { ++counts_.refused_connections; }
  void LoggedIn() { ++counts_.logins; }
  void Discovered() { ++counts_.discovery_logins; }
  void LeftUnfinished() { ++counts_.unfinished_logins; }
  void DelayedRefusal() { ++counts_.delayed_refusals; }
  // A login was answered with that class and detail (RFC 7143
  // section 11.13.5), which are ours.
  void RefusedLogin(uint8_t status_class, uint8_t detail) {
    ++refused_logins_[size_t{status_class} % kClasses * kDetails +
                      size_t{detail} % kDetails];
  }

  // Without what the connections have done that there are.
  ServerCounts Get() const;

 private:
  static constexpr size_t kClasses = 4;
  static constexpr size_t kDetails = 16;
  // How many details of each class refuse a login (RFC 7143 section 11.13.5).
  static constexpr std::array<size_t, kClasses> kRefusals = {0, 0, 0xc, 3};

  ServerCounts counts_;  // Without the following.
  std::array<uint64_t, kClasses* kDetails> refused_logins_ = {};
  // By the names in PortalCounts.
  std::map<std::tuple<std::string, std::string, std::string>, PortalCounts>
      portals_;
};

// Adds what a connection of that entry has done so far.
void AddToPortal(const PortalCounts& portal, const ConnectionCounters& done,
                 ServerCounts* sum);
// Adds what another shard has.
void AddCounts(const ServerCounts& more, ServerCounts* sum);

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_TARGET_SHARD_COUNTS_H_
