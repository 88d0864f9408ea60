// The registered buffers that a target sends from and receives into: how much
// of a message they hold, and what happens when there are not enough of them.

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "protocol/datamover/iser/iser_datamover.h"
#include "protocol/datamover/iser/iser_memory.h"
#include "testing/stack/iser_raw_initiator_test_util.h"

namespace skiff::protocol {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

constexpr int kTargets = 300;
// Of a connection that has not logged in.
constexpr uint64_t kBuffersInLogin = 4;

std::string NameOf(int target) {
  return absl::StrCat("iqn.2001-04.com.example:one-of-many-", target);
}

testing::SimRdmaOptions FabricOf(bool iwarp) {
  return iwarp ? testing::SimRdmaOptions::Iwarp()
               : testing::SimRdmaOptions::InfiniBand();
}

// An initiator that is the test, message by message; there may be several.
struct RawSession {
  explicit RawSession(testing::SimWorld* world) : peer(world) {}
  RawIserPeer peer;
  uint32_t cmd_sn = 1;
  uint32_t tag = 1;
};

class MessageBuffersTest : public RawInitiatorTest {
 protected:
  explicit MessageBuffersTest(const TargetServerOptions& server)
      : RawInitiatorTest(FabricOf(GetParam()), server, MakeRamTarget()) {
    for (int i = 0; i < kTargets; ++i) {
      EXPECT_TRUE(
          stack_.server->AddTarget(scsi::Target::Create(NameOf(i))).ok());
    }
  }

  // Of the initiator port that `port` names. What the target says of it.
  LoginStatus LogInAs(uint8_t port, const std::string& keys,
                      RawSession* session) {
    Connect(session);
    SendLogin(port, keys, session);
    return LoginAnswer(session);
  }
  void Connect(RawSession* session) {
    session->peer.Connect(*stack_.registry.Find("sim"),
                          stack_.world.AddReactor("client"), stack_.portal);
  }
  static void SendLogin(uint8_t port, const std::string& keys,
                        RawSession* session) {
    LoginRequestPdu login;
    login.transit = true;
    login.csg = LoginStage::kOperational;
    login.nsg = LoginStage::kFullFeature;
    login.isid = {0x80, 7, 7, 7, 7, port};
    login.initiator_task_tag = session->tag++;
    login.cmd_sn = session->cmd_sn;
    const std::string text = absl::StrCat(
        "InitiatorName=iqn.2001-04.com.example:raw|RDMAExtensions=Yes|"
        "InitiatorRecvDataSegmentLength=262144|",
        keys);
    session->peer.Send(ToIser(
        login, absl::StrReplaceAll(text, {{"|", absl::string_view("\0", 1)}})));
  }
  LoginStatus LoginAnswer(RawSession* session) {
    const std::optional<std::string> answer = session->peer.Next();
    LoginResponsePdu response;
    if (!answer.has_value() ||
        !Decode(RawIserPeer::BhsOf(*answer), &response).ok()) {
      ADD_FAILURE() << "no Login Response\n" << absl::StrJoin(log_, "\n");
      return LoginStatus::kTargetError;
    }
    EXPECT_EQ(response.transit, response.status_class == 0);
    return static_cast<LoginStatus>(response.status_class << 8 |
                                    response.status_detail);
  }
  LoginStatus Discover(RawSession* session) {
    return LogInAs(1, "SessionType=Discovery|", session);
  }
  // One that takes long answers.
  LoginStatus LogInAs(uint8_t port, RawSession* session) {
    return LogInAs(port, NormalKeys(), session);
  }
  static std::string NormalKeys() {
    return absl::StrCat("TargetName=", kTargetName,
                        "|MaxOutstandingUnexpectedPDUs=0|");
  }

