// What a program sets before it connects.
#include <cstdio>
#include <string>
#include <utility>

#include "tools/clients/libiscsi/context.h"
#include "tools/clients/libiscsi/entry.h"
#include "tools/clients/libiscsi/export.h"

namespace skiff::libiscsi {
namespace {

constexpr int kMaxTimeout = 1'000'000;

// Settings of a session count from the next one on, so that one too late is a
// mistake.
int CheckIdle(iscsi_context* iscsi, const char* what) {
  if (!iscsi->logged_in()) return 0;
  return iscsi->Fail(std::string(what) + " has to be set before the login");
}

// Of the next session. They are left as they were if these are refused.
int SetCredentials(iscsi_context* iscsi, const char* user, const char* password,
                   Credentials* credentials) {
  if (CheckIdle(iscsi, "a user name or a password") != 0) return -1;
  Credentials wanted;
  if (const char* const wrong = wanted.Set(user, password)) {
    return iscsi->Fail(wrong);
  }
  *credentials = std::move(wanted);
  return 0;
}

// Skiff chooses what is negotiated, and its sockets' options, by itself.
int Accept(iscsi_context* iscsi) { return iscsi == nullptr ? -1 : 0; }

}  // namespace

FACE int iscsi_set_targetname(iscsi_context* iscsi, const char* name) {
  if (!Enter(iscsi)) return -1;
  if (name == nullptr) return iscsi->Fail("the target name is missing");
  if (CheckIdle(iscsi, "the target name") != 0) return -1;
  iscsi->settings().target_name = name;
  return 0;
}

FACE int iscsi_set_alias(iscsi_context* iscsi, const char* alias) {
  if (!Enter(iscsi)) return -1;
  if (CheckIdle(iscsi, "the alias") != 0) return -1;
  iscsi->settings().alias = alias == nullptr ? "" : alias;
  return 0;
}

FACE int iscsi_set_session_type(iscsi_context* iscsi, int type) {
  if (!Enter(iscsi)) return -1;
  if (CheckIdle(iscsi, "the type of the session") != 0) return -1;
  if (type != kDiscoverySession && type != kNormalSession) {
    return iscsi->Fail("a session is one for discovery, or a normal one");
  }
  iscsi->settings().session_type = static_cast<iscsi_session_type>(type);
  return 0;
}

FACE int iscsi_init_transport(iscsi_context* iscsi, int transport) {
  if (!Enter(iscsi)) return -1;
  if (CheckIdle(iscsi, "the transport") != 0) return -1;
  if (transport != kTcpTransport && transport != kIserTransport) {
    return iscsi->Fail("the transport is neither TCP nor iSER");
  }
  iscsi->settings().transport = static_cast<iscsi_transport_type>(transport);
  return 0;
}

// 0: none; 1: none, else CRC32C; 2: CRC32C, else none; 3: CRC32C.
FACE int iscsi_set_header_digest(iscsi_context* iscsi, int digest) {
  constexpr int kPrefersNone = 1;
  constexpr int kLast = 3;
  if (!Enter(iscsi)) return -1;
  if (CheckIdle(iscsi, "the header digest") != 0) return -1;
  if (digest < 0 || digest > kLast) {
    return iscsi->Fail("there is no such header digest");
  }
  iscsi->settings().header_digest = digest > kPrefersNone;
  return 0;
}

FACE int iscsi_set_initiator_username_pwd(iscsi_context* iscsi,
                                          const char* user,
                                          const char* password) {
  if (!Enter(iscsi)) return -1;
  return SetCredentials(iscsi, user, password, &iscsi->settings().initiator);
}

// Counts with those of the initiator.
FACE int iscsi_set_target_username_pwd(iscsi_context* iscsi, const char* user,
                                       const char* password) {
  if (!Enter(iscsi)) return -1;
  return SetCredentials(iscsi, user, password, &iscsi->settings().target);
}

FACE int iscsi_set_timeout(iscsi_context* iscsi, int seconds) {
  if (!Enter(iscsi)) return -1;
  if (seconds < 0 || seconds > kMaxTimeout) {
    return iscsi->Fail("a timeout is 0 to 1000000 seconds");
  }
  iscsi->settings().timeout_seconds = seconds;
  return 0;
}

FACE void iscsi_set_noautoreconnect(iscsi_context* iscsi, int state) {
  if (Enter(iscsi)) iscsi->settings().no_reconnect = state != 0;
}

FACE void iscsi_set_reconnect_max_retries(iscsi_context* iscsi, int count) {
  if (Enter(iscsi)) iscsi->settings().reconnect_retries = count;
}

// --- Log.

FACE void iscsi_set_log_level(iscsi_context* iscsi, int level) {
  if (iscsi != nullptr) iscsi->set_log_level(level);
}

FACE void iscsi_set_log_fn(iscsi_context* iscsi, iscsi_log_fn log) {
  if (iscsi != nullptr) iscsi->set_log(log);
}

FACE void iscsi_log_to_stderr(int level, const char* message) {
  if (message != nullptr) fprintf(stderr, "libiscsi:%d %s\n", level, message);
}

// --- Without effect.

FACE int iscsi_set_tcp_keepalive(iscsi_context* iscsi, int /*idle*/,
                                 int /*count*/, int /*interval*/) {
  return Accept(iscsi);
}
FACE int iscsi_set_immediate_data(iscsi_context* iscsi, int /*wanted*/) {
  return Accept(iscsi);
}
FACE int iscsi_set_initial_r2t(iscsi_context* iscsi, int /*wanted*/) {
  return Accept(iscsi);
}
FACE int iscsi_set_isid_oui(iscsi_context* iscsi, uint32_t /*oui*/,
                            uint32_t /*qualifier*/) {
  return Accept(iscsi);
}
FACE int iscsi_set_isid_en(iscsi_context* iscsi, uint32_t /*number*/,
                           uint32_t /*qualifier*/) {
  return Accept(iscsi);
}
FACE int iscsi_set_isid_random(iscsi_context* iscsi, uint32_t /*random*/,
                               uint32_t /*qualifier*/) {
  return Accept(iscsi);
}
FACE int iscsi_set_isid_reserved(iscsi_context* iscsi) { return Accept(iscsi); }
FACE void iscsi_set_cache_allocations(iscsi_context* /*iscsi*/, int /*on*/) {}
FACE void iscsi_set_no_ua_on_reconnect(iscsi_context* /*iscsi*/, int /*on*/) {}
FACE void iscsi_set_tcp_user_timeout(iscsi_context* /*iscsi*/, int /*ms*/) {}
FACE void iscsi_set_tcp_keepidle(iscsi_context* /*iscsi*/, int /*value*/) {}
FACE void iscsi_set_tcp_keepcnt(iscsi_context* /*iscsi*/, int /*value*/) {}
FACE void iscsi_set_tcp_keepintvl(iscsi_context* /*iscsi*/, int /*value*/) {}
FACE void iscsi_set_tcp_syncnt(iscsi_context* /*iscsi*/, int /*value*/) {}
FACE void iscsi_set_bind_interfaces(iscsi_context* /*iscsi*/,
                                    char* /*interfaces*/) {}
// Skiff follows redirections by itself.
FACE const char* iscsi_get_target_address(iscsi_context* /*iscsi*/) {
  return "";
}

}  // namespace skiff::libiscsi
