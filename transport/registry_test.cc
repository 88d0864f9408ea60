#include "transport/registry.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace skiff::transport {
namespace {

class NamedTransport : public Transport {
 public:
  explicit NamedTransport(std::string scheme) : scheme_(std::move(scheme)) {}
  absl::string_view scheme() const override { return scheme_; }
  Capabilities capabilities() const override { return {}; }
  std::vector<DeviceReport> Devices() const override { return {}; }
  absl::StatusOr<std::unique_ptr<Listener>> Listen(Reactor*, const Address&,
                                                   const ListenOptions&,
                                                   AcceptCallback) override {
    return absl::UnimplementedError("not here");
  }
  absl::StatusOr<std::unique_ptr<ConnectAttempt>> Connect(
      Reactor*, const Address&, const ConnectOptions&,
      ConnectCallback) override {
    return absl::UnimplementedError("not here");
  }

 private:
  std::string scheme_;
};

TEST(RegistryTest, FindsWhatWasAdded) {
  Registry registry;
  ASSERT_TRUE(registry.Add(std::make_unique<NamedTransport>("tcp")).ok());
  ASSERT_TRUE(registry.Add(std::make_unique<NamedTransport>("verbs")).ok());
  auto found = registry.Find("verbs");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ((*found)->scheme(), "verbs");
  ASSERT_EQ(registry.All().size(), 2u);
  EXPECT_EQ(registry.All()[0]->scheme(), "tcp");
}

TEST(RegistryTest, RefusesASchemeThatIsTaken) {
  Registry registry;
  ASSERT_TRUE(registry.Add(std::make_unique<NamedTransport>("tcp")).ok());
  absl::Status status = registry.Add(std::make_unique<NamedTransport>("tcp"));
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(registry.All().size(), 1u);
}

TEST(RegistryTest, UnknownSchemeListsWhatThereIs) {
  Registry registry;
  EXPECT_TRUE(absl::StrContains(registry.Find("tcp").status().message(),
                                "none is registered"));
  ASSERT_TRUE(registry.Add(std::make_unique<NamedTransport>("tcp")).ok());
  ASSERT_TRUE(registry.Add(std::make_unique<NamedTransport>("verbs")).ok());
  absl::Status status = registry.Find("quic").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(absl::StrContains(status.message(), "\"quic\"")) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "tcp, verbs")) << status;
}

}  // namespace
}  // namespace skiff::transport
