#ifndef SKIFF_PROTOCOL_TARGET_TARGET_NODE_H_
#define SKIFF_PROTOCOL_TARGET_TARGET_NODE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "protocol/codec/pdu.h"
#include "protocol/negotiation/parameters.h"
#include "protocol/negotiation/send_targets.h"
#include "protocol/target/portal_group.h"
#include "scsi/target/target.h"
#include "transport/address.h"

namespace skiff::protocol {

// What all connections of a server share: its targets, portals and the names of
// the sessions. Thread-safe; used at login and discovery only, never per
// command.
class TargetNode {
 public:
  // Which connection of which server a session runs on.
  using ConnectionId = uint64_t;
  using PortalId = uint64_t;
  // Asks the connection to end; thread-safe.
  using Ender = absl::AnyInvocable<void(absl::string_view why)>;
  // Tells a connection that its login may go on; thread-safe.
  using Waker = absl::AnyInvocable<void()>;
  // Whether a login may become a session, in place of another if there is one.
  // Called with the node locked.
  using Admission =
      absl::FunctionRef<LoginStatus(std::optional<ConnectionId> replaced)>;

  // Each portal is in one of `groups` at most: through others the target is not
  // reached.
  absl::Status AddTarget(std::shared_ptr<scsi::Target> target,
                         absl::string_view alias,
                         std::vector<PortalGroup> groups);
  // For logins from now on. NotFound: it is not there.
  absl::Status SetAlias(const std::string& name, absl::string_view alias);
  // From now on it is not there for anybody, but its name is not free yet.
  // NotFound: it was not, either, before.
  absl::Status BeginRemoval(const std::string& name);
  // After that: the name is free. Returns the target.
  std::shared_ptr<scsi::Target> FinishRemoval(const std::string& name);
  std::shared_ptr<scsi::Target> FindTarget(const std::string& name) const;
  // Those that are there.
  std::vector<std::shared_ptr<scsi::Target>> Targets() const;
  // Whether the target is there for who comes by `portal` (as in AddPortal).
  // Success fills in the alias and the portal group, if there is one.
  LoginStatus Admit(const transport::Address& portal,
                    LoginIdentity* identity) const;

  // `portal` is where it was asked to listen, `addresses` are where it does:
  // one for each transport that it takes.
  PortalId AddPortal(const transport::Address& portal,
                     const std::vector<transport::Address>& addresses);
  // It does not listen there any more.
  void RemovePortal(PortalId portal);

  // How a peer came in.
  struct Arrival {
    transport::Address portal;  // As in AddPortal.
    std::string scheme;         // Of the transport, also where auto:// listens.
    std::string local_address;  // "host:port".
  };
  // The targets, all or the one called `what`, with their portals as a peer can
  // reach them that came in so: those that take the same transport, since an
  // address does not name one. A target without such portals is left out.
  std::vector<DiscoveredTarget> Discover(absl::string_view what,
                                         const Arrival& arrival) const;

  // The connections of sessions of this name, which end before a new one
  // begins; some may end already.
  std::vector<ConnectionId> ConnectionsOf(const LoginIdentity& identity,
                                          const Isid& isid) const;
  // Registers a session under its name (initiator, ISID, target, portal group:
  // RFC 7143 section 4.4.3) and gives it a TSIH. `enter` says whether there is
  // a place for it, given which session's place it takes; if there is none,
  // nothing has happened. An older session of that name is ended then:
  // `*must_wait` tells that `resume` will be called when it is gone.
  LoginStatus Register(const LoginIdentity& identity,
                       const LoginRequestPdu& login, ConnectionId connection,
                       Admission enter, Ender end, Waker resume, uint16_t* tsih,
                       bool* must_wait);
  // No login gets it: a session that has it is about to be adopted.
  void Reserve(uint16_t tsih);
  // The same for a session that began in another process, and has its TSIH
  // already: not for one whose name or TSIH another has.
  LoginStatus Adopt(const LoginIdentity& identity, const Isid& isid,
                    uint16_t tsih, ConnectionId connection, Admission enter,
                    Ender end);
  // The connection, registered or not, is gone with all its tasks.
  void Unregister(ConnectionId connection);

 private:
  struct ServedTarget {
    std::shared_ptr<scsi::Target> target;
    std::string alias;
    std::vector<PortalGroup> groups;
    bool leaving = false;  // Not there any more.

    // Null: the target is not there.
    const PortalGroup* GroupOf(const transport::Address& portal) const;
  };
  struct Session {
    ConnectionId connection = 0;
    uint16_t tsih = 0;
    Ender end;
    Waker resume;
    std::set<ConnectionId> ending;  // Older ones that are not gone yet.
  };

  struct Portal {
    PortalId id;
    transport::Address asked;
    std::vector<transport::Address> addresses;
  };

  // Where a peer can go, and by which portal.
  struct Way {
    std::string address;  // "host:port".
    transport::Address portal;
  };

  uint16_t NextTsih();
  std::vector<Way> WaysLike(const Arrival& arrival) const;
  // By which transport `arrival` came.
  std::vector<transport::Address> WaysOf(const Arrival& arrival) const;

  mutable std::mutex mutex_;
  std::map<std::string, ServedTarget> targets_;
  std::vector<Portal> portals_;
  PortalId last_portal_ = 0;
  std::map<std::string, Session> sessions_;
  std::map<ConnectionId, std::string> names_;  // Of `connection` and `ending`.
  std::set<uint16_t> tsihs_;
  std::set<uint16_t> reserved_tsihs_;  // Until they are adopted.
  std::map<ConnectionId, uint16_t> tsih_of_;
  uint16_t last_tsih_ = 0;
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_TARGET_TARGET_NODE_H_
