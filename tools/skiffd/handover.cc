#include "tools/skiffd/handover.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tools/skiffd/handover.pb.h"

namespace skiff::tools::skiffd {
namespace {

using transport::ScopedFd;

// Of what this program understands: Session.needs_version.
constexpr uint32_t kVersion = 1;
// Of the message, and of what was received of all sessions and not read.
constexpr int64_t kMaxBytes = int64_t{1} << 30;
constexpr size_t kMaxUnread = 256u << 20;

uint64_t InodeOf(int descriptor) {
  struct stat there = {};
  return fstat(descriptor, &there) == 0 ? there.st_ino : 0;
}

// --- To messages.

void Pack(const protocol::LoginIdentity& from, kept::Identity* to) {
  to->set_initiator_name(from.initiator_name);
  to->set_initiator_alias(from.initiator_alias);
  to->set_target_name(from.target_name);
  to->set_authenticated_peer(from.authenticated_peer);
  to->set_peer_address(from.peer_address);
  to->set_target_alias(from.target_alias);
  to->set_discovery(from.session_type == protocol::SessionType::kDiscovery);
  if (from.target_portal_group_tag.has_value()) {
    to->set_target_portal_group_tag(*from.target_portal_group_tag);
  }
}

void Pack(const protocol::Parameters& from, kept::Parameters* to) {
  to->set_header_digest(from.header_digest == protocol::Digest::kCrc32c);
  to->set_data_digest(from.data_digest == protocol::Digest::kCrc32c);
  to->set_initial_r2t(from.initial_r2t);
  to->set_immediate_data(from.immediate_data);
  to->set_initiator_max_recv_data_segment_length(
      from.initiator_max_recv_data_segment_length);
  to->set_target_max_recv_data_segment_length(
      from.target_max_recv_data_segment_length);
  to->set_max_burst_length(from.max_burst_length);
  to->set_first_burst_length(from.first_burst_length);
  to->set_default_time2wait(from.default_time2wait);
  to->set_default_time2retain(from.default_time2retain);
  to->set_max_outstanding_r2t(from.max_outstanding_r2t);
  to->set_data_pdu_in_order(from.data_pdu_in_order);
  to->set_data_sequence_in_order(from.data_sequence_in_order);
  to->set_iscsi_protocol_level(from.iscsi_protocol_level);
}

void Pack(const scsi::NexusState& from, kept::Nexus* to) {
  for (const scsi::NexusState::Lu& lu : from.lus) {
    kept::NexusLu* const packed = to->add_lus();
    packed->set_seen(lu.seen);
    packed->set_serial(lu.serial);
    packed->set_size_bytes(lu.size_bytes);
    packed->set_block_size(lu.block_size);
    packed->set_mode_pages(lu.mode_pages);
    for (const uint16_t code : lu.unit_attentions) {
      packed->add_unit_attentions(code);
    }
  }
  for (const uint16_t code : from.report_luns_unit_attentions) {
    to->add_report_luns_unit_attentions(code);
  }
}

void Pack(const protocol::TargetSessionState& from, kept::Session* to) {
  Pack(from.identity, to->mutable_identity());
  Pack(from.parameters, to->mutable_parameters());
  to->set_isid(std::string(from.isid.begin(), from.isid.end()));
  to->set_cid(from.cid);
  to->set_tsih(from.tsih);
  to->set_exp_cmd_sn(from.exp_cmd_sn);
  to->set_stat_sn(from.stat_sn);
  to->set_exp_stat_sn(from.exp_stat_sn);
  for (const uint32_t cmd_sn : from.aborted_cmd_sns) {
    to->add_aborted_cmd_sns(cmd_sn);
  }
  to->set_queue_depth(from.queue_depth);
  to->set_max_immediate_tasks(from.max_immediate_tasks);
  to->set_ping_tag(from.ping_tag);
  to->set_ping_unanswered(from.ping_unanswered);
  to->set_commands(from.commands);
  to->set_bytes_in(from.bytes_in);
  to->set_bytes_out(from.bytes_out);
  if (from.nexus.has_value()) Pack(*from.nexus, to->mutable_nexus());
  to->set_unread(from.unread);
}

void Pack(const std::string& name, const scsi::TargetState& from,
          kept::Target* to) {
  to->set_name(name);
  for (const scsi::TargetState::Lu& lu : from.lus) {
    kept::TargetLu* const packed = to->add_lus();
    packed->set_lun(lu.lun);
    packed->set_serial(lu.serial);
    packed->set_mode_pages(lu.mode_pages);
  }
}

// --- From messages.

std::vector<uint16_t> Codes(
    const google::protobuf::RepeatedField<uint32_t>& from) {
  return std::vector<uint16_t>(from.begin(), from.end());
}

protocol::LoginIdentity Unpack(const kept::Identity& from) {
  protocol::LoginIdentity to;
  to.initiator_name = from.initiator_name();
  to.initiator_alias = from.initiator_alias();
  to.target_name = from.target_name();
  to.authenticated_peer = from.authenticated_peer();
  to.peer_address = from.peer_address();
  to.target_alias = from.target_alias();
  to.session_type = from.discovery() ? protocol::SessionType::kDiscovery
                                     : protocol::SessionType::kNormal;
  to.target_portal_group_tag = std::nullopt;
  if (from.has_target_portal_group_tag()) {
    to.target_portal_group_tag =
        static_cast<uint16_t>(from.target_portal_group_tag());
  }
  return to;
}

protocol::Parameters Unpack(const kept::Parameters& from) {
  const auto digest = [](bool on) {
    return on ? protocol::Digest::kCrc32c : protocol::Digest::kNone;
  };
  protocol::Parameters to;
  to.header_digest = digest(from.header_digest());
  to.data_digest = digest(from.data_digest());
  to.initial_r2t = from.initial_r2t();
  to.immediate_data = from.immediate_data();
  to.initiator_max_recv_data_segment_length =
      from.initiator_max_recv_data_segment_length();
  to.target_max_recv_data_segment_length =
      from.target_max_recv_data_segment_length();
  to.max_burst_length = from.max_burst_length();
  to.first_burst_length = from.first_burst_length();
  to.default_time2wait = from.default_time2wait();
  to.default_time2retain = from.default_time2retain();
  to.max_outstanding_r2t = from.max_outstanding_r2t();
  to.data_pdu_in_order = from.data_pdu_in_order();
  to.data_sequence_in_order = from.data_sequence_in_order();
  to.iscsi_protocol_level = from.iscsi_protocol_level();
  return to;
}

scsi::NexusState Unpack(const kept::Nexus& from) {
  scsi::NexusState to;
  for (const kept::NexusLu& lu : from.lus()) {
    to.lus.push_back({.seen = lu.seen(),
                      .serial = lu.serial(),
                      .size_bytes = lu.size_bytes(),
                      .block_size = lu.block_size(),
                      .mode_pages = lu.mode_pages(),
                      .unit_attentions = Codes(lu.unit_attentions())});
  }
  to.report_luns_unit_attentions = Codes(from.report_luns_unit_attentions());
  return to;
}

// RFC 7143 section 13: what no login agrees on, a session can't go on with.
bool Makes(const protocol::Parameters& parameters) {
  constexpr uint32_t kLeast = 512;
  return std::min({parameters.initiator_max_recv_data_segment_length,
                   parameters.target_max_recv_data_segment_length,
                   parameters.max_burst_length,
                   parameters.first_burst_length}) >= kLeast &&
         parameters.max_outstanding_r2t >= 1;
}

absl::StatusOr<protocol::HandedOverSession> Unpack(const kept::Session& from) {
  if (from.needs_version() > kVersion) {
    return absl::UnimplementedError("it needs a later version of this program");
  }
  protocol::HandedOverSession session;
  auto portal = transport::Address::Parse(from.portal());
  if (!portal.ok()) return portal.status();
  session.portal = *std::move(portal);
  session.scheme = from.scheme();
  protocol::TargetSessionState& to = session.state;
  to.identity = Unpack(from.identity());
  to.parameters = Unpack(from.parameters());
  if (from.isid().size() != to.isid.size() || from.tsih() == 0 ||
      from.tsih() > 0xffff || from.queue_depth() == 0 ||
      !Makes(to.parameters)) {
    return absl::InvalidArgumentError("what is said of it makes no sense");
  }
  std::copy(from.isid().begin(), from.isid().end(), to.isid.begin());
  to.cid = static_cast<uint16_t>(from.cid());
  to.tsih = static_cast<uint16_t>(from.tsih());
  to.exp_cmd_sn = from.exp_cmd_sn();
  to.stat_sn = from.stat_sn();
  to.exp_stat_sn = from.exp_stat_sn();
  to.aborted_cmd_sns.assign(from.aborted_cmd_sns().begin(),
                            from.aborted_cmd_sns().end());
  to.queue_depth = from.queue_depth();
  to.max_immediate_tasks = from.max_immediate_tasks();
  to.ping_tag = from.ping_tag();
  to.ping_unanswered = from.ping_unanswered();
  to.commands = from.commands();
  to.bytes_in = from.bytes_in();
  to.bytes_out = from.bytes_out();
  if (from.has_nexus()) to.nexus = Unpack(from.nexus());
  to.unread = from.unread();
  return session;
}

scsi::TargetState Unpack(const kept::Target& from) {
  scsi::TargetState to;
  for (const kept::TargetLu& lu : from.lus()) {
    to.lus.push_back({lu.lun(), lu.serial(), lu.mode_pages()});
  }
  return to;
}

// --- The file.

absl::StatusOr<ScopedFd> FileOf(const std::string& bytes) {
  ScopedFd file(
      memfd_create("skiff-handover", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.valid()) return absl::ErrnoToStatus(errno, "memfd_create");
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t written =
        write(file.get(), bytes.data() + at, bytes.size() - at);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      return absl::ErrnoToStatus(errno, "cannot write to memory");
    }
    at += static_cast<size_t>(written);
  }
  fcntl(file.get(), F_ADD_SEALS,
        F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  return file;
}

absl::StatusOr<std::string> BytesOf(int file, int64_t size) {
  if (size > kMaxBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("it has ", size, " bytes; ", kMaxBytes, " are read"));
  }
  std::string bytes(static_cast<size_t>(size), '\0');
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t got = pread(file, bytes.data() + at, bytes.size() - at,
                              static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return absl::ErrnoToStatus(errno, "cannot be read");
    at += static_cast<size_t>(got);
  }
  return bytes;
}

// Null: there is none among them. It is taken out.
std::optional<kept::Handover> TakeMessage(std::vector<ScopedFd>* from,
                                          std::string* problem) {
  for (auto it = from->begin(); it != from->end(); ++it) {
    struct stat there = {};
    if (fstat(it->get(), &there) != 0 || !S_ISREG(there.st_mode)) continue;
    const ScopedFd file = std::move(*it);
    from->erase(it);
    const absl::StatusOr<std::string> bytes =
        BytesOf(file.get(), there.st_size);
    kept::Handover message;
    if (bytes.ok() && message.ParseFromString(*bytes)) return message;
    *problem = bytes.ok() ? "it is no message of this program"
                          : std::string(bytes.status().message());
    return std::nullopt;
  }
  *problem = "there is no message among them";
  return std::nullopt;
}

bool IsListening(int socket) {
  int listens = 0;
  socklen_t size = sizeof(listens);
  return getsockopt(socket, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 &&
         listens != 0;
}

bool IsNumeric(const std::string& host) {
  return host.find_first_not_of("0123456789.") == std::string::npos ||
         host.find(':') != std::string::npos;
}

// Whether one of both might keep the other from being bound.
bool MayBeInTheWay(const transport::Address& a, const transport::Address& b) {
  const auto any = [](const std::string& host) {
    return host == "0.0.0.0" || host == "::";
  };
  return a.port == b.port && (a.host == b.host || any(a.host) || any(b.host) ||
                              !IsNumeric(a.host) || !IsNumeric(b.host));
}

}  // namespace

absl::StatusOr<PackedHandover> PackHandover(protocol::ServerHandover handover) {
  kept::Handover message;
  PackedHandover packed;
  packed.descriptors.emplace_back();  // The message's.
  for (protocol::HandedOverPortal& portal : handover.portals) {
    kept::Portal* const to = message.add_portals();
    to->set_inode(InodeOf(portal.socket.get()));
    to->set_address(portal.address.ToString());
    packed.descriptors.push_back(std::move(portal.socket));
  }
  for (const auto& [name, target] : handover.targets) {
    Pack(name, target, message.add_targets());
  }
  // Who has sent most ahead makes room for the others.
  std::sort(handover.sessions.begin(), handover.sessions.end(),
            [](const auto& a, const auto& b) {
              return a.state.unread.size() < b.state.unread.size();
            });
  size_t unread = 0;
  for (protocol::HandedOverSession& session : handover.sessions) {
    unread += session.state.unread.size();
    if (unread > kMaxUnread) {
      packed.left_out.push_back(session.state.identity.initiator_name);
      continue;
    }
    ++packed.sessions;
    kept::Session* const to = message.add_sessions();
    to->set_inode(InodeOf(session.connection.get()));
    to->set_scheme(session.scheme);
    to->set_portal(session.portal.ToString());
    Pack(session.state, to);
    packed.descriptors.push_back(std::move(session.connection));
  }
  std::string bytes;
  if (!message.SerializeToString(&bytes)) {
    return absl::ResourceExhaustedError(
        "what is known of the sessions does not fit one message");
  }
  absl::StatusOr<ScopedFd> file = FileOf(bytes);
  if (!file.ok()) return file.status();
  packed.descriptors[0] = *std::move(file);
  return packed;
}

Inherited::Inherited(const std::vector<int>& descriptors,
                     std::function<absl::Status()> forget,
                     transport::LogSink log)
    : forget_(std::move(forget)),
      log_(std::move(log)),
      any_(!descriptors.empty()) {
  if (!any_) return;
  std::vector<ScopedFd> owned;
  for (const int descriptor : descriptors) owned.emplace_back(descriptor);
  std::string problem;
  const std::optional<kept::Handover> message = TakeMessage(&owned, &problem);
  if (!message.has_value()) {
    Warn(absl::StrCat("the service manager has kept ", descriptors.size(),
                      " descriptors that can't be used: ", problem));
    return;
  }
  std::map<uint64_t, ScopedFd> by_inode;
  for (ScopedFd& one : owned) by_inode[InodeOf(one.get())] = std::move(one);
  for (const kept::Portal& portal : message->portals()) {
    auto address = transport::Address::Parse(portal.address());
    ScopedFd socket = std::move(by_inode[portal.inode()]);
    // It may have been in the way of one that was to start before.
    if (!IsListening(socket.get()) || !address.ok()) continue;
    handover_.portals.push_back({std::move(socket), *std::move(address)});
  }
  for (const kept::Target& target : message->targets()) {
    handover_.targets[target.name()] = Unpack(target);
  }
  for (const kept::Session& from : message->sessions()) {
    const std::string& who = from.identity().initiator_name();
    ScopedFd connection = std::move(by_inode[from.inode()]);
    if (!connection.valid()) {
      Warn(absl::StrCat(who, " has to log in again: its connection has ended, ",
                        "or was not kept (FileDescriptorStoreMax=)"));
      continue;
    }
    absl::StatusOr<protocol::HandedOverSession> session = Unpack(from);
    if (!session.ok()) {
      Warn(absl::StrCat(who,
                        " has to log in again: ", session.status().message()));
      continue;
    }
    session->connection = std::move(connection);
    handover_.sessions.push_back(*std::move(session));
  }
}

int Inherited::TakeSocket(const transport::Address& address) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<protocol::HandedOverPortal>& portals = handover_.portals;
  for (auto it = portals.begin(); it != portals.end(); ++it) {
    if (!(it->address == address)) continue;
    const int socket = it->socket.Release();
    portals.erase(it);
    return socket;
  }
  portals.erase(std::remove_if(portals.begin(), portals.end(),
                               [&](const protocol::HandedOverPortal& one) {
                                 if (!MayBeInTheWay(one.address, address))
                                   return false;
                                 // The service manager has it open, too.
                                 shutdown(one.socket.get(), SHUT_RDWR);
                                 return true;
                               }),
                portals.end());
  return -1;
}

protocol::ServerHandover Inherited::TakeRest() {
  const absl::Status forgotten = any_ ? forget_() : absl::OkStatus();
  if (!forgotten.ok()) {
    Warn(absl::StrCat("all sessions have to log in again: ",
                      forgotten.message()));
    return {};
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  handover_.portals.clear();
  return std::move(handover_);
}

}  // namespace skiff::tools::skiffd
