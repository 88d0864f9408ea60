#include "tools/skiffd/handover.h"

#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace skiff::tools::skiffd {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

transport::Address At(const std::string& uri) {
  return transport::Address::Parse(uri).value();
}

class HandoverTest : public ::testing::Test {
 protected:
  transport::ScopedFd Socket() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    others_.emplace_back(ends[1]);
    return transport::ScopedFd(ends[0]);
  }

  // That listens on a port of its own.
  static transport::ScopedFd Listener() {
    transport::ScopedFd socket(::socket(AF_INET, SOCK_STREAM, 0));
    EXPECT_EQ(ListenOn(socket.get(), 0), 0);
    return socket;
  }
  // 0, or an errno.
  static int ListenOn(int socket, in_port_t port) {
    const int one = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = port;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const bool listens =
        bind(socket, reinterpret_cast<const sockaddr*>(&address),
             sizeof(address)) == 0 &&
        listen(socket, 1) == 0;
    return listens ? 0 : errno;
  }
  static in_port_t PortOf(int socket) {
    sockaddr_in address = {};
    socklen_t size = sizeof(address);
    EXPECT_EQ(getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size),
              0);
    return address.sin_port;
  }

  protocol::HandedOverSession Session() {
    protocol::HandedOverSession session;
    session.connection = Socket();
    session.scheme = "tcp";
    session.portal = At("tcp://127.0.0.1:3260?v6only=1");
    protocol::TargetSessionState& state = session.state;
    state.identity.initiator_name = "iqn.2001-04.com.example:host";
    state.identity.target_name = "iqn.2001-04.com.example:disk";
    state.identity.authenticated_peer = "peer";
    state.identity.peer_address = "10.0.0.1";
    state.identity.target_portal_group_tag = 7;
    state.parameters.data_digest = protocol::Digest::kCrc32c;
    state.parameters.initial_r2t = false;
    state.parameters.max_burst_length = 1u << 20;
    state.parameters.max_outstanding_r2t = 5;
    state.isid = {0x80, 1, 2, 3, 4, 5};
    state.cid = 3;
    state.tsih = 0xfffe;
    state.exp_cmd_sn = 0xffffffff;
    state.stat_sn = 0x80000000;
    state.exp_stat_sn = 12;
    state.aborted_cmd_sns = {2, 9};
    state.queue_depth = 17;
    state.max_immediate_tasks = 4;
    state.ping_tag = 8;
    state.ping_unanswered = true;
    state.commands = uint64_t{1} << 40;
    state.unread = std::string("\0\xff bytes", 8);
    state.nexus.emplace();
    state.nexus->lus.push_back({.seen = 5,
                                .serial = "serial",
                                .size_bytes = uint64_t{1} << 45,
                                .block_size = 4096,
                                .mode_pages = std::string("\x0a\0", 2),
                                .unit_attentions = {0x2a09, 0x2900}});
    state.nexus->report_luns_unit_attentions = {0x3f0e};
    return session;
  }

  // As a service manager gives them: in any order.
  Inherited Give(PackedHandover packed) {
    std::vector<int> descriptors;
    for (auto it = packed.descriptors.rbegin(); it != packed.descriptors.rend();
         ++it) {
      descriptors.push_back(it->Release());
    }
    return Inherited(descriptors, Forget(), Log());
  }
  transport::LogSink Log() {
    return [this](transport::LogLevel, absl::string_view line) {
      log_.emplace_back(line);
    };
  }

  std::function<absl::Status()> Forget() {
    return [this] {
      ++forgotten_;
      return forget_;
    };
  }

  absl::Status forget_;
  int forgotten_ = 0;
  std::vector<transport::ScopedFd> others_;
  std::vector<std::string> log_;
};

