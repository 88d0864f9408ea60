#include "protocol/target/shard_counts.h"

#include <algorithm>

#include "protocol/codec/pdu.h"

namespace skiff::protocol {
namespace {

// The entry of the same names in `sum`, which may be new.
PortalCounts* SameIn(const PortalCounts& portal, ServerCounts* sum) {
  const auto found = std::find_if(
      sum->portals.begin(), sum->portals.end(), [&](const PortalCounts& other) {
        return other.portal == portal.portal &&
               other.data_model == portal.data_model &&
               other.transport == portal.transport;
      });
  if (found != sum->portals.end()) return &*found;
  PortalCounts empty;
  empty.portal = portal.portal;
  empty.data_model = portal.data_model;
  empty.transport = portal.transport;
  sum->portals.push_back(std::move(empty));
  return &sum->portals.back();
}

}  // namespace

PortalCounts* ShardCounts::OfPortal(const std::string& portal,
                                    const ConnectionInfo& info) {
  const auto entry = [&](const std::string& name) {
    return std::make_tuple(name, info.data_model, info.transport);
  };
  auto found = portals_.find(entry(portal));
  if (found == portals_.end()) {
    const std::string name =
        portals_.size() < kMaxPortals ? portal : std::string("others");
    PortalCounts counts;
    counts.portal = name;
    counts.data_model = info.data_model;
    counts.transport = info.transport;
    found = portals_.try_emplace(entry(name), std::move(counts)).first;
  }
  return &found->second;
}

ServerCounts ShardCounts::Get() const {
  ServerCounts counts = counts_;
  for (size_t i = 0; i < refused_logins_.size(); ++i) {
    const size_t status_class = i / kDetails;
    const size_t detail = i % kDetails;
    if (refused_logins_[i] == 0 && detail >= kRefusals[status_class]) continue;
    const std::string name = LoginStatusName(static_cast<uint8_t>(status_class),
                                             static_cast<uint8_t>(detail));
    counts.refused_logins[name] = refused_logins_[i];
  }
  for (const auto& [names, portal] : portals_) counts.portals.push_back(portal);
  return counts;
}

void AddToPortal(const PortalCounts& portal, const ConnectionCounters& done,
                 ServerCounts* sum) {
  SameIn(portal, sum)->counters.Add(done);
}

void AddCounts(const ServerCounts& more, ServerCounts* sum) {
  sum->refused_connections += more.refused_connections;
  sum->logins += more.logins;
  sum->discovery_logins += more.discovery_logins;
  sum->unfinished_logins += more.unfinished_logins;
  sum->delayed_refusals += more.delayed_refusals;
  for (const auto& [status, count] : more.refused_logins) {
    sum->refused_logins[status] += count;
  }
  for (const PortalCounts& portal : more.portals) {
    PortalCounts* const same = SameIn(portal, sum);
    same->connections += portal.connections;
    same->open += portal.open;
    same->counters.Add(portal.counters);
  }
}

}  // namespace skiff::protocol