  // The whole answer to one question, in lines.
  static std::string SendTargets(RawSession* session) {
    TextRequestPdu request;
    request.final = true;
    request.initiator_task_tag = session->tag++;
    request.target_transfer_tag = kReservedTag;
    request.cmd_sn = session->cmd_sn++;
    std::string message =
        ToIser(request, absl::string_view("SendTargets=All\0", 16));
    std::string answer;
    for (bool final = false; !final;) {
      session->peer.Send(message);
      const std::optional<std::string> next = session->peer.Next();
      if (!next.has_value()) break;
      TextResponsePdu response;
      EXPECT_TRUE(Decode(RawIserPeer::BhsOf(*next), &response).ok());
      const std::string piece = next->substr(kIserControlSize);
      EXPECT_LE(piece.size(), kMaxIserDataSegment);
      answer += piece;
      final = response.final;
      request.target_transfer_tag = response.target_transfer_tag;
      request.cmd_sn = session->cmd_sn++;
      message = ToIser(request);
    }
    return absl::StrReplaceAll(answer, {{absl::string_view("\0", 1), "\n"}});
  }
  static void ExpectAllTargets(const std::string& answer) {
    for (int i = 0; i < kTargets; ++i) {
      const std::string line = absl::StrCat("TargetName=", NameOf(i), "\n");
      ASSERT_THAT(answer, HasSubstr(line));
    }
  }