TEST_F(HandoverTest, AllOfItComesBack) {
  protocol::ServerHandover handover;
  handover.sessions.push_back(Session());
  handover.portals.push_back({Listener(), At("tcp://0.0.0.0:3260")});
  handover.targets["iqn.2001-04.com.example:disk"].lus.push_back(
      {3, "serial", "pages"});
  const int listening = handover.portals[0].socket.get();
  const protocol::TargetSessionState was = handover.sessions[0].state;
  auto packed = PackHandover(std::move(handover));
  ASSERT_TRUE(packed.ok()) << packed.status();
  EXPECT_EQ(packed->descriptors.size(), 3u);
  Inherited inherited = Give(*std::move(packed));
  EXPECT_EQ(inherited.sessions().size(), 1u);
  EXPECT_EQ(inherited.TakeSocket(At("tcp://127.0.0.1:3261")), -1);
  const transport::ScopedFd socket(
      inherited.TakeSocket(At("tcp://0.0.0.0:3260")));
  EXPECT_EQ(socket.get(), listening);
  EXPECT_EQ(forgotten_, 0);
  protocol::ServerHandover rest = inherited.TakeRest();
  EXPECT_EQ(forgotten_, 1);
  ASSERT_EQ(rest.targets.size(), 1u);
  EXPECT_EQ(rest.targets.begin()->second.lus[0].mode_pages, "pages");
  ASSERT_EQ(rest.sessions.size(), 1u);
  const protocol::HandedOverSession& session = rest.sessions[0];
  EXPECT_TRUE(session.connection.valid());
  EXPECT_EQ(session.portal, At("tcp://127.0.0.1:3260?v6only=1"));
  const protocol::TargetSessionState& is = session.state;
  EXPECT_EQ(is.parameters, was.parameters);
  EXPECT_EQ(is.identity.initiator_name, was.identity.initiator_name);
  EXPECT_EQ(is.identity.target_name, was.identity.target_name);
  EXPECT_EQ(is.identity.authenticated_peer, "peer");
  EXPECT_EQ(is.identity.peer_address, "10.0.0.1");
  EXPECT_EQ(is.identity.target_portal_group_tag, 7);
  EXPECT_EQ(is.isid, was.isid);
  EXPECT_EQ(is.cid, was.cid);
  EXPECT_EQ(is.tsih, was.tsih);
  EXPECT_EQ(is.exp_cmd_sn, was.exp_cmd_sn);
  EXPECT_EQ(is.stat_sn, was.stat_sn);
  EXPECT_EQ(is.exp_stat_sn, was.exp_stat_sn);
  EXPECT_EQ(is.aborted_cmd_sns, was.aborted_cmd_sns);
  EXPECT_EQ(is.queue_depth, was.queue_depth);
  EXPECT_EQ(is.max_immediate_tasks, was.max_immediate_tasks);
  EXPECT_EQ(is.ping_tag, was.ping_tag);
  EXPECT_TRUE(is.ping_unanswered);
  EXPECT_EQ(is.commands, was.commands);
  EXPECT_EQ(is.unread, was.unread);
  ASSERT_TRUE(is.nexus.has_value());
  ASSERT_EQ(is.nexus->lus.size(), 1u);
  EXPECT_EQ(is.nexus->lus[0].seen, 5u);
  EXPECT_EQ(is.nexus->lus[0].serial, "serial");
  EXPECT_EQ(is.nexus->lus[0].size_bytes, uint64_t{1} << 45);
  EXPECT_EQ(is.nexus->lus[0].block_size, 4096u);
  EXPECT_EQ(is.nexus->lus[0].mode_pages, was.nexus->lus[0].mode_pages);
  EXPECT_EQ(is.nexus->lus[0].unit_attentions,
            was.nexus->lus[0].unit_attentions);
  EXPECT_EQ(is.nexus->report_luns_unit_attentions,
            was.nexus->report_luns_unit_attentions);
  EXPECT_THAT(log_, IsEmpty());
}

