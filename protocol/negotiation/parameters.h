#ifndef SKIFF_PROTOCOL_NEGOTIATION_PARAMETERS_H_
#define SKIFF_PROTOCOL_NEGOTIATION_PARAMETERS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace skiff::protocol {

enum class Digest : uint8_t { kNone, kCrc32c };
enum class SessionType : uint8_t { kNormal, kDiscovery };

// The operational values in force on a connection and its session after login
// (RFC 7143 section 13). The initial values are the RFC's defaults.
struct Parameters {
  Digest header_digest = Digest::kNone;
  Digest data_digest = Digest::kNone;
  uint32_t max_connections = 1;
  bool initial_r2t = true;
  bool immediate_data = true;
  // Declared by each side, what that side is willing to *receive* in one PDU.
  uint32_t initiator_max_recv_data_segment_length = 8192;
  uint32_t target_max_recv_data_segment_length = 8192;
  uint32_t max_burst_length = 262144;
  uint32_t first_burst_length = 65536;
  uint32_t default_time2wait = 2;
  uint32_t default_time2retain = 20;
  uint32_t max_outstanding_r2t = 1;
  bool data_pdu_in_order = true;
  bool data_sequence_in_order = true;
  uint32_t error_recovery_level = 0;
  uint32_t iscsi_protocol_level = 1;  // RFC 7144: 1 is RFC 7143 alone.

  bool operator==(const Parameters&) const = default;
};

// What one side offers and accepts. Used by both roles; bounds are checked by
// Validate() in keys.h. Result functions (AND, OR, min, max) then decide.
struct Offer {
  // In order of preference.
  std::vector<Digest> header_digest = {Digest::kNone, Digest::kCrc32c};
  std::vector<Digest> data_digest = {Digest::kNone, Digest::kCrc32c};
  uint32_t max_connections = 1;
  bool initial_r2t = false;
  bool immediate_data = true;
  uint32_t max_recv_data_segment_length = 262144;
  uint32_t max_burst_length = 1048576;
  uint32_t first_burst_length = 262144;
  uint32_t default_time2wait = 2;
  uint32_t default_time2retain = 0;
  uint32_t max_outstanding_r2t = 8;
  bool data_pdu_in_order = true;
  bool data_sequence_in_order = true;
  uint32_t error_recovery_level = 0;
  uint32_t iscsi_protocol_level = 1;
};

// Who is at the other end and which session this is; from the first Login
// Request.
struct LoginIdentity {
  std::string initiator_name;
  std::string initiator_alias;
  std::string target_name;  // Empty in discovery sessions.
  std::string target_alias;
  SessionType session_type = SessionType::kNormal;
  uint16_t target_portal_group_tag = 1;
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_NEGOTIATION_PARAMETERS_H_
