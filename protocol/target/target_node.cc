#include "protocol/target/target_node.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "protocol/negotiation/names.h"

namespace skiff::protocol {
namespace {

bool IsWildcard(const std::string& host) {
  return host == "0.0.0.0" || host == "::";
}

// Session name: two sessions with the same one cannot be (the ISID rule, RFC
// 7143 section 4.4.3).
std::string SessionName(const LoginIdentity& identity, const Isid& isid) {
  std::string name =
      absl::StrCat(identity.initiator_name, "\n", identity.target_name, "\n",
                   identity.target_portal_group_tag.value_or(0), "\n");
  name.append(reinterpret_cast<const char*>(isid.data()), isid.size());
  return name;
}

absl::Status Check(const std::vector<PortalGroup>& groups) {
  if (groups.empty()) {
    return absl::InvalidArgumentError("a target needs a portal group");
  }
  std::set<uint16_t> tags;
  std::set<std::string> portals;
  for (const PortalGroup& group : groups) {
    if (group.tag == 0) {
      return absl::InvalidArgumentError(
          "the tag of a portal group is 0: it must be 1 to 65535");
    }
    if (!tags.insert(group.tag).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("two portal groups have the tag ", group.tag));
    }
    if (group.portals.empty() && groups.size() > 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("portal group ", group.tag,
                       " has all portals: there can't be another one"));
    }
    for (const transport::Address& portal : group.portals) {
      if (!portals.insert(portal.ToString()).second) {
        return absl::InvalidArgumentError(
            absl::StrCat("portal ", portal.ToString(), " is named twice"));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

const PortalGroup* TargetNode::ServedTarget::GroupOf(
    const transport::Address& portal) const {
  if (leaving) return nullptr;
  for (const PortalGroup& group : groups) {
    if (group.portals.empty() || absl::c_linear_search(group.portals, portal)) {
      return &group;
    }
  }
  return nullptr;
}

absl::Status TargetNode::AddTarget(std::shared_ptr<scsi::Target> target,
                                   absl::string_view alias,
                                   std::vector<PortalGroup> groups) {
  const std::string name(target->name());
  if (absl::Status valid = Check(groups); !valid.ok()) {
    return absl::Status(valid.code(),
                        absl::StrCat("target ", name, ": ", valid.message()));
  }
  std::lock_guard<std::mutex> lock(mutex_);
  const auto known = targets_.find(name);
  if (known != targets_.end() && known->second.leaving) {
    return absl::AlreadyExistsError(absl::StrCat(
        "target ", name, " is being removed; add one when that is done"));
  }
  if (!targets_
           .try_emplace(name,
                        ServedTarget{std::move(target), std::string(alias),
                                     std::move(groups)})
           .second) {
    return absl::AlreadyExistsError(
        absl::StrCat("target ", name, " is served already"));
  }
  return absl::OkStatus();
}

absl::Status TargetNode::SetAlias(const std::string& name,
                                  absl::string_view alias) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = targets_.find(name);
  if (found == targets_.end() || found->second.leaving) {
    return absl::NotFoundError(absl::StrCat("there is no target ", name));
  }
  found->second.alias = std::string(alias);
  return absl::OkStatus();
}

absl::Status TargetNode::BeginRemoval(const std::string& name) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = targets_.find(name);
  if (found == targets_.end()) {
    return absl::NotFoundError(absl::StrCat("there is no target ", name));
  }
  if (found->second.leaving) {
    return absl::NotFoundError(
        absl::StrCat("target ", name, " is being removed already"));
  }
  found->second.leaving = true;
  return absl::OkStatus();
}

std::shared_ptr<scsi::Target> TargetNode::FinishRemoval(
    const std::string& name) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = targets_.find(name);
  std::shared_ptr<scsi::Target> target = std::move(found->second.target);
  targets_.erase(found);
  return target;
}

std::shared_ptr<scsi::Target> TargetNode::FindTarget(
    const std::string& name) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = targets_.find(name);
  return found == targets_.end() || found->second.leaving
             ? nullptr
             : found->second.target;
}

std::vector<std::shared_ptr<scsi::Target>> TargetNode::Targets() const {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::shared_ptr<scsi::Target>> there;
  for (const auto& [name, served] : targets_) {
    if (!served.leaving) there.push_back(served.target);
  }
  return there;
}

