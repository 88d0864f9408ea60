// libfabric's verbs provider and a peer that uses rdma_cm directly, which is
// the verbs transport here. For a machine with RDMA devices; the parameter is
// the environment variable that has the address of one.

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "transport/libfabric/libfabric_test_util.h"
#include "transport/verbs/verbs_transport.h"

namespace skiff::transport {
namespace {

std::vector<uint8_t> Bytes(const std::string& text) {
  return {text.begin(), text.end()};
}

std::string Text(absl::Span<const uint8_t> bytes) {
  return {bytes.begin(), bytes.end()};
}

class RdmaCmPeerTest : public LibfabricTest {
 protected:
  void SetUp() override {
    ASSERT_NE(std::getenv(GetParam()), nullptr)
        << GetParam() << " is not set: no device has an address";
  }
  void TearDown() override {
    client_.reset();
    server_.reset();
    requests_.clear();
    listener_.reset();
  }

  Transport* TransportOf(bool verbs) {
    return verbs ? verbs_.get() : transport_.get();
  }
  static Address AddressOf(bool verbs, int port) {
    const std::string place =
        absl::StrCat("://", std::getenv(GetParam()), ":", port);
    return Address::Parse(
               verbs ? absl::StrCat("verbs", place)
                     : absl::StrCat("libfabric", place, "?provider=verbs"))
        .value();
  }

  // Connects the two transports, with this private data; request_ is what has
  // arrived of the connecting side's.
  void Meet(bool verbs_listens, const std::string& request,
            const std::string& answer) {
    auto listener = TransportOf(verbs_listens)
                        ->Listen(reactor_.get(), AddressOf(verbs_listens, 0),
                                 {}, [this](auto arrived) {
                                   requests_.push_back(std::move(arrived));
                                 });
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
    ConnectOptions connect;
    connect.private_data = Bytes(request);
    absl::StatusOr<EndpointPtr> client = absl::UnknownError("no outcome");
    const auto attempt =
        TransportOf(!verbs_listens)
            ->Connect(reactor_.get(),
                      AddressOf(!verbs_listens, listener_->address().port),
                      connect, [&client](absl::StatusOr<Endpoint> endpoint) {
                        if (endpoint.ok()) {
                          client = std::get<EndpointPtr>(*std::move(endpoint));
                        } else {
                          client = endpoint.status();
                        }
                      });
    ASSERT_TRUE(attempt.ok()) << attempt.status();
    ASSERT_TRUE(RunUntil([&] { return !requests_.empty(); }))
        << client.status();
    request_ = Text(requests_[0]->private_data());
    AcceptOptions accept;
    accept.private_data = Bytes(answer);
    absl::StatusOr<EndpointPtr> server;
    Accept(&server, accept);
    ASSERT_TRUE(
        RunUntil([&] { return Concluded(client) && Concluded(server); }));
    ASSERT_TRUE(client.ok()) << client.status();
    ASSERT_TRUE(server.ok()) << server.status();
    client_ = *std::move(client);
    server_ = *std::move(server);
  }

  // What rdma_cm delivers is padded with zeros, but on iWARP.
  static void ExpectPadded(const std::string& got, const std::string& want) {
    ASSERT_GE(got.size(), want.size());
    EXPECT_EQ(got.substr(0, want.size()), want);
    EXPECT_EQ(got.find_first_not_of('\0', want.size()), std::string::npos);
  }

  // A message, a WRITE and a READ from one end to the other.
  void ExpectData(RdmaEndpoint* from, RdmaEndpoint* to) {
    TestBuffer& near =
        Memory(from, 300, 'n', Access::kRemoteRead | Access::kRemoteWrite);
    TestBuffer& far =
        Memory(to, 300, 'f', Access::kRemoteRead | Access::kRemoteWrite);
    ASSERT_EQ(to->PostReceive(OperationId{1}, {far.Part(0, 100)}),
              PostResult::kAccepted);
    ASSERT_EQ(
        from->PostWrite(OperationId{2}, {near.Part(0, 100)}, far.Remote(100)),
        PostResult::kAccepted);
    ASSERT_EQ(from->PostSend(OperationId{3}, {near.Part(0, 100)}),
              PostResult::kAccepted);
    ASSERT_EQ(
        from->PostRead(OperationId{4}, {near.Part(200, 100)}, far.Remote(200)),
        PostResult::kAccepted);
    from->Flush();
    for (const uint32_t id : {2, 3, 4}) {
      const Completion completion = Next(from);
      EXPECT_EQ(completion.id.index, id);
      EXPECT_EQ(completion.status, CompletionStatus::kOk);
    }
    const Completion received = Next(to);
    EXPECT_EQ(received.status, CompletionStatus::kOk);
    EXPECT_EQ(received.bytes, 100u);
    EXPECT_EQ(far.text(), std::string(200, 'n') + std::string(100, 'f'));
    EXPECT_EQ(near.text(), std::string(200, 'n') + std::string(100, 'f'));
  }

