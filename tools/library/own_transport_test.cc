#include "tools/library/own_transport.h"

#include <skiff/skiff.h>

#include <cerrno>
#include <memory>
#include <skiff/skiff.hpp>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/library/cpp_test_util.h"
#include "transport/tcp/tcp_transport.h"

namespace skiff::library {
namespace {

using ::testing::HasSubstr;
using transport::Address;
using transport::Transport;

// TCP, by another scheme.
class NamedTransport : public Transport {
 public:
  explicit NamedTransport(absl::string_view scheme, bool rdma = false)
      : scheme_(scheme), rdma_(rdma) {}

  absl::string_view scheme() const override { return scheme_; }
  transport::Capabilities capabilities() const override {
    transport::Capabilities capabilities;
    capabilities.rdma = rdma_;
    return capabilities;
  }
  std::vector<transport::DeviceReport> Devices() const override { return {}; }
  absl::StatusOr<std::unique_ptr<transport::Listener>> Listen(
      transport::Reactor* reactor, const Address& address,
      const transport::ListenOptions& options,
      transport::AcceptCallback on_request) override {
    return tcp_->Listen(reactor, AsTcp(address), options,
                        std::move(on_request));
  }
  absl::StatusOr<std::unique_ptr<transport::ConnectAttempt>> Connect(
      transport::Reactor* reactor, const Address& address,
      const transport::ConnectOptions& options,
      transport::ConnectCallback done) override {
    return tcp_->Connect(reactor, AsTcp(address), options, std::move(done));
  }

 private:
  static Address AsTcp(Address address) {
    address.scheme = "tcp";
    return address;
  }

  const std::unique_ptr<Transport> tcp_ = transport::MakeTcpTransport();
  const std::string scheme_;
  const bool rdma_;
};

std::unique_ptr<Transport> MakePigeon() {
  return std::make_unique<NamedTransport>("pigeon");
}
std::unique_ptr<Transport> MakeOwl() {
  return std::make_unique<NamedTransport>("owl", /*rdma=*/true);
}
std::unique_ptr<Transport> MakeTcpAgain() {
  return std::make_unique<NamedTransport>("tcp");
}
std::unique_ptr<Transport> MakeNothing() { return nullptr; }

int Create(const skiff_own_transport* transports, size_t count) {
  skiff_context_options options;
  SKIFF_INIT(options);
  options.transports = transports;
  options.transport_count = count;
  skiff_context* context = nullptr;
  const int result = skiff_context_create(&options, &context);
  if (context != nullptr) {
    EXPECT_EQ(skiff_context_close(context), 0);
  }
  return result;
}

TEST(OwnTransportTest, CarriesADisk) {
  const skiff_own_transport own[] = {OwnTransport<MakePigeon>(),
                                     OwnTransport<MakeOwl>()};
  ContextOptions options;
  options.threads = 2;
  options.transports = own;
  options.transport_count = 2;
  Context context = Context::Create(options).value();
  CppServer server(
      context,
      RamBackend::Create(context, RamOptions(CppServer::kSize)).value());
  ASSERT_TRUE(server.server.Listen("pigeon://127.0.0.1:0").ok());
  Disk disk =
      Disk::Open(context, (server.Url() + "?transport=pigeon").c_str()).value();
  const std::string out(4096, 'p');
  std::string in(out.size(), ' ');
  ASSERT_TRUE(disk.Write(0, out).ok());
  ASSERT_TRUE(disk.Read(0, in).ok());
  EXPECT_EQ(in, out);
  for (const auto& [url, error, words] :
       {std::tuple("iscsi://h/iqn.2026-11.org.example:a/0?transport=owl",
                   EINVAL, "is no transport of byte streams"),
        std::tuple("iser://h/iqn.2026-11.org.example:a/0?transport=pigeon",
                   EINVAL, "is no transport of RDMA"),
        std::tuple("iser://h/iqn.2026-11.org.example:a/0?transport=auto",
                   EINVAL, "is no transport of RDMA"),
        std::tuple("auto://h/iqn.2026-11.org.example:a/0?transport=owl", EINVAL,
                   "leaves a choice"),
        std::tuple("iscsi://h/iqn.2026-11.org.example:a/0?transport=raven",
                   EPROTONOSUPPORT, "pigeon")}) {
    const auto refused = Disk::Open(context, url);
    EXPECT_EQ(refused.status().error(), error) << url;
    EXPECT_THAT(refused.status().message(), HasSubstr(words));
  }
}

TEST(OwnTransportTest, RefusesWhatCannotWork) {
  skiff_own_transport own = OwnTransport<MakePigeon>();
  EXPECT_EQ(Create(&own, 1), 0);
  EXPECT_EQ(Create(nullptr, 1), -EINVAL);
  EXPECT_THAT(skiff_last_error(), HasSubstr("transports is NULL"));
  EXPECT_EQ(Create(&own, 65), -EINVAL);
  EXPECT_THAT(skiff_last_error(), HasSubstr("at most 64"));
  own.interface = "Skiff 0.9, absl::other";
  EXPECT_EQ(Create(&own, 1), -EINVAL);
  EXPECT_THAT(skiff_last_error(), HasSubstr("compiled with Skiff 0.9"));
  own.interface = nullptr;
  EXPECT_EQ(Create(&own, 1), -EINVAL);
  EXPECT_THAT(skiff_last_error(), HasSubstr("no interface"));
  own = {};
  EXPECT_EQ(Create(&own, 1), -EINVAL);
  own = OwnTransport<MakeNothing>();
  EXPECT_EQ(Create(&own, 1), -EINVAL);
  EXPECT_THAT(skiff_last_error(), HasSubstr("returned NULL"));
  own = OwnTransport<MakeTcpAgain>();
  EXPECT_LT(Create(&own, 1), 0);
  EXPECT_THAT(skiff_last_error(), HasSubstr("tcp"));
  const skiff_own_transport twice[] = {OwnTransport<MakePigeon>(),
                                       OwnTransport<MakePigeon>()};
  EXPECT_LT(Create(twice, 2), 0);
  EXPECT_THAT(skiff_last_error(), HasSubstr("pigeon"));
}

}  // namespace
}  // namespace skiff::library