// Not found is what does "not exist at this address" (section 11.13.5). Who
// discovers may name a target, which is nothing but a word then.
LoginStatus TargetNode::Admit(const transport::Address& portal,
                              LoginIdentity* identity) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = targets_.find(identity->target_name);
  const PortalGroup* const group =
      found == targets_.end() ? nullptr : found->second.GroupOf(portal);
  identity->target_portal_group_tag.reset();
  if (group != nullptr) identity->target_portal_group_tag = group->tag;
  if (identity->session_type == SessionType::kDiscovery) {
    return LoginStatus::kSuccess;
  }
  if (group == nullptr) return LoginStatus::kNotFound;
  identity->target_alias = found->second.alias;
  return LoginStatus::kSuccess;
}

TargetNode::PortalId TargetNode::AddPortal(
    const transport::Address& portal,
    const std::vector<transport::Address>& addresses) {
  std::lock_guard<std::mutex> lock(mutex_);
  portals_.push_back({++last_portal_, portal, addresses});
  return last_portal_;
}

void TargetNode::RemovePortal(PortalId portal) {
  std::lock_guard<std::mutex> lock(mutex_);
  portals_.erase(
      std::remove_if(portals_.begin(), portals_.end(),
                     [portal](const Portal& p) { return p.id == portal; }),
      portals_.end());
}

std::vector<transport::Address> TargetNode::WaysOf(
    const Arrival& arrival) const {
  std::vector<transport::Address> ways;
  for (const Portal& portal : portals_) {
    if (!(portal.asked == arrival.portal)) continue;
    for (const transport::Address& address : portal.addresses) {
      if (address.scheme == arrival.scheme) ways.push_back(address);
    }
  }
  return ways;
}

std::vector<TargetNode::Way> TargetNode::WaysLike(
    const Arrival& arrival) const {
  // The way the peer came in works for him: it goes first.
  std::vector<Way> found = {{arrival.local_address, arrival.portal}};
  const absl::string_view local = arrival.local_address;
  const absl::string_view local_host = local.substr(0, local.rfind(':'));
  const auto offer = [&](const transport::Address& address,
                         const transport::Address& portal) {
    std::string text = address.HostPort();
    // A wildcard stands for addresses that we don't enumerate; the one in use
    // is known, and of the wildcard's if it is of that family.
    if (IsWildcard(address.host)) {
      if (absl::StartsWith(local_host, "[") != (address.host == "::")) return;
      text = absl::StrCat(local_host, ":", address.port);
    }
    if (absl::c_none_of(found,
                        [&text](const Way& w) { return w.address == text; })) {
      found.push_back({std::move(text), portal});
    }
  };
  const std::vector<transport::Address> ways = WaysOf(arrival);
  for (const Portal& portal : portals_) {
    for (const transport::Address& address : portal.addresses) {
      const auto same = [&address](const transport::Address& way) {
        return way.SameTransport(address);
      };
      if (absl::c_any_of(ways, same)) offer(address, portal.asked);
    }
  }
  return found;
}

std::vector<DiscoveredTarget> TargetNode::Discover(
    absl::string_view what, const Arrival& arrival) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const std::vector<Way> ways = WaysLike(arrival);
  std::vector<DiscoveredTarget> found;
  for (const auto& [name, served] : targets_) {
    if (!what.empty() && what != name) continue;
    DiscoveredTarget target;
    target.name = name;
    for (const Way& way : ways) {
      const PortalGroup* const group = served.GroupOf(way.portal);
      if (group == nullptr) continue;
      target.portals.push_back(absl::StrCat(way.address, ",", group->tag));
    }
    // Without an address it would be one at this portal.
    if (!target.portals.empty()) found.push_back(std::move(target));
  }
  return found;
}

uint16_t TargetNode::NextTsih() {
  // As many sessions as there are handles are refused before (see Register).
  do {
    ++last_tsih_;
  } while (last_tsih_ == 0 || tsihs_.count(last_tsih_) != 0 ||
           reserved_tsihs_.count(last_tsih_) != 0);
  tsihs_.insert(last_tsih_);
  return last_tsih_;
}

