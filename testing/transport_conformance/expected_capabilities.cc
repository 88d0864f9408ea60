#include "testing/transport_conformance/expected_capabilities.h"

#include <cstdio>
#include <cstdlib>
#include <string>

namespace skiff::testing {
namespace {

constexpr size_t kGiB = size_t{1} << 30;

ExpectedCapabilities SimInfiniBand() {
  ExpectedCapabilities expected;
  transport::Capabilities& caps = expected.capabilities;
  caps.rdma = true;
  caps.max_message_bytes = kGiB;
  caps.max_transfer_bytes = kGiB;
  caps.max_inline_bytes = 64;
  caps.max_send_sges = 16;
  caps.max_receive_sges = 16;
  caps.max_read_sges = 16;
  caps.max_read_depth = 16;
  caps.max_send_queue = 256;
  caps.max_receive_queue = 1024;
  caps.max_private_data_bytes = 56;
  caps.remote_key_bits = 32;
  caps.send_with_invalidate = true;
  caps.shared_receive_queue = true;
  caps.memory_windows = true;
  caps.receiver_not_ready_retry = true;
  caps.deregistration_ends_access = true;
  expected.invalidates_regions = true;
  return expected;
}

ExpectedCapabilities SimIwarp() {
  ExpectedCapabilities expected = SimInfiniBand();
  transport::Capabilities& caps = expected.capabilities;
  caps.max_read_sges = 1;
  caps.max_private_data_bytes = 508;
  caps.shared_receive_queue = false;
  caps.receiver_not_ready_retry = false;
  caps.read_sink_needs_remote_write = true;
  return expected;
}

// Soft-RoCE of Linux 6.1.
ExpectedCapabilities VerbsRxe() {
  ExpectedCapabilities expected;
  transport::Capabilities& caps = expected.capabilities;
  caps.rdma = true;
  caps.max_message_bytes = 8 << 20;
  caps.max_transfer_bytes = 8 << 20;
  caps.max_inline_bytes = 128;
  caps.max_send_sges = 16;
  caps.max_receive_sges = 16;
  caps.max_read_sges = 16;
  caps.max_read_depth = 128;
  caps.max_send_queue = 4096;
  caps.max_receive_queue = 4096;
  caps.max_private_data_bytes = 56;
  caps.remote_key_bits = 32;
  caps.send_with_invalidate = true;
  caps.shared_receive_queue = true;
  caps.memory_windows = true;
  caps.receiver_not_ready_retry = true;
  caps.deregistration_ends_access = true;
  expected.private_data_padded = true;
  expected.registration_locks_memory = true;
  expected.registration_checks_memory = true;
  // Rxe checks the bounds of the window's region only.
  expected.checks_window_bounds = false;
  return expected;
}

// Soft-iWARP of Linux 6.1.
ExpectedCapabilities VerbsSiw() {
  ExpectedCapabilities expected;
  transport::Capabilities& caps = expected.capabilities;
  caps.rdma = true;
  caps.max_message_bytes = kGiB;
  caps.max_transfer_bytes = kGiB;
  caps.max_inline_bytes = 80;
  caps.max_send_sges = 6;
  caps.max_receive_sges = 6;
  caps.max_read_sges = 1;
  caps.max_read_depth = 128;
  caps.max_send_queue = 4096;
  caps.max_receive_queue = 4096;
  caps.max_private_data_bytes = 251;
  caps.remote_key_bits = 32;
  caps.shared_receive_queue = true;
  caps.read_sink_needs_remote_write = true;
  caps.deregistration_ends_access = true;
  expected.registration_locks_memory = true;
  expected.registration_checks_memory = true;
  // Siw serves a READ of any region whose key is right.
  expected.checks_read_permission = false;
  expected.refusals_are_named = false;
  return expected;
}

ExpectedCapabilities ByteStream() { return {}; }

// libfabric 1.17.0, as Debian 12 has it. Keys are chosen by the transport, and
// so fit 32 bits.
ExpectedCapabilities LibfabricTcp() {
  ExpectedCapabilities expected;
  expected.refusals_are_named = false;
  transport::Capabilities& caps = expected.capabilities;
  caps.rdma = true;
  caps.max_message_bytes = kGiB;
  caps.max_transfer_bytes = kGiB;
  caps.max_inline_bytes = 128;
  caps.max_send_sges = 4;
  caps.max_receive_sges = 4;
  caps.max_read_sges = 4;
  caps.max_read_depth = 16;
  caps.max_send_queue = 1024;
  caps.max_receive_queue = 65536;
  caps.max_private_data_bytes = 256;
  caps.remote_key_bits = 32;
  caps.receiver_not_ready_retry = true;
  caps.serial_transfers = true;
  return expected;
}

ExpectedCapabilities LibfabricSockets() {
  ExpectedCapabilities expected = LibfabricTcp();
  expected.refusals_are_named = true;
  transport::Capabilities& caps = expected.capabilities;
  caps.max_send_sges = 8;
  caps.max_receive_sges = 8;
  caps.max_read_sges = 8;
  caps.max_send_queue = 256;
  caps.max_receive_queue = 256;
  return expected;
}

// Shared memory.
ExpectedCapabilities LibfabricShm() {
  ExpectedCapabilities expected = LibfabricTcp();
  // Short WRITEs have completed when they are refused.
  expected.refusals_are_named = false;
  transport::Capabilities& caps = expected.capabilities;
  caps.max_message_bytes = size_t{1} << 20;
  caps.max_private_data_bytes = 512;
  caps.max_receive_queue = 1024;
  return expected;
}

ExpectedCapabilities LibfabricRxm() {
  ExpectedCapabilities expected = LibfabricTcp();
  // It opens all memory to READs, for its own of long messages.
  expected.checks_read_permission = false;
  transport::Capabilities& caps = expected.capabilities;
  caps.max_inline_bytes = 64;
  caps.max_private_data_bytes = 512;
  caps.max_receive_queue = 1024;
  return expected;
}

// Soft-RoCE.
ExpectedCapabilities LibfabricVerbsRoce() {
  ExpectedCapabilities expected = LibfabricTcp();
  expected.refusals_are_named = true;
  expected.registration_locks_memory = true;
  expected.registration_checks_memory = true;
  transport::Capabilities& caps = expected.capabilities;
  caps.max_message_bytes = size_t{8} << 20;
  caps.max_transfer_bytes = caps.max_message_bytes;
  caps.max_inline_bytes = 256;
  caps.max_send_queue = 1024;
  caps.max_receive_queue = 1024;
  // Of the 56 bytes that RDMA_PS_TCP has, the provider takes one.
  caps.max_private_data_bytes = 55;
  caps.serial_transfers = false;
  caps.deregistration_ends_access = true;
  return expected;
}

// Soft-iWARP.
ExpectedCapabilities LibfabricVerbsIwarp() {
  ExpectedCapabilities expected = LibfabricVerbsRoce();
  expected.refusals_are_named = false;
  // Siw serves a READ of any region whose key is right.
  expected.checks_read_permission = false;
  transport::Capabilities& caps = expected.capabilities;
  caps.max_message_bytes = kGiB;
  caps.max_transfer_bytes = kGiB;
  // The provider's search for the limit of siw ends there.
  caps.max_inline_bytes = 2;
  caps.max_read_sges = 1;
  caps.receiver_not_ready_retry = false;
  caps.read_sink_needs_remote_write = true;
  return expected;
}

const struct {
  const char* name;
  ExpectedCapabilities (*expected)();
} kTable[] = {
    {"libfabric_shm", LibfabricShm},
    {"libfabric_sockets", LibfabricSockets},
    {"libfabric_tcp", LibfabricTcp},
    {"libfabric_tcp_ofi_rxm", LibfabricRxm},
    {"libfabric_verbs_iwarp", LibfabricVerbsIwarp},
    {"libfabric_verbs_roce", LibfabricVerbsRoce},
    {"sim_infiniband", SimInfiniBand},
    {"sim_iwarp", SimIwarp},
    {"sim_stream", ByteStream},
    {"tcp", ByteStream},
    {"verbs_rxe", VerbsRxe},
    {"verbs_siw", VerbsSiw},
};

}  // namespace

ExpectedCapabilities ExpectedCapabilitiesOf(absl::string_view name) {
  for (const auto& row : kTable) {
    if (row.name == name) return row.expected();
  }
  std::fprintf(stderr,
               "no row \"%s\" in testing/transport_conformance/"
               "expected_capabilities.cc: write down what it has\n",
               std::string(name).c_str());
  std::abort();
}

}  // namespace skiff::testing
