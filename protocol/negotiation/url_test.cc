#include "protocol/negotiation/url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "protocol/negotiation/portal.h"

namespace skiff::protocol {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kTarget[] = "iqn.2001-04.com.example:disk";

Url Parsed(absl::string_view text) {
  const absl::StatusOr<Url> url = ParseUrl(text);
  EXPECT_TRUE(url.ok()) << url.status();
  return url.value_or(Url());
}

TEST(PortalTest, Forms) {
  EXPECT_EQ(*ParsePortal("host"), (Portal{"host", 3260}));
  EXPECT_EQ(*ParsePortal("a-b_c.example.com:1"),
            (Portal{"a-b_c.example.com", 1}));
  EXPECT_EQ(*ParsePortal("10.0.0.1:65535"), (Portal{"10.0.0.1", 65535}));
  EXPECT_EQ(*ParsePortal("[::1]"), (Portal{"::1", 3260}));
  EXPECT_EQ(*ParsePortal("[fe80::1%eth0]:5003"),
            (Portal{"fe80::1%eth0", 5003}));
  for (const char* text : {"host:3260", "[1080::8:800:200C:417A]:5003"}) {
    EXPECT_EQ(FormatPortal(*ParsePortal(text)), text);
  }
}

TEST(PortalTest, Errors) {
  const std::pair<std::string, const char*> cases[] = {
      {"", "no host"},
      {":3260", "no host"},
      {"host:", "a port from 1"},
      {"host:0", "a port from 1"},
      {"host:65536", "a port from 1"},
      {"host:http", "a port from 1"},
      {"host: 1", "a port from 1"},
      {"::1", "comes in brackets"},
      {"fe80::1:3260", "comes in brackets"},
      {"[::1", "not closed"},
      {"[::1]3260", "a port from 1"},
      {"[]", "an IPv6 address"},
      {"[host]", "an IPv6 address"},
      {"ho st", "letters, digits"},
      {"host,1", "letters, digits"},
      {std::string(256, 'a'), "too long"},
  };
  for (const auto& [text, error] : cases) {
    const absl::StatusOr<Portal> portal = ParsePortal(text);
    ASSERT_FALSE(portal.ok()) << text;
    EXPECT_THAT(std::string(portal.status().message()), HasSubstr(error));
  }
}

TEST(UrlTest, Full) {
  const Url url = Parsed(
      "iscsi://me%se%25cr%40et@10.0.0.1:3261/"
      "iqn.2001-04.com.example:disk/5");
  EXPECT_EQ(url.scheme, "iscsi");
  EXPECT_EQ(url.user, "me");
  EXPECT_EQ(url.password, "se%cr@et");
  EXPECT_EQ(url.portal, (Portal{"10.0.0.1", 3261}));
  EXPECT_EQ(url.target, kTarget);
  EXPECT_EQ(url.lun, 5u);
  EXPECT_TRUE(url.has_lun);
  EXPECT_EQ(FormatUrl(url),
            "iscsi://me@10.0.0.1:3261/iqn.2001-04.com.example:disk/5");
}

TEST(UrlTest, Parts) {
  for (const char* text : {"iscsi://host", "iscsi://host/"}) {
    const Url url = Parsed(text);
    EXPECT_EQ(url.portal, (Portal{"host", 3260}));
    EXPECT_EQ(url.target, "");
    EXPECT_FALSE(url.has_lun);
  }
  Url url = Parsed("iser://[::1]:3262/iqn.2001-04.com.example:disk");
  EXPECT_EQ(url.scheme, "iser");
  EXPECT_EQ(url.portal, (Portal{"::1", 3262}));
  EXPECT_EQ(url.target, kTarget);
  EXPECT_FALSE(url.has_lun);
  url = Parsed("AUTO://host/IQN.2001-04.com.example%3Adisk/0");
  EXPECT_EQ(url.scheme, "auto");
  EXPECT_EQ(url.target, kTarget);
  EXPECT_TRUE(url.has_lun);
  EXPECT_EQ(url.lun, 0u);
  // CHAP names are often iSCSI names.
  url = Parsed("iscsi://iqn.1993-08.org.debian:01:abc%@host");
  EXPECT_EQ(url.user, "iqn.1993-08.org.debian:01:abc");
  EXPECT_EQ(url.password, "");
  EXPECT_EQ(Parsed("iscsi://user@host").user, "user");
}

TEST(UrlTest, WhatPeopleWrite) {
  const std::string target = absl::StrCat("iscsi://host/", kTarget);
  const std::pair<const char*, uint32_t> luns[] = {
      {"/0", 0},    {"/00", 0},    {"/0/", 0},
      {"/007/", 7}, {"/0x1f", 31}, {"/16383", 16383}};
  for (const auto& [text, lun] : luns) {
    const Url url = Parsed(target + text);
    EXPECT_TRUE(url.has_lun) << text;
    EXPECT_EQ(url.lun, lun) << text;
  }
  EXPECT_FALSE(Parsed(target + "/").has_lun);
  // RFC 6874, and without its "25".
  for (const char* zone : {"%25eth0", "%eth0"}) {
    const Url url = Parsed(absl::StrCat("iscsi://[fe80::1", zone, "]:3261"));
    EXPECT_EQ(url.portal, (Portal{"fe80::1%eth0", 3261}));
    EXPECT_EQ(FormatUrl(url), "iscsi://[fe80::1%25eth0]:3261");
  }
  EXPECT_EQ(Parsed("iscsi://u%25pw@[fe80::1%25eth0]").portal.host,
            "fe80::1%eth0");
  // A zone that is a number of an interface.
  EXPECT_EQ(Parsed("iscsi://[fe80::1%25]").portal.host, "fe80::1%25");
  EXPECT_EQ(Parsed("iscsi://[fe80::1%2525]").portal.host, "fe80::1%25");
}

TEST(UrlTest, Options) {
  const Url url = Parsed(
      "iser://host/iqn.2001-04.com.example:disk/2"
      "?transport=libfabric&provider=tcp%3Bx");
  EXPECT_EQ(url.target, kTarget);
  EXPECT_EQ(url.lun, 2u);
  EXPECT_EQ(url.options,
            (std::map<std::string, std::string>{{"transport", "libfabric"},
                                                {"provider", "tcp;x"}}));
  EXPECT_EQ(FormatUrl(url),
            "iser://host:3260/iqn.2001-04.com.example:disk/2"
            "?provider=tcp%3Bx&transport=libfabric");
  EXPECT_EQ(Parsed("auto://host?emulated=yes").portal, (Portal{"host", 3260}));
  EXPECT_TRUE(Parsed("iscsi://host?").options.empty());
}

TEST(UrlTest, Errors) {
  const std::string target = absl::StrCat("iscsi://host/", kTarget);
  const std::pair<std::string, const char*> cases[] = {
      {"", "no scheme"},
      {"host", "no scheme"},
      {"http://host", "not iscsi, iser or auto"},
      {"iscsi://", "no host"},
      {"iscsi:///", "no host"},
      {"iscsi://host:x", "port"},
      {"iscsi://@host", "no user name"},
      {"iscsi://%pw@host", "no user name"},
      {"iscsi://u%hidden%@host", "%25"},
      {"iscsi://u%hidden%2@host", "%25"},
      {"iscsi://u%hidden%zz@host", "%25"},
      {"iscsi://u%hidden@ho st", "letters"},
      {"iscsi://u%hidden@host/disk", "not an iSCSI name"},
      {"iscsi://u%hid/den@host/iqn.2001-04.com.example:a", "%2F for /"},
      {"iscsi://u%hid?den@host/0", "%3F for ?"},
      {"iscsi://u@host/?target_password=hid\"&den", "%26 for &"},
      {"iscsi://host//0", "not an iSCSI name"},
      {"iscsi://host/iqn.2001-04.com%", "two hexadecimal"},
      {target + "/x", "the LUN"},
      {target + "/-1", "the LUN"},
      {target + "/16384", "from 0 to 16383"},
      {target + "/0/1", "the LUN"},
      {target + "/0//", "the LUN"},
      {target + "//", "the LUN"},
      {target + "/99999999999999999999", "the LUN"},
      {target + "/0?a", "key=value"},
      {target + "/0?=b", "key=value"},
      {target + "/0?a=", "key=value"},
      {target + "/0?a=b&&c=d", "key=value"},
      {target + "/0?a=b&a=c", "twice"},
      {target + "/0?a=%4", "two hexadecimal"},
  };
  for (const auto& [text, error] : cases) {
    const absl::StatusOr<Url> url = ParseUrl(text);
    ASSERT_FALSE(url.ok()) << text;
    EXPECT_THAT(std::string(url.status().message()), HasSubstr(error));
    for (const char* secret : {"hidden", "hid", "den"}) {
      EXPECT_THAT(std::string(url.status().message()), Not(HasSubstr(secret)));
    }
  }
}

TEST(UrlTest, IsShownWithoutPasswords) {
  const std::pair<const char*, const char*> cases[] = {
      {"iscsi://u%secret@h/t/0?a=b", "iscsi://u@h/t/0?a=b"},
      {"iscsi://u@h/t", "iscsi://u@h/t"},
      {"iscsi://u%s@e/c?r@h/t", "iscsi://u@h/t"},
      {"iser://h?target_user=x&target_password=secret&a=b",
       "iser://h?target_user=x&target_password="},
      {"u%secret@h", "u%secret@h"},  // No URL.
      {"iscsi://[fe80::1%25eth0]/t", "iscsi://[fe80::1%25eth0]/t"},
  };
  for (const auto& [text, shown] : cases) {
    EXPECT_EQ(WithoutPasswords(text), shown);
  }
}

TEST(UrlTest, RandomTextIsSafe) {
  std::mt19937 random(17);
  const std::string pieces[] = {"iscsi://", "host",  "/", ":",   "@",
                                "%",        "[",     "]", "1",   "::1",
                                "%4",       kTarget, "?", "a=b", "&"};
  int good = 0;
  for (int round = 0; round < 50000; ++round) {
    std::string text = random() % 4 == 0 ? "" : "iscsi://";
    for (unsigned n = random() % 8; n > 0; --n) text += pieces[random() % 15];
    const absl::StatusOr<Url> url = ParseUrl(text);
    if (!url.ok()) continue;
    ++good;
    Url shown = *url;
    shown.password.clear();
    const std::string formatted = FormatUrl(shown);
    ASSERT_EQ(Parsed(formatted), shown) << formatted;
  }
  EXPECT_GT(good, 100);
}

}  // namespace
}  // namespace skiff::protocol