  static std::string EchoOf(uint32_t tag) {
    return std::string(8000, static_cast<char>('A' + tag % 26));
  }
  static void SendEcho(RawSession* session) {
    NopOutPdu nop;
    nop.initiator_task_tag = session->tag++;
    nop.cmd_sn = session->cmd_sn++;
    session->peer.Send(ToIser(nop, EchoOf(nop.initiator_task_tag)));
  }
  void ExpectEcho(RawSession* session, uint32_t tag) {
    const std::optional<std::string> answer = session->peer.Next();
    ASSERT_TRUE(answer.has_value()) << absl::StrJoin(log_, "\n");
    NopInPdu nop;
    ASSERT_TRUE(Decode(RawIserPeer::BhsOf(*answer), &nop).ok());
    EXPECT_EQ(nop.initiator_task_tag, tag);
    EXPECT_EQ(answer->substr(kIserControlSize), EchoOf(tag));
  }
};

auto FabricName() {
  return [](const auto& info) { return info.param ? "Iwarp" : "InfiniBand"; };
}

// A target that sends as much in a message as the initiator has room for.
class LongAnswersTest : public MessageBuffersTest {
 protected:
  LongAnswersTest() : MessageBuffersTest(Server()) {}
  static TargetServerOptions Server() {
    TargetServerOptions server;
    server.offer.iser.initiator_recv_data_segment_length = 262144;
    return server;
  }
};

INSTANTIATE_TEST_SUITE_P(Fabrics, LongAnswersTest, ::testing::Bool(),
                         FabricName());

// 262144 bytes were agreed on, as with Linux's initiator at a target that
// offers them. A buffer holds less.
TEST_P(LongAnswersTest, AreSplitByWhatABufferHolds) {
  RawSession session(&stack_.world);
  ASSERT_EQ(Discover(&session), LoginStatus::kSuccess);
  const std::string answer = SendTargets(&session);
  EXPECT_GT(answer.size(), 2 * kMaxIserDataSegment);
  ExpectAllTargets(answer);
  ExpectServes();
}

// A target with buffers for three sessions. The fixture has one, and a
// connection that does not log in; one more may try to.
class FewBuffersTest : public MessageBuffersTest {
 protected:
  FewBuffersTest() : MessageBuffersTest(Server()) {}
  static TargetServerOptions Server() {
    TargetServerOptions server;
    server.rdma.message_memory = 3 * IserMemoryOfSession(server) +
                                 2 * kBuffersInLogin * IserMemory::kPairBytes;
    return server;
  }
};

INSTANTIATE_TEST_SUITE_P(Fabrics, FewBuffersTest, ::testing::Bool(),
                         FabricName());

TEST_P(FewBuffersTest, TheSessionBeyondThemIsRefused) {
  RawSession discovery(&stack_.world);
  RawSession session(&stack_.world);
  ASSERT_EQ(Discover(&discovery), LoginStatus::kSuccess);
  ASSERT_EQ(LogInAs(2, &session), LoginStatus::kSuccess);
  {
    RawSession beyond(&stack_.world);
    EXPECT_EQ(LogInAs(3, &beyond), LoginStatus::kOutOfResources);
    EXPECT_TRUE(beyond.peer.Closed());
  }
  EXPECT_THAT(log_, Contains(HasSubstr(
                        "login failed: a connection needs 184 buffers for "
                        "messages, and of 560 there are 4 left: raise "
                        "message_memory")));

  // What the others send is theirs.
  SendEcho(&session);
  ASSERT_NO_FATAL_FAILURE(ExpectEcho(&session, session.tag - 1));
  ExpectAllTargets(SendTargets(&discovery));
  ExpectServes();

  LogoutRequestPdu logout;
  logout.initiator_task_tag = session.tag++;
  logout.cmd_sn = session.cmd_sn++;
  session.peer.Send(ToIser(logout));
  EXPECT_TRUE(session.peer.Next().has_value());
  EXPECT_TRUE(session.peer.Closed());
  RawSession next(&stack_.world);
  EXPECT_EQ(LogInAs(3, &next), LoginStatus::kSuccess);
  ExpectServes();
}

// Many answers at once, more than there are buffers to send from.
TEST_P(FewBuffersTest, LongAnswersWaitForBuffersOfTheirSession) {
  constexpr uint32_t kEchoes = 60;
  RawSession sessions[] = {RawSession(&stack_.world),
                           RawSession(&stack_.world)};
  uint32_t first = 0;
  for (uint8_t i = 0; i < 2; ++i) {
    ASSERT_EQ(LogInAs(i + 2, &sessions[i]), LoginStatus::kSuccess);
    first = sessions[i].tag;
  }
  for (uint32_t i = 0; i < kEchoes; ++i) {
    for (RawSession& session : sessions) SendEcho(&session);
  }
  for (uint32_t i = 0; i < kEchoes; ++i) {
    for (RawSession& session : sessions) {
      ASSERT_NO_FATAL_FAILURE(ExpectEcho(&session, first + i));
    }
  }
  ExpectServes();
}

// Buffers come back together with requests whose answers would take them: those
// that wait come first, or nothing would ever leave.
TEST_P(FewBuffersTest, NewAnswersDoNotTakeTheBuffersOfThoseThatWait) {
  constexpr uint32_t kEchoes = 20;
  RawSession session(&stack_.world);
  ASSERT_EQ(LogInAs(2, &session), LoginStatus::kSuccess);
  const uint32_t first = session.tag;
  // Each time, the target finds in one turn all that has come.
  auto* const reactor =
      static_cast<testing::SimReactor*>(stack_.server_reactors[0]);
  for (uint32_t wave = 0; wave < 2; ++wave) {
    reactor->StallUntil(stack_.world.now() + absl::Milliseconds(10));
    stack_.world.RunFor(absl::Milliseconds(5));
    for (uint32_t i = 0; i < kEchoes; ++i) SendEcho(&session);
    ASSERT_NO_FATAL_FAILURE(ExpectEcho(&session, first + wave));
  }
  for (uint32_t i = 2; i < 2 * kEchoes; ++i) {
    ASSERT_NO_FATAL_FAILURE(ExpectEcho(&session, first + i));
  }
  ExpectServes();
}

// The place of the older session is there when it has ended.
TEST_P(FewBuffersTest, ASessionTakesThePlaceOfTheOneItReinstates) {
  RawSession discovery(&stack_.world);
  RawSession older(&stack_.world);
  RawSession newer(&stack_.world);
  ASSERT_EQ(Discover(&discovery), LoginStatus::kSuccess);
  ASSERT_EQ(LogInAs(2, &older), LoginStatus::kSuccess);
  EXPECT_EQ(LogInAs(2, &newer), LoginStatus::kSuccess);
  EXPECT_TRUE(older.peer.Closed());
  SendEcho(&newer);
  ASSERT_NO_FATAL_FAILURE(ExpectEcho(&newer, newer.tag - 1));
  ExpectServes();
}

// So it is where that one has not begun.
TEST_P(FewBuffersTest, ALoginTakesThePlaceOfOneThatWaitsForIt) {
  // There is room for another session, but for what these have.
  RawSession idle[] = {RawSession(&stack_.world), RawSession(&stack_.world)};
  for (RawSession& session : idle) Connect(&session);
  RawSession older(&stack_.world);
  RawSession waits(&stack_.world);
  RawSession newest(&stack_.world);
  ASSERT_EQ(LogInAs(2, &older), LoginStatus::kSuccess);
  Connect(&waits);
  Connect(&newest);
  // The target finds both in one turn.
  auto* const reactor =
      static_cast<testing::SimReactor*>(stack_.server_reactors[0]);
  reactor->StallUntil(stack_.world.now() + absl::Milliseconds(10));
  SendLogin(2, NormalKeys(), &waits);
  stack_.world.RunFor(absl::Milliseconds(5));
  SendLogin(2, NormalKeys(), &newest);
  EXPECT_EQ(LoginAnswer(&newest), LoginStatus::kSuccess);
  EXPECT_TRUE(older.peer.Closed());
  EXPECT_TRUE(waits.peer.Closed());
  ExpectServes();
}

// A session over a byte stream has no place that another could take.
TEST_P(FewBuffersTest, AReinstatementThatFailsKeepsTheOlderSession) {
  InitiatorOptions options = stack_.Options();
  options.portal =
      transport::Address::Parse(stack_.Listen(stack_.StreamAddress())).value();
  options.initiator_name = "iqn.2001-04.com.example:raw";
  options.isid = {0x80, 7, 7, 7, 7, 4};
  std::optional<absl::Status> ready;
  const auto older =
      Initiator::Create(
          &stack_.registry, stack_.client_reactor, options,
          [&ready](const absl::Status& status) { ready = status; })
          .value();
  ASSERT_TRUE(stack_.RunUntil([&ready] { return ready.has_value(); }));
  ASSERT_TRUE(ready->ok()) << *ready;
  RawSession sessions[] = {RawSession(&stack_.world),
                           RawSession(&stack_.world)};
  for (uint8_t i = 0; i < 2; ++i) {
    ASSERT_EQ(LogInAs(i + 2, &sessions[i]), LoginStatus::kSuccess);
  }
  {
    RawSession newer(&stack_.world);
    EXPECT_EQ(LogInAs(4, &newer), LoginStatus::kOutOfResources);
    EXPECT_TRUE(newer.peer.Closed());
  }
  const absl::Status served =
      stack_.Await([&older](auto done) { older->Ping(std::move(done)); });
  EXPECT_TRUE(served.ok()) << served;
  EXPECT_EQ(older->stats().reconnects, 0u);
  ExpectServes();

  // What the refused one had taken is there again.
  LogoutRequestPdu logout;
  logout.initiator_task_tag = sessions[0].tag++;
  logout.cmd_sn = sessions[0].cmd_sn++;
  sessions[0].peer.Send(ToIser(logout));
  EXPECT_TRUE(sessions[0].peer.Closed());
  RawSession newer(&stack_.world);
  EXPECT_EQ(LogInAs(4, &newer), LoginStatus::kSuccess);
  EXPECT_THAT(log_, Contains(HasSubstr("reinstated by a new login")));
}

// There is no room for a login, even.
TEST(NoBuffersTest, TheConnectionIsRefused) {
  std::vector<std::string> log;  // Outlives the server.
  SimStack stack(1, 1, testing::SimRdmaOptions::Iwarp());
  stack.StopServer();
  stack.server_options.rdma.message_memory =
      IserMemoryOfSession(stack.server_options);
  stack.server_options.log = [&log](LogLevel, absl::string_view line) {
    log.emplace_back(line);
  };
  stack.StartServer();
  stack.LogIn();
  InitiatorOptions options = stack.Options();
  options.isid = {0x80, 1, 2, 3, 0, 2};
  std::optional<absl::Status> ready;
  const auto second =
      Initiator::Create(
          &stack.registry, stack.client_reactor, options,
          [&ready](const absl::Status& status) { ready = status; })
          .value();
  EXPECT_TRUE(stack.RunUntil([&ready] { return ready.has_value(); }));
  EXPECT_FALSE(ready->ok());
  EXPECT_THAT(log, Contains(HasSubstr("raise message_memory")));
  EXPECT_TRUE(stack
                  .Await([&stack](auto done) {
                    stack.initiator->Ping(std::move(done));
                  })
                  .ok());
}

TEST(NoBuffersTest, AServerWantsRoomForOneSession) {
  SimStack stack(1, 1, testing::SimRdmaOptions::Iwarp());
  TargetServerOptions options;
  options.rdma.message_memory = IserMemoryOfSession(options) - 1;
  const absl::Status status =
      TargetServer::Create(&stack.registry, stack.server_reactors, options)
          .status();
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("message_memory is 1672191 bytes; a session of queue "
                        "depth 128 needs 1672192"));
}

