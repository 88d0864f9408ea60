#ifndef SKIFF_TESTING_TRANSPORT_CONFORMANCE_HOST_MESSAGES_H_
#define SKIFF_TESTING_TRANSPORT_CONFORMANCE_HOST_MESSAGES_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"
#include "testing/transport_conformance/host.h"

// The values of host.h between two hosts, for nlohmann::json. They travel as
// MessagePack, whose strings may hold any bytes.

namespace nlohmann {

template <>
struct adl_serializer<absl::Duration> {
  static void to_json(json& out, const absl::Duration& in) {
    out = absl::ToInt64Nanoseconds(in);
  }
  static void from_json(const json& in, absl::Duration& out) {
    out = absl::Nanoseconds(in.get<int64_t>());
  }
};

template <>
struct adl_serializer<absl::Status> {
  static void to_json(json& out, const absl::Status& in) {
    json payloads = json::object();
    in.ForEachPayload([&](absl::string_view name, const absl::Cord& payload) {
      payloads[std::string(name)] = std::string(payload);
    });
    out = {{"code", static_cast<int>(in.code())},
           {"message", std::string(in.message())},
           {"payloads", payloads}};
  }
  static void from_json(const json& in, absl::Status& out) {
    out = absl::Status(static_cast<absl::StatusCode>(in.at("code").get<int>()),
                       in.at("message").get<std::string>());
    for (const auto& [name, payload] : in.at("payloads").items()) {
      out.SetPayload(name, absl::Cord(payload.get<std::string>()));
    }
  }
};

template <>
struct adl_serializer<absl::StatusOr<int>> {
  static void to_json(json& out, const absl::StatusOr<int>& in) {
    out = {{"status", in.status()}, {"value", in.ok() ? *in : 0}};
  }
  static void from_json(const json& in, absl::StatusOr<int>& out) {
    const auto status = in.at("status").get<absl::Status>();
    if (status.ok()) {
      out = in.at("value").get<int>();
    } else {
      out = status;
    }
  }
};

}  // namespace nlohmann

namespace skiff::transport {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RemoteKey, value)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RemoteBuffer, address, key)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(
    Capabilities, rdma, max_message_bytes, max_transfer_bytes, max_inline_bytes,
    max_send_sges, max_receive_sges, max_read_sges, max_read_depth,
    max_send_queue, max_receive_queue, max_private_data_bytes, remote_key_bits,
    send_with_invalidate, shared_receive_queue, memory_windows,
    receiver_not_ready_retry, read_sink_needs_remote_write, serial_transfers,
    deregistration_ends_access)

}  // namespace skiff::transport

namespace skiff::testing {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(EndPlan, private_data,
                                   private_data_when_prepared, timeout,
                                   read_depth, send_queue, receive_queue,
                                   max_sges, inline_bytes, receives,
                                   receive_bytes, receive_queue_of_device,
                                   queue, share_receives, prepare_error)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ListenPlan, answer, accept,
                                   reject_private_data, backlog)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(EndState, phase, status, connected, error,
                                   disconnects, peer_private_data,
                                   local_address, peer_address, scheme,
                                   capabilities, outstanding, receive_buffer)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ListenerState, ends, private_data,
                                   local_addresses, peer_addresses, failure)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(BufferSpec, size, access, registered,
                                   misalignment)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Piece, buffer, offset, length, unregistered)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Operation, kind, pieces, remote, invalidate,
                                   key, window, access)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Posted, result, id)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Arrived, id, kind, status, scope, bytes,
                                   invalidated, invalidated_key, orphan, shared)

}  // namespace skiff::testing

#endif  // SKIFF_TESTING_TRANSPORT_CONFORMANCE_HOST_MESSAGES_H_
