#include "tools/skiff/base/endpoint.h"

#include <cstdlib>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/skiff/base/exit_code.h"

namespace skiff::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(EndpointTest, ParsesUrls) {
  const auto lun = ParseLun("iscsi://[::1]:3261/iqn.2026-11.com.example:a/7");
  ASSERT_TRUE(lun.ok()) << lun.status();
  EXPECT_EQ(lun->portal.ToString(), "tcp://[::1]:3261");
  EXPECT_EQ(lun->target, "iqn.2026-11.com.example:a");
  EXPECT_EQ(lun->lun, 7u);
  const auto portal = ParsePortal("localhost");
  ASSERT_TRUE(portal.ok()) << portal.status();
  EXPECT_EQ(portal->portal.ToString(), "tcp://localhost:3260");
  EXPECT_EQ(portal->target, "");
}

TEST(EndpointTest, TheSchemeChoosesTheTransport) {
  const std::pair<const char*, const char*> cases[] = {
      {"iscsi://h", "tcp://h:3260"},
      {"iscsi://h?send_buffer=65536", "tcp://h:3260?send_buffer=65536"},
      {"iser://h", "auto://h:3260?rdma=require"},
      {"iser://h?emulated=yes", "auto://h:3260?emulated=yes&rdma=require"},
      {"iser://h:1?transport=verbs", "verbs://h:1"},
      {"iser://h?transport=libfabric&provider=tcp",
       "libfabric://h:3260?provider=tcp"},
      {"auto://h", "auto://h:3260?rdma=prefer"},
  };
  for (const auto& [url, address] : cases) {
    const auto portal = ParsePortal(url);
    ASSERT_TRUE(portal.ok()) << portal.status();
    EXPECT_EQ(portal->portal.ToString(), address);
  }
  const std::pair<const char*, const char*> mistakes[] = {
      {"iscsi://h?transport=verbs", "only iser:// leaves a choice"},
      {"auto://h?transport=verbs", "only iser:// leaves a choice"},
      {"iser://h?transport=tcp", "transport=tcp is no RDMA transport"},
      {"iser://h?rdma=prefer", "contradicts the scheme"},
      {"auto://h?rdma=require", "contradicts the scheme"},
  };
  for (const auto& [url, problem] : mistakes) {
    const absl::Status status = ParsePortal(url).status();
    EXPECT_THAT(std::string(status.message()), HasSubstr(problem));
    EXPECT_EQ(ExitCodeOf(status), ExitCode::kUsage);
  }
}

TEST(EndpointTest, SaysWhatIsMissing) {
  const auto target = ParseTarget("iscsi://h");
  EXPECT_EQ(target.status().message(),
            "iscsi://h names no target; write iscsi://host[:port]/target-name");
  EXPECT_EQ(ExitCodeOf(target.status()), ExitCode::kUsage);
  EXPECT_THAT(
      std::string(
          ParseLun("iscsi://h/iqn.2026-11.com.example:a").status().message()),
      HasSubstr("names no logical unit; write "
                "iscsi://host[:port]/target-name/lun"));
  EXPECT_EQ(ExitCodeOf(ParsePortal("http://h").status()), ExitCode::kUsage);
}

TEST(EndpointTest, LinkLocalAddressesNeedAZone) {
  const absl::Status status = ParsePortal("[FE80::1]:3261").status();
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kUsage);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("by which interface it is reached, as in "
                        "[FE80::1%25eth0]"));
  for (const char* url : {"[fe80::1%25eth0]", "[fe80::1%eth0]"}) {
    const auto portal = ParsePortal(url);
    ASSERT_TRUE(portal.ok()) << portal.status();
    EXPECT_EQ(portal->portal.host, "fe80::1%eth0");
  }
  EXPECT_TRUE(ParsePortal("[fe70::1]").ok());
  EXPECT_TRUE(ParsePortal("[fec0::1]").ok());
  EXPECT_TRUE(ParsePortal("feed.example.com").ok());
}

TEST(EndpointTest, OffersNoCredentials) {
  const std::string message(ParseLun("http://h").status().message());
  EXPECT_THAT(message, HasSubstr("iscsi://host[:port]"));
  EXPECT_EQ(message.find("user"), std::string::npos);
}