  std::unique_ptr<Transport> verbs_ = MakeVerbsTransport();
  std::string request_;
};

INSTANTIATE_TEST_SUITE_P(Devices, RdmaCmPeerTest,
                         ::testing::Values("SKIFF_VM_ROCE_ADDRESS",
                                           "SKIFF_VM_IWARP_ADDRESS"),
                         ProviderName);

TEST_P(RdmaCmPeerTest, APeerThatListensGetsALengthFirst) {
  ASSERT_NO_FATAL_FAILURE(Meet(/*verbs_listens=*/true, "hello", "\2okay"));
  ExpectPadded(request_, "\5hello");
  EXPECT_EQ(Text(client_->peer_private_data()), "ok")
      << "the first byte of the answer is taken for its length";
  ExpectData(client_.get(), server_.get());
  ExpectData(server_.get(), client_.get());
}

TEST_P(RdmaCmPeerTest, APeerThatConnectsHasToSendALength) {
  ASSERT_NO_FATAL_FAILURE(Meet(/*verbs_listens=*/false, "\3abcde", "yes"));
  EXPECT_EQ(request_, "abc");
  ExpectPadded(Text(client_->peer_private_data()), "\3yes");
  ExpectData(client_.get(), server_.get());
  ExpectData(server_.get(), client_.get());
}

TEST_P(RdmaCmPeerTest, APeerWithoutPrivateData) {
  ASSERT_NO_FATAL_FAILURE(Meet(/*verbs_listens=*/false, "", ""));
  EXPECT_EQ(request_, "");
  ExpectPadded(Text(client_->peer_private_data()), "");
}

TEST_P(RdmaCmPeerTest, APeerThatRejects) {
  auto listener = verbs_->Listen(
      reactor_.get(), AddressOf(/*verbs=*/true, 0), {}, [](auto arrived) {
        const std::vector<uint8_t> why = Bytes("come back tomorrow");
        arrived->Reject(why);
      });
  ASSERT_TRUE(listener.ok()) << listener.status();
  absl::Status status;
  const auto attempt = transport_->Connect(
      reactor_.get(), AddressOf(/*verbs=*/false, (*listener)->address().port),
      {}, [&status](const absl::StatusOr<Endpoint>& endpoint) {
        status = endpoint.status();
      });
  ASSERT_TRUE(attempt.ok()) << attempt.status();
  ASSERT_TRUE(RunUntil([&] { return !status.ok(); }));
  const auto why = status.GetPayload(kRejectPrivateData);
  ASSERT_TRUE(why.has_value()) << status;
  ExpectPadded(std::string(*why), "come back tomorrow");
}

// The provider copies as many bytes as the first one says.
TEST_P(RdmaCmPeerTest, WhatCannotBeALengthIsTheFirstByte) {
  for (const char first : {'\x38', '\x80', '\xff'}) {
    const std::string sent = {first, 'a', 'b'};
    const std::string zeros(static_cast<uint8_t>(first) - 2, '\0');
    ASSERT_NO_FATAL_FAILURE(Meet(/*verbs_listens=*/false, sent, ""));
    EXPECT_EQ(request_, sent + zeros);
    TearDown();
    ASSERT_NO_FATAL_FAILURE(Meet(/*verbs_listens=*/true, "", sent));
    EXPECT_EQ(Text(client_->peer_private_data()), sent + zeros);
    TearDown();
  }
}

TEST_P(RdmaCmPeerTest, ALengthThatIsTooLongBringsZeros) {
  const std::string sent = "\x37zyx";
  const std::string got = "zyx" + std::string(52, '\0');
  ASSERT_NO_FATAL_FAILURE(Meet(/*verbs_listens=*/false, sent, ""));
  EXPECT_EQ(request_, got);
  TearDown();
  ASSERT_NO_FATAL_FAILURE(Meet(/*verbs_listens=*/true, "", sent));
  EXPECT_EQ(Text(client_->peer_private_data()), got);
}

}  // namespace
}  // namespace skiff::transport
