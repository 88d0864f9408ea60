#include "tools/skiff/doctor/dcb.h"

#include <linux/dcbnl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace skiff::tools {
namespace {

using ::testing::HasSubstr;
using Bytes = std::vector<uint8_t>;

void Append(const void* value, size_t size, Bytes* out) {
  const auto* const bytes = static_cast<const uint8_t*>(value);
  out->insert(out->end(), bytes, bytes + size);
}

Bytes Attribute(uint16_t type, const Bytes& value) {
  Bytes out;
  const nlattr header = {static_cast<uint16_t>(NLA_HDRLEN + value.size()),
                         type};
  Append(&header, sizeof(header), &out);
  Append(value.data(), value.size(), &out);
  out.resize(NLA_ALIGN(out.size()));
  return out;
}

Bytes operator+(Bytes one, const Bytes& other) {
  one.insert(one.end(), other.begin(), other.end());
  return one;
}

// As the kernel sends it.
Bytes Message(uint16_t type, const Bytes& payload) {
  nlmsghdr header = {};
  header.nlmsg_len = static_cast<uint32_t>(sizeof(header) + payload.size());
  header.nlmsg_type = type;
  Bytes out;
  Append(&header, sizeof(header), &out);
  return out + payload;
}

Bytes Answer(uint8_t command, const Bytes& attributes) {
  dcbmsg dcb = {};
  dcb.cmd = command;
  Bytes payload;
  Append(&dcb, sizeof(dcb), &payload);
  const Bytes name = {'e', 't', 'h', '0', '\0'};
  return Message(RTM_GETDCB,
                 payload + Attribute(DCB_ATTR_IFNAME, name) + attributes);
}

Bytes Error(int32_t error) {
  Bytes payload;
  Append(&error, sizeof(error), &payload);
  return Message(NLMSG_ERROR, payload + Bytes(sizeof(nlmsghdr)));
}

Bytes IeeeAnswer(uint8_t priorities) {
  ieee_pfc pfc = {};
  pfc.pfc_cap = 8;
  pfc.pfc_en = priorities;
  Bytes value;
  Append(&pfc, sizeof(pfc), &value);
  // What comes before it is passed over, whatever its length.
  return Answer(DCB_CMD_IEEE_GET,
                Attribute(DCB_ATTR_IEEE | NLA_F_NESTED,
                          Attribute(DCB_ATTR_IEEE_ETS, Bytes(7, 0xff)) +
                              Attribute(DCB_ATTR_IEEE_PFC, value)));
}

void ExpectSilent(DcbQuestion question, const Bytes& answer) {
  EXPECT_EQ(ParseDcbAnswer(question, answer).status().code(),
            absl::StatusCode::kUnimplemented);
}

TEST(DcbTest, PrioritiesOfTheStandard) {
  for (const uint8_t priorities : {0x00, 0x08, 0xff}) {
    const auto answer =
        ParseDcbAnswer(DcbQuestion::kIeeePfc, IeeeAnswer(priorities));
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(*answer, priorities);
  }
  ExpectSilent(
      DcbQuestion::kIeeePfc,
      Answer(DCB_CMD_IEEE_GET, Attribute(DCB_ATTR_IEEE | NLA_F_NESTED, {})));
}

TEST(DcbTest, PrioritiesOfBeforeTheStandard) {
  Bytes all;
  for (int i = 0; i < 8; ++i) {
    const uint8_t on = i == 3 || i == 4 ? 1 : 0;
    all = all + Attribute(static_cast<uint16_t>(DCB_PFC_UP_ATTR_0 + i), {on});
  }
  const auto answer = ParseDcbAnswer(
      DcbQuestion::kCeePfc,
      Answer(DCB_CMD_PFC_GCFG, Attribute(DCB_ATTR_PFC_CFG, all)));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(*answer, 0x18);
  ExpectSilent(DcbQuestion::kCeePfc, Answer(DCB_CMD_PFC_GCFG, {}));
}

TEST(DcbTest, WhoNegotiates) {
  const auto answer = ParseDcbAnswer(
      DcbQuestion::kDcbx,
      Answer(DCB_CMD_GDCBX, Attribute(DCB_ATTR_DCBX, {DCB_CAP_DCBX_LLD_MANAGED |
                                                      DCB_CAP_DCBX_VER_IEEE})));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(*answer, DCB_CAP_DCBX_LLD_MANAGED | DCB_CAP_DCBX_VER_IEEE);
  ExpectSilent(DcbQuestion::kDcbx, Answer(DCB_CMD_GDCBX, {}));
}

TEST(DcbTest, Errors) {
  for (const DcbQuestion question :
       {DcbQuestion::kIeeePfc, DcbQuestion::kCeePfc, DcbQuestion::kDcbx}) {
    ExpectSilent(question, Error(-EOPNOTSUPP));
    EXPECT_THAT(
        std::string(
            ParseDcbAnswer(question, Error(-ENODEV)).status().message()),
        HasSubstr("No such device"));
    EXPECT_THAT(std::string(ParseDcbAnswer(question, Message(NLMSG_DONE, {}))
                                .status()
                                .message()),
                HasSubstr("message 3"));
  }
}

// Whatever comes, nothing is read beyond it.
TEST(DcbTest, AnswersThatAreCut) {
  for (const DcbQuestion question :
       {DcbQuestion::kIeeePfc, DcbQuestion::kCeePfc, DcbQuestion::kDcbx}) {
    for (const Bytes& whole : {IeeeAnswer(8), Error(-ENODEV)}) {
      for (size_t size = 0; size < whole.size(); ++size) {
        Bytes cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size));
        EXPECT_FALSE(ParseDcbAnswer(question, cut).ok());
        if (size < sizeof(nlmsghdr)) continue;
        const auto length = static_cast<uint32_t>(size);
        std::memcpy(cut.data(), &length, sizeof(length));
        EXPECT_FALSE(ParseDcbAnswer(question, cut).ok()) << size;
      }
    }
  }
}

TEST(DcbTest, Requests) {
  const std::string request = DcbRequest(DcbQuestion::kDcbx, "eth0");
  nlmsghdr header;
  dcbmsg dcb;
  ASSERT_EQ(request.size(), sizeof(header) + sizeof(dcb) + NLA_HDRLEN + 8);
  std::memcpy(&header, request.data(), sizeof(header));
  std::memcpy(&dcb, request.data() + sizeof(header), sizeof(dcb));
  EXPECT_EQ(header.nlmsg_len, request.size());
  EXPECT_EQ(header.nlmsg_type, RTM_GETDCB);
  EXPECT_EQ(dcb.cmd, DCB_CMD_GDCBX);
  EXPECT_STREQ(request.data() + sizeof(header) + sizeof(dcb) + NLA_HDRLEN,
               "eth0");
}

// Loopback has no driver that could tell.
TEST(DcbTest, AnInterfaceWithoutADriverSaysNothing) {
  const DcbFact fact = ReadDcb("lo");
  EXPECT_FALSE(fact.pfc.has_value());
  EXPECT_EQ(fact.no_pfc, "its driver does not say");
  EXPECT_EQ(fact.dcbx, DcbFact::Dcbx::kUnknown);
}

}  // namespace
}  // namespace skiff::tools