TEST(EndpointTest, RefusesWhatWouldBeIgnored) {
  const std::string target = "iscsi://[::1]/iqn.2026-11.com.example:a";
  const auto portal = ParsePortal(target);
  EXPECT_EQ(portal.status().message(),
            target +
                " names a target, but this is about the whole portal; "
                "write [::1]:3260");
  EXPECT_EQ(ExitCodeOf(portal.status()), ExitCode::kUsage);
  EXPECT_TRUE(ParsePortalOrTarget(target).ok());
  EXPECT_TRUE(ParsePortalOrTarget("h:1").ok());
  for (auto* parse : {&ParsePortalOrTarget, &ParseTarget}) {
    const auto lun = parse(target + "/3");
    EXPECT_EQ(lun.status().message(),
              target +
                  "/3 names logical unit 3, but this is not about one; "
                  "leave it out");
    EXPECT_EQ(ExitCodeOf(lun.status()), ExitCode::kUsage);
  }
}

TEST(EndpointTest, TakesCredentials) {
  const auto url = ParseLun(
      "iscsi://me%my%20twelve%20bytes@h/iqn.2026-11.com.example:a/0"
      "?target_user=it&target_password=its%20twelve%20bytes");
  ASSERT_TRUE(url.ok()) << url.status();
  EXPECT_TRUE(url->portal.options.empty());
  const auto chap = ChapOf(*url);
  ASSERT_TRUE(chap.ok() && chap->has_value()) << chap.status();
  EXPECT_EQ((*chap)->self.name, "me");
  EXPECT_EQ((*chap)->self.secret.bytes(), "my twelve bytes");
  EXPECT_EQ((*chap)->target->name, "it");
  EXPECT_EQ((*chap)->target->secret.bytes(), "its twelve bytes");

  EXPECT_FALSE(
      ChapOf(*ParseLun("iscsi://h/iqn.2026-11.com.example:a/0"))->has_value());
  EXPECT_THAT(
      std::string(ChapOf(*ParsePortal("iscsi://me@h")).status().message()),
      HasSubstr("user me has no password"));
  const auto weak = ChapOf(*ParsePortal("iscsi://me%hidden@h")).status();
  EXPECT_THAT(std::string(weak.message()), HasSubstr("has 6 bytes"));
  EXPECT_EQ(std::string(weak.message()).find("hidden"), std::string::npos);
  EXPECT_THAT(
      std::string(ChapOf(*ParsePortal("iscsi://h?target_password=another one"))
                      .status()
                      .message()),
      HasSubstr("wants to know who asks"));

  EXPECT_TRUE(RefuseSecrets().ok());
  ASSERT_EQ(setenv("SKIFF_PASSWORD", "x", 1), 0);
  EXPECT_THAT(std::string(RefuseSecrets().message()),
              HasSubstr("SKIFF_PASSWORD"));
  ASSERT_EQ(unsetenv("SKIFF_PASSWORD"), 0);
}

TEST(EndpointTest, TakesChapAlgorithms) {
  const std::string user = "iscsi://me%my%20twelve%20bytes@h";
  const auto all = ChapOf(*ParsePortal(user));
  ASSERT_TRUE(all.ok() && all->has_value()) << all.status();
  EXPECT_EQ((*all)->algorithms.size(), protocol::AllChapAlgorithms().size());
  const auto url = ParsePortal(user + "?chap_algorithms=md5,SHA-256");
  ASSERT_TRUE(url.ok()) << url.status();
  EXPECT_TRUE(url->portal.options.empty());
  const auto chosen = ChapOf(*url);
  ASSERT_TRUE(chosen.ok() && chosen->has_value()) << chosen.status();
  EXPECT_THAT((*chosen)->algorithms,
              ElementsAre(protocol::ChapAlgorithm::kMd5,
                          protocol::ChapAlgorithm::kSha256));
  for (const auto& [list, problem] :
       {std::pair("MD4", "called 'MD4'"), std::pair("MD5,", "called ''"),
        std::pair("MD5,md5", "md5 is there twice")}) {
    const auto refused = ParsePortal(user + "?chap_algorithms=" + list);
    EXPECT_EQ(ExitCodeOf(refused.status()), ExitCode::kUsage) << list;
    EXPECT_THAT(std::string(refused.status().message()), HasSubstr(problem));
  }
}

TEST(EndpointTest, TellsUrlsFromPaths) {
  EXPECT_TRUE(IsUrl("iscsi://h/t/0"));
  EXPECT_FALSE(IsUrl("/dev/sda"));
  EXPECT_FALSE(IsUrl("-"));
}

}  // namespace
}  // namespace skiff::tools