TEST_F(HandoverTest, ASocketInTheWayIsClosed) {
  protocol::ServerHandover handover;
  handover.portals.push_back({Listener(), At("tcp://localhost:3260")});
  // The service manager goes on to have it.
  const transport::ScopedFd kept(dup(handover.portals[0].socket.get()));
  Inherited inherited = Give(*PackHandover(std::move(handover)));
  const transport::ScopedFd fresh(socket(AF_INET, SOCK_STREAM, 0));
  EXPECT_EQ(ListenOn(fresh.get(), PortOf(kept.get())), EADDRINUSE);
  EXPECT_EQ(inherited.TakeSocket(At("tcp://127.0.0.1:3260")), -1);
  const transport::ScopedFd again(socket(AF_INET, SOCK_STREAM, 0));
  EXPECT_EQ(ListenOn(again.get(), PortOf(kept.get())), 0);
}

// One that was in the way of a process that then failed.
TEST_F(HandoverTest, ASocketThatListensNoMoreIsNotTaken) {
  protocol::ServerHandover handover;
  handover.portals.push_back({Listener(), At("tcp://127.0.0.1:3260")});
  shutdown(handover.portals[0].socket.get(), SHUT_RDWR);
  Inherited inherited = Give(*PackHandover(std::move(handover)));
  EXPECT_EQ(inherited.TakeSocket(At("tcp://127.0.0.1:3260")), -1);
}

TEST_F(HandoverTest, AConnectionThatWasNotKeptIsTold) {
  protocol::ServerHandover handover;
  handover.sessions.push_back(Session());
  auto packed = PackHandover(std::move(handover));
  ASSERT_TRUE(packed.ok());
  packed->descriptors.pop_back();
  Inherited inherited = Give(*std::move(packed));
  EXPECT_THAT(inherited.TakeRest().sessions, IsEmpty());
  EXPECT_THAT(log_, Contains(HasSubstr("FileDescriptorStoreMax")));
}

// Another process might be given them, too.
TEST_F(HandoverTest, SessionsThatAreNotForgottenEnd) {
  forget_ = absl::DeadlineExceededError("no answer");
  protocol::ServerHandover handover;
  handover.sessions.push_back(Session());
  Inherited inherited = Give(*PackHandover(std::move(handover)));
  EXPECT_THAT(inherited.TakeRest().sessions, IsEmpty());
  EXPECT_THAT(log_, Contains(HasSubstr("no answer")));
}

TEST_F(HandoverTest, WhoHasSentMostMakesRoom) {
  protocol::ServerHandover handover;
  for (const size_t mebibytes : {200, 1, 100}) {
    handover.sessions.push_back(Session());
    handover.sessions.back().state.identity.initiator_name =
        absl::StrCat("iqn.2001-04.com.example:", mebibytes);
    handover.sessions.back().state.unread = std::string(mebibytes << 20, 'x');
  }
  auto packed = PackHandover(std::move(handover));
  ASSERT_TRUE(packed.ok()) << packed.status();
  EXPECT_EQ(packed->sessions, 2u);
  EXPECT_THAT(packed->left_out, ElementsAre("iqn.2001-04.com.example:200"));
}

TEST_F(HandoverTest, WhatMakesNoSenseIsTold) {
  protocol::ServerHandover handover;
  handover.sessions.push_back(Session());
  handover.sessions[0].state.parameters.max_burst_length = 0;
  Inherited inherited = Give(*PackHandover(std::move(handover)));
  EXPECT_THAT(inherited.TakeRest().sessions, IsEmpty());
  EXPECT_THAT(log_, Contains(HasSubstr("makes no sense")));
}

TEST_F(HandoverTest, RubbishIsTold) {
  transport::ScopedFd file(memfd_create("rubbish", MFD_CLOEXEC));
  ASSERT_EQ(write(file.get(), "rubbish", 7), 7);
  const Inherited inherited({Socket().Release(), file.Release()}, Forget(),
                            Log());
  EXPECT_THAT(log_, Contains(HasSubstr("can't be used")));
}

TEST_F(HandoverTest, NothingIsNothing) {
  Inherited inherited({}, Forget(), Log());
  EXPECT_THAT(inherited.TakeRest().sessions, IsEmpty());
  EXPECT_EQ(forgotten_, 0);
  EXPECT_THAT(log_, IsEmpty());
}

}  // namespace
}  // namespace skiff::tools::skiffd
