#ifndef SKIFF_TOOLS_SKIFF_DOCTOR_FACTS_H_
#define SKIFF_TOOLS_SKIFF_DOCTOR_FACTS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tools/skiff/base/report.h"
#include "tools/skiff/base/transports_report.h"

// What `skiff doctor` has seen, without a judgement: checks.h has that. Tests
// make facts up.

namespace skiff::tools {

// An entry of a port's table of addresses.
struct GidFact {
  uint32_t index = 0;
  std::string type;     // "RoCE v2", as the kernel calls it.
  std::string address;  // "192.0.2.1" or an IPv6 address.
};

// A port of an RDMA device.
struct RdmaPortFact {
  enum class Kind : uint8_t { kInfiniBand, kRoce, kIwarp };
  std::string device;
  uint32_t port = 1;
  Kind kind = Kind::kInfiniBand;
  std::string state;      // "ACTIVE", "DOWN".
  std::string interface;  // "eth0"; empty where the kernel names none.
  std::vector<GidFact> gids;
};

// PAUSE frames, IEEE 802.3 annex 31B.
struct PauseFact {
  bool receive = false;
  bool send = false;
};

// Priority flow control (IEEE 802.1Q clause 36), and who negotiates it.
struct DcbFact {
  // By DCBX: a program of this machine, such as lldpad; the NIC's firmware; by
  // no one.
  enum class Dcbx : uint8_t { kUnknown, kHost, kFirmware, kNobody };
  std::optional<uint8_t> pfc;  // A bit for each priority; nothing: `no_pfc`.
  std::string no_pfc;
  Dcbx dcbx = Dcbx::kUnknown;
};

// A network interface.
struct InterfaceFact {
  bool up = false;
  bool loopback = false;
  uint32_t mtu = 0;                // Bytes; 0: not known.
  std::optional<PauseFact> pause;  // Nothing: `no_pause` says why.
  std::string no_pause;
  DcbFact dcb;
};

// What became of an echo request.
enum class Echo : uint8_t { kNotTried, kAnswered, kSilent, kNotAllowed };

// The way to one target.
struct WayFact {
  std::string url;     // As it was given, without passwords.
  std::string scheme;  // Of the transport: "tcp", "auto", "verbs".
  bool needs_rdma = false;
  std::string host;
  uint16_t port = 0;
  std::string address;  // That `host` stands for; empty: `no_address` says why.
  std::string no_address;
  absl::Duration resolved_in = absl::ZeroDuration();
  std::string local_address;  // Empty: there is no route, `no_route` says why.
  std::string no_route;
  std::string interface;
  // Echo requests that are short, and as long as the interface's MTU lets them
  // be, not to be fragmented.
  Echo short_echo = Echo::kNotTried;
  Echo long_echo = Echo::kNotTried;
  absl::Status session;  // Whether it was there.
  std::optional<SessionReport> report;
  // Of TCP, tried only when there is no session: empty, or what went wrong.
  std::string no_tcp;
};

struct DoctorFacts {
  MachineReport machine;
  std::vector<RdmaPortFact> rdma_ports;
  std::map<std::string, InterfaceFact> interfaces;  // Of ports and the way.
  // How many processors each policy of frequency rules; empty: not said.
  std::map<std::string, uint32_t> governors;
  bool driver_scales = false;  // "powersave" lets the hardware choose.
  std::string clock_source;    // Empty: not said.
  bool clock_synchronized = false;
  std::optional<WayFact> way;  // Of the URL that was given.
};

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_SKIFF_DOCTOR_FACTS_H_