TEST(NoBuffersTest, AServerTakesNoMoreFunctionsThanItCanCount) {
  SimStack stack(1, 1, testing::SimRdmaOptions::Iwarp());
  TargetServerOptions options;
  options.limits.session.max_task_management = UINT32_MAX;
  const absl::Status status =
      TargetServer::Create(&stack.registry, stack.server_reactors, options)
          .status();
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("max_task_management is 4294967295; it can be 32768 "
                        "at most"));
}

// What a datamover tells a session that does not care.
class DeafClient final : public TargetDatamoverClient {
 public:
  void ControlNotify(const ControlPdu&) override {}
  TaskSlot CommandNotify(const ControlPdu&, CommandLengths*) override {
    return kNoTask;
  }
  void TaskReady(TaskSlot) override {}
  void TaskNotReady(TaskSlot) override {}
  TaskSlot FindTask(uint32_t) override { return kNoTask; }
  void CurrentWindow(uint32_t* exp_cmd_sn, uint32_t* max_cmd_sn) override {
    *exp_cmd_sn = *max_cmd_sn = 1;
  }
  uint32_t CurrentStatSn() override { return 1; }
  void DataCompletionNotify(TaskSlot, DataOperation, DataOutcome) override {}
  void TaskDone(TaskSlot) override {}
  void RejectNotify(RejectPdu::Reason, const uint8_t*, const char*,
                    AfterReject) override {}
  void TaskDataError(TaskSlot, const DataFault&) override {}
  void TaskRefused(TaskSlot) override {}
  void TaskMemoryError(TaskSlot, const absl::Status&) override {}
  void ConnectionTerminateNotify(const absl::Status& why) override {
    ended = why;
  }
  absl::Status ended;
};