std::vector<TargetNode::ConnectionId> TargetNode::ConnectionsOf(
    const LoginIdentity& identity, const Isid& isid) const {
  if (identity.session_type != SessionType::kNormal) return {};
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = sessions_.find(SessionName(identity, isid));
  if (found == sessions_.end()) return {};
  const Session& session = found->second;
  std::vector<ConnectionId> connections(session.ending.begin(),
                                        session.ending.end());
  if (session.connection != 0 &&
      session.ending.count(session.connection) == 0) {
    connections.push_back(session.connection);
  }
  return connections;
}

LoginStatus TargetNode::Register(const LoginIdentity& identity,
                                 const LoginRequestPdu& login,
                                 ConnectionId connection, Admission enter,
                                 Ender end, Waker resume, uint16_t* tsih,
                                 bool* must_wait) {
  *must_wait = false;
  std::lock_guard<std::mutex> lock(mutex_);
  if (tsihs_.size() + reserved_tsihs_.size() >= 0xfff0)
    return LoginStatus::kOutOfResources;
  const bool normal = identity.session_type == SessionType::kNormal;
  const std::string name =
      normal ? SessionName(identity, login.isid) : std::string();
  if (login.tsih != 0) {
    // Another connection for a session (section 6.3.1): sessions here have one.
    const auto found = sessions_.find(name);
    const bool exists =
        found != sessions_.end() && found->second.tsih == login.tsih;
    return exists ? LoginStatus::kTooManyConnections
                  : LoginStatus::kSessionDoesNotExist;
  }
  std::optional<ConnectionId> replaced;
  if (const auto found = sessions_.find(name);
      normal && found != sessions_.end() && found->second.connection != 0) {
    replaced = found->second.connection;
  }
  const LoginStatus entered = enter(replaced);
  if (entered != LoginStatus::kSuccess) return entered;
  *tsih = NextTsih();
  tsih_of_[connection] = *tsih;
  if (!normal) return LoginStatus::kSuccess;
  Session& session = sessions_[name];
  // What may fail comes first: Unregister() finds it again.
  names_[connection] = name;
  if (session.connection != 0) {
    // Session reinstatement (section 6.3.5).
    session.ending.insert(session.connection);
    session.end("reinstated by a new login of the same initiator port");
  }
  session.connection = connection;
  session.tsih = *tsih;
  session.end = std::move(end);
  session.resume = std::move(resume);
  *must_wait = !session.ending.empty();
  return LoginStatus::kSuccess;
}

void TargetNode::Reserve(uint16_t tsih) {
  std::lock_guard<std::mutex> lock(mutex_);
  reserved_tsihs_.insert(tsih);
}

LoginStatus TargetNode::Adopt(const LoginIdentity& identity, const Isid& isid,
                              uint16_t tsih, ConnectionId connection,
                              Admission enter, Ender end) {
  std::lock_guard<std::mutex> lock(mutex_);
  reserved_tsihs_.erase(tsih);
  const bool normal = identity.session_type == SessionType::kNormal;
  const std::string name = normal ? SessionName(identity, isid) : std::string();
  if (tsih == 0 || tsihs_.count(tsih) != 0 || sessions_.count(name) != 0) {
    return LoginStatus::kSessionDoesNotExist;
  }
  const LoginStatus entered = enter(std::nullopt);
  if (entered != LoginStatus::kSuccess) return entered;
  tsihs_.insert(tsih);
  tsih_of_[connection] = tsih;
  if (!normal) return LoginStatus::kSuccess;
  names_[connection] = name;
  Session& session = sessions_[name];
  session.connection = connection;
  session.tsih = tsih;
  session.end = std::move(end);
  return LoginStatus::kSuccess;
}

void TargetNode::Unregister(ConnectionId connection) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto handle = tsih_of_.find(connection);
  if (handle != tsih_of_.end()) {
    tsihs_.erase(handle->second);
    tsih_of_.erase(handle);
  }
  const auto named = names_.find(connection);
  if (named == names_.end()) return;
  const auto found = sessions_.find(named->second);
  names_.erase(named);
  Session& session = found->second;
  if (session.connection == connection) {
    session.connection = 0;
    session.tsih = 0;
  }
  session.ending.erase(connection);
  if (!session.ending.empty()) return;
  if (session.connection == 0) {
    sessions_.erase(found);
  } else if (session.resume != nullptr) {
    session.resume();
    session.resume = nullptr;
  }
}

}  // namespace skiff::protocol
