#ifndef SKIFF_PROTOCOL_NEGOTIATION_PARAMETERS_H_
#define SKIFF_PROTOCOL_NEGOTIATION_PARAMETERS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace skiff::protocol {

// What guards headers and data (RFC 7143 section 13.1).
enum class Digest : uint8_t { kNone, kCrc32c };
// RFC 7143 section 13.21.
enum class SessionType : uint8_t { kNormal, kDiscovery };

// During login both sides keep to the default MaxRecvDataSegmentLength (RFC
// 7143 section 6.3).
inline constexpr uint32_t kLoginDataSegmentLength = 8192;

// Which byte of a write's buffer the Write Base Offset of an iSER header names.
enum class IserWriteBase : uint8_t {
  // The first that is not sent unsolicited. RFC 7145 with
  // TaggedBufferForSolicitedDataOnly=Yes; also what the initiators and targets
  // of the field mean, which do not know the key.
  kSolicitedData,
  // The first of all: RFC 7145 without the key (section 6.9).
  kWholeBuffer,
};

// What the initiators of the field have room for in a response, whatever they
// negotiate as InitiatorRecvDataSegmentLength.
inline constexpr uint32_t kDeployedIserResponseData = 128;

// What the buffers of iSER messages hold besides headers, at both ends. We do
// not declare more, and send no more to a peer that does.
inline constexpr uint32_t kMaxIserDataSegment = 8192;
inline constexpr uint32_t kMaxIserAhs = 256;

// What iSER adds (RFC 7145 section 6): all that its datamover needs to know of
// the login. The initial values are the RFC's defaults.
struct IserParameters {
  bool enabled = false;  // PDUs are messages with an iSER header ...
  bool rdma_extensions =
      false;  // ... and data move by RDMA, outside discovery.
  uint32_t initiator_recv_data_segment_length = 8192;
  uint32_t target_recv_data_segment_length = 8192;
  // Declared by each side, what that side is willing to receive; 0 is no limit.
  uint32_t initiator_max_outstanding_unexpected_pdus = 0;
  uint32_t target_max_outstanding_unexpected_pdus = 0;
  uint32_t initiator_max_ahs_length = 256;
  uint32_t target_max_ahs_length = 256;
  bool tagged_buffer_for_solicited_data_only = false;
  bool hello_required = false;
  // The peer knows the keys that only the RFC has. It speaks the deployed
  // protocol otherwise.
  bool rfc7145 = false;

  // What both sides make of the Write Base Offset, from the keys that were
  // negotiated.
  IserWriteBase write_base() const {
    return rfc7145 && !tagged_buffer_for_solicited_data_only
               ? IserWriteBase::kWholeBuffer
               : IserWriteBase::kSolicitedData;
  }

  bool operator==(const IserParameters&) const = default;
};

// The operational values in force on a connection and its session after login
// (RFC 7143 section 13). The initial values are the RFC's defaults.
struct Parameters {
  Digest header_digest = Digest::kNone;
  Digest data_digest = Digest::kNone;
  uint32_t max_connections = 1;
  bool initial_r2t = true;
  bool immediate_data = true;
  // Declared by each side, what that side is willing to *receive* in one PDU.
  // On an iSER connection they follow from `iser` (RFC 7145 section 6.2), as
  // far as kMaxIserDataSegment, and the initiator's is
  // kDeployedIserResponseData for one of the field.
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
  IserParameters iser;

  bool operator==(const Parameters&) const = default;
};

// What one side offers on an iSER connection, besides Offer. With `enabled`, a
// normal session fails unless both sides agree to RDMAExtensions=Yes, digests
// are None, and MaxRecvDataSegmentLength is not declared.
struct IserOffer {
  bool enabled = false;
  // As the size of the buffers of both sides of the field, who negotiate more
  // than they have. What we receive is at most kMaxIserDataSegment.
  uint32_t initiator_recv_data_segment_length = kMaxIserDataSegment;
  uint32_t target_recv_data_segment_length = kMaxIserDataSegment;
  // The keys that the RFC has and nobody in the field knows. An initiator sends
  // them (a peer that does not know a key says so); a target only to an
  // initiator that sent one, because open-iscsi gives up a login over a key
  // that it doesn't know.
  bool rfc7145_keys = true;
  static constexpr uint32_t kMaxUnexpectedPdus = 1024;
  // 0, 2 or more. Receives are posted for as many.
  uint32_t max_outstanding_unexpected_pdus = 32;
  uint32_t max_ahs_length = kMaxIserAhs;  // 2 to that.
  // Whether Offer::initial_r2t goes for iSER; else it is InitialR2T=Yes, but
  // where short messages are cheaper than others (docs/iser.md). A target posts
  // a receive for every unsolicited Data-Out PDU that may come then.
  bool unsolicited_data_out = false;
  // The initiator's to say. Yes means the same to every peer.
  bool tagged_buffer_for_solicited_data_only = true;
  bool hello_required = false;
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
  // Neither side of ours needs a respite after a connection is lost: whoever
  // asks for one is waited for.
  uint32_t default_time2wait = 0;
  uint32_t default_time2retain = 0;
  uint32_t max_outstanding_r2t = 8;
  bool data_pdu_in_order = true;
  bool data_sequence_in_order = true;
  uint32_t error_recovery_level = 0;
  uint32_t iscsi_protocol_level = 1;
  IserOffer iser;
};

// Who is at the other end and which session this is; from the first Login
// Request.
struct LoginIdentity {
  std::string initiator_name;
  std::string initiator_alias;
  // A discovery session has none as a rule, but may name one.
  std::string target_name;
  // Who the peer has shown to be (CHAP_N); empty: nobody asked.
  std::string authenticated_peer;
  // Where from, numeric and without a port: at a target. TargetLoginPolicy
  // fills it in.
  std::string peer_address;
  std::string target_alias;
  SessionType session_type = SessionType::kNormal;
  // None in a discovery session that names a target which is not there.
  std::optional<uint16_t> target_portal_group_tag = 1;
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_NEGOTIATION_PARAMETERS_H_