// Whoever made it: it is not copied past the end of a buffer.
TEST(TooLongTest, AMessageThatFitsNoBufferEndsItsConnection) {
  SimStack stack(1, 1, testing::SimRdmaOptions::Iwarp());
  transport::Transport* const transport = *stack.registry.Find("sim");
  transport::Reactor* const reactor = stack.world.AddReactor("other");
  DeafClient client;
  std::unique_ptr<IserMemory> memory;
  std::unique_ptr<IserDatamoverOf<TargetDatamover>> mover;
  const std::string portal = "sim://other:3260?kind=rdma";
  transport::AcceptOptions accept;
  accept.prepare = [&](transport::RdmaEndpoint& endpoint) {
    memory = IserMemory::Create(endpoint.domain(), {}).value();
    mover = MakeTargetIserDatamover(memory.get(), {});
    mover->SetClient(&client, 1);
    return mover->Prepare(&endpoint);
  };
  const auto listener = transport->Listen(
      reactor, transport::Address::Parse(portal).value(), {},
      [&](std::unique_ptr<transport::ConnectionRequest> request) {
        request->Accept(
            reactor, accept, [&](absl::StatusOr<transport::Endpoint> endpoint) {
              mover->Connected(
                  std::get<std::unique_ptr<transport::RdmaEndpoint>>(
                      *std::move(endpoint)));
            });
      });
  ASSERT_TRUE(listener.ok()) << listener.status();
  RawIserPeer peer(&stack.world);
  ASSERT_NO_FATAL_FAILURE(
      peer.Connect(transport, stack.world.AddReactor("client"), portal));
  ASSERT_TRUE(stack.RunUntil([&] { return mover->endpoint() != nullptr; }));

  const std::vector<uint8_t> bhs(kBhsSize);
  const std::vector<uint8_t> data(kIserMessageBytes - kIserControlSize + 1);
  mover->SendControl(bhs.data(), absl::MakeSpan(data).first(data.size() - 1));
  EXPECT_TRUE(client.ended.ok());
  mover->SendControl(bhs.data(), data);
  EXPECT_EQ(client.ended.message(), "a message of 8577 bytes fits no buffer");
  mover.reset();
}

}  // namespace
}  // namespace skiff::protocol
