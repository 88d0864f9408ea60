#include "testing/transport_conformance/conformance_pair.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "testing/transport_conformance/remote_host.h"

namespace skiff::testing {

using transport::Access;
using transport::CompletionStatus;
using transport::OperationKind;
using transport::PostResult;

namespace {

const char* NameOf(CompletionStatus status) {
  switch (status) {
    case CompletionStatus::kOk:
      return "kOk";
    case CompletionStatus::kFlushed:
      return "kFlushed";
    case CompletionStatus::kLocalError:
      return "kLocalError";
    case CompletionStatus::kRemoteAccess:
      return "kRemoteAccess";
    case CompletionStatus::kRemoteNotReady:
      return "kRemoteNotReady";
    case CompletionStatus::kTooLong:
      return "kTooLong";
    case CompletionStatus::kTransportError:
      return "kTransportError";
  }
  return "an unknown status";
}

ControlLink*& Peer() {
  static ControlLink* peer = nullptr;
  return peer;
}

}  // namespace

void SetPeer(ControlLink* link) { Peer() = link; }

std::string FactoryName(
    const ::testing::TestParamInfo<TransportFactory*>& info) {
  return info.param->name();
}

MemoryHandle EndHandle::Memory(size_t size, Access access,
                               size_t misalignment) const {
  BufferSpec spec;
  spec.size = size;
  spec.access = access;
  spec.misalignment = misalignment;
  auto made = host_->NewBuffer(number_, spec);
  EXPECT_TRUE(made.ok()) << "registering " << size
                         << " bytes: " << made.status();
  return {host_, made.ok() ? *made : -1, size};
}

MemoryHandle EndHandle::Unregistered(size_t size) const {
  BufferSpec spec;
  spec.size = size;
  spec.registered = false;
  return {host_, host_->NewBuffer(number_, spec).value(), size};
}

Posted EndHandle::PostAndFlush(const Operation& operation) {
  const Posted posted = Post(operation);
  Flush();
  return posted;
}

Posted EndHandle::Receive(const std::vector<Piece>& to) {
  Operation operation;
  operation.kind = OperationKind::kReceive;
  operation.pieces = to;
  return PostAndFlush(operation);
}

Posted EndHandle::Send(const std::vector<Piece>& from) {
  Operation operation;
  operation.kind = OperationKind::kSend;
  operation.pieces = from;
  return PostAndFlush(operation);
}

Posted EndHandle::SendWithInvalidate(const std::vector<Piece>& from,
                                     transport::RemoteKey key) {
  Operation operation;
  operation.kind = OperationKind::kSend;
  operation.pieces = from;
  operation.invalidate = true;
  operation.key = key;
  return PostAndFlush(operation);
}

Posted EndHandle::Read(const std::vector<Piece>& to,
                       transport::RemoteBuffer from) {
  Operation operation;
  operation.kind = OperationKind::kRead;
  operation.pieces = to;
  operation.remote = from;
  return PostAndFlush(operation);
}

Posted EndHandle::Write(const std::vector<Piece>& from,
                        transport::RemoteBuffer to) {
  Operation operation;
  operation.kind = OperationKind::kWrite;
  operation.pieces = from;
  operation.remote = to;
  return PostAndFlush(operation);
}

Posted EndHandle::Bind(int window, const MemoryHandle& memory, size_t offset,
                       size_t length, Access access) {
  Operation operation;
  operation.kind = OperationKind::kBind;
  operation.pieces = {memory.Part(offset, length)};
  operation.window = window;
  operation.access = access;
  return PostAndFlush(operation);
}

Posted EndHandle::Invalidate(transport::RemoteKey key) {
  Operation operation;
  operation.kind = OperationKind::kInvalidate;
  operation.key = key;
  return PostAndFlush(operation);
}

void EndHandle::Poll() {
  for (const Arrived& arrived : host_->Poll(number_)) {
    if (arrived.shared) {
      shared_arrived_.push_back(arrived);
    } else {
      arrived_.emplace(arrived.id, arrived);
    }
  }
}

void ConformancePair::SetUp() {
  scale_ = EffectiveScale(factory());
  expected_ = factory().expected();
  auto world = factory().MakeWorld();
  ASSERT_TRUE(world.ok()) << "the machine lacks what " << factory().name()
                          << " needs: " << world.status();
  world_ = *std::move(world);
  MakeHosts();
}

void ConformancePair::MakeHosts() {
  client_host_ =
      std::make_unique<LocalHost>(world_.get(), Side::kConnecting, scale_);
  if (Peer() == nullptr) {
    server_host_ =
        std::make_unique<LocalHost>(world_.get(), Side::kListening, scale_);
    return;
  }
  auto remote = RemoteHost::Begin(Peer(), factory().name());
  ASSERT_TRUE(remote.ok()) << "the listening host: " << remote.status();
  server_host_ = *std::move(remote);
}

void ConformancePair::TearDown() {
  FinishHosts();
  world_.reset();
}

void ConformancePair::RenewHosts() {
  FinishHosts();
  MakeHosts();
}

void ConformancePair::FinishHosts() {
  for (auto* host : {client_host_.get(), server_host_.get()}) {
    if (host == nullptr) continue;
    host->Finish();
  }
  for (auto* host : {client_host_.get(), server_host_.get()}) {
    if (host == nullptr) continue;
    for (const std::string& violation : host->Violations()) {
      ADD_FAILURE() << violation;
    }
  }
  client_host_.reset();
  server_host_.reset();
  listener_ = -1;
  accepted_ = 0;
  client_ = server_ = {};
}

void ConformancePair::Connect(const EndPlan& client, const EndPlan& server) {
  auto [made_client, made_server] = ConnectAnother(client, server);
  client_ = std::move(made_client);
  server_ = std::move(made_server);
}

std::pair<EndHandle, EndHandle> ConformancePair::ConnectAnother(
    const EndPlan& client, const EndPlan& server) {
  if (listener_ < 0) {
    ListenPlan plan;
    plan.accept = server;
    auto listener = server_host().Listen(plan);
    if (!listener.ok()) {
      ADD_FAILURE() << "cannot listen: " << listener.status();
      EndTest();
    }
    listener_ = *listener;
  }
  EndHandle near(
      &client_host(),
      client_host().Connect(server_host().ListenAddress(listener_), client));
  EndHandle far;
  const size_t index = accepted_++;
  const bool settled = Wait([&] {
    if (near.State().phase == EndPhase::kFailed) return true;
    const ListenerState listener = server_host().StateOfListener(listener_);
    if (listener.ends.size() <= index) return false;
    far = EndHandle(&server_host(), listener.ends[index]);
    return near.State().phase == EndPhase::kOpen &&
           far.State().phase != EndPhase::kConnecting;
  });
  EXPECT_TRUE(settled) << "no connection within " << scale().patience;
  EXPECT_EQ(near.State().phase, EndPhase::kOpen) << near.State().status;
  if (far.host() != nullptr) {
    EXPECT_EQ(far.State().phase, EndPhase::kOpen) << far.State().status;
  }
  if (near.State().phase != EndPhase::kOpen || far.host() == nullptr ||
      far.State().phase != EndPhase::kOpen) {
    EndTest();
  }
  near.LearnCapabilities();
  far.LearnCapabilities();
  return {near, far};
}

bool ConformancePair::Wait(absl::FunctionRef<bool()> done) {
  return world().RunUntil(done, scale().patience);
}

void ConformancePair::Quiet() {
  world().RunUntil(
      [this] {
        if (client_.host() != nullptr) client_.Poll();
        if (server_.host() != nullptr) server_.Poll();
        return false;
      },
      scale().quiet);
}

Arrived ConformancePair::Await(EndHandle& end, const Posted& posted,
                               const char* what) {
  if (posted.result != PostResult::kAccepted) {
    ADD_FAILURE() << what << ": the post was not accepted ("
                  << (posted.result == PostResult::kWouldBlock ? "kWouldBlock"
                                                               : "kClosed")
                  << "); the end's error: " << end.State().error;
    return {};
  }
  const bool came = Wait([&] {
    end.Poll();
    return end.Has(posted.id);
  });
  EXPECT_TRUE(came) << what << ": no completion within " << scale().patience
                    << "; every accepted post gets exactly one";
  return came ? end.arrived().at(posted.id) : Arrived();
}

Arrived ConformancePair::Succeed(EndHandle& end, const Posted& posted,
                                 const char* what) {
  const Arrived arrived = Await(end, posted, what);
  EXPECT_EQ(arrived.status, CompletionStatus::kOk)
      << what << ": completed with " << NameOf(arrived.status)
      << "; the end's error: " << end.State().error;
  return arrived;
}

void ConformancePair::Fence(EndHandle& end,
                            const transport::RemoteBuffer& remote) {
  // A WRITE completes when the peer's device has it, a READ behind it when it
  // is in memory (InfiniBand Architecture Specification 1.4, section 9.5).
  const MemoryHandle byte = end.Memory(1, SinkAccess());
  Succeed(end, end.Read({byte.All()}, remote), "READ behind a WRITE");
}

void ConformancePair::ExpectRefused(EndHandle& end, const Posted& posted,
                                    const char* what) {
  const Arrived arrived = Await(end, posted, what);
  if (expected().refusals_are_named) {
    EXPECT_EQ(arrived.status, CompletionStatus::kRemoteAccess)
        << what << ": the peer has to refuse it with kRemoteAccess, not with "
        << NameOf(arrived.status);
    EXPECT_EQ(arrived.scope, transport::DamageScope::kConnection) << what;
  } else if (arrived.kind == OperationKind::kRead) {
    EXPECT_NE(arrived.status, CompletionStatus::kOk) << what;
  }
  AwaitEnd(end);
}

void ConformancePair::AwaitEnd(EndHandle& end) {
  EXPECT_TRUE(Wait([&] {
    end.Poll();
    return !end.State().connected;
  })) << "the connection did not end within "
      << scale().patience;
  EXPECT_FALSE(end.State().error.ok())
      << "error() does not say why the connection ended";
}

void ConformancePair::PutEverythingInFlight(EndHandle& near, EndHandle& far) {
  constexpr Access kRemoteAll = Access::kRemoteRead | Access::kRemoteWrite;
  const size_t size = std::min<size_t>(scale().largest, 32 << 10);
  for (auto [from, to] : {std::pair(&near, &far), std::pair(&far, &near)}) {
    const MemoryHandle local = from->Memory(size, kRemoteAll);
    const MemoryHandle remote = to->Memory(size, kRemoteAll);
    for (int i = 0; i < 6; ++i) to->Receive({remote.All()});
    for (int i = 0; i < 4; ++i) {
      from->Write({local.All()}, remote.Remote());
      from->Send({local.All()});
      from->Read({local.All()}, remote.Remote());
    }
    // And something that was never flushed.
    Operation write;
    write.kind = OperationKind::kWrite;
    write.pieces = {local.All()};
    write.remote = remote.Remote();
    from->Post(write);
  }
}

void ConformancePair::AwaitAll(EndHandle& end) {
  EXPECT_TRUE(Wait([&] {
    end.Poll();
    return end.State().outstanding == 0;
  })) << end.State().outstanding
      << " accepted operations never completed";
}

void ConformancePair::ExpectBytes(const MemoryHandle& memory, size_t offset,
                                  size_t length, uint64_t seed, size_t skip) {
  const int64_t mismatch =
      memory.host->Mismatch(memory.id, offset, length, seed, skip);
  EXPECT_EQ(mismatch, -1) << "of " << length << " bytes at offset " << offset
                          << ", byte " << mismatch
                          << " is not what was transferred";
}

void ConformancePair::ExpectUntouched(const MemoryHandle& memory, size_t offset,
                                      size_t length) {
  const int64_t mismatch =
      memory.host->Mismatch(memory.id, offset, length, kUntouched, offset);
  EXPECT_EQ(mismatch, -1) << "byte " << offset + mismatch
                          << " was overwritten; nothing may touch bytes "
                          << offset << " to " << offset + length;
}

LocalHost* ConformancePair::ServerInThisProcess() {
  auto* local = dynamic_cast<LocalHost*>(&server_host());
  if (local == nullptr) NotSupported("this test by a pair of hosts");
  return local;
}

// GoogleTest takes the exception for that of a failure that it knows of.
void ConformancePair::EndTest() {
  throw ::testing::AssertionException(::testing::TestPartResult(
      ::testing::TestPartResult::kFatalFailure, __FILE__, __LINE__,
      "without a connection, the test ends"));
}

void ConformancePair::NotSupported(const std::string& what) {
  RecordProperty(kNotSupportedProperty, what);
}

}  // namespace skiff::testing
