#include "protocol/negotiation/negotiated_keys.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_join.h"

namespace skiff::protocol {
namespace {

std::string Shown(const Parameters& parameters) {
  return absl::StrJoin(NegotiatedKeys(parameters), " ",
                       absl::PairFormatter("="));
}

TEST(NegotiatedKeysTest, OverTcp) {
  Parameters parameters;
  parameters.header_digest = Digest::kCrc32c;
  parameters.target_max_recv_data_segment_length = 65536;
  EXPECT_EQ(Shown(parameters),
            "HeaderDigest=CRC32C DataDigest=None MaxConnections=1 "
            "InitialR2T=Yes ImmediateData=Yes "
            "MaxRecvDataSegmentLength=8192/65536 MaxBurstLength=262144 "
            "FirstBurstLength=65536 DefaultTime2Wait=2 DefaultTime2Retain=20 "
            "MaxOutstandingR2T=1 DataPDUInOrder=Yes DataSequenceInOrder=Yes "
            "ErrorRecoveryLevel=0 iSCSIProtocolLevel=1");
  EXPECT_EQ(IserDialect(parameters.iser), "");
}

TEST(NegotiatedKeysTest, FirstBurstLengthOnlyWhereItMatters) {
  Parameters parameters;
  parameters.immediate_data = false;
  EXPECT_EQ(Shown(parameters).find("FirstBurstLength"), std::string::npos);
}

TEST(NegotiatedKeysTest, OverIser) {
  Parameters parameters;
  parameters.iser.enabled = true;
  parameters.iser.rdma_extensions = true;
  std::string shown = Shown(parameters);
  EXPECT_NE(shown.find("RDMAExtensions=Yes "), std::string::npos);
  EXPECT_NE(shown.find(" TargetRecvDataSegmentLength=8192 "
                       "InitiatorRecvDataSegmentLength=8192"),
            std::string::npos);
  EXPECT_EQ(shown.find("MaxAHSLength"), std::string::npos);
  EXPECT_EQ(IserDialect(parameters.iser),
            "as deployed, write base offset of solicited data");

  parameters.iser.rfc7145 = true;
  parameters.iser.target_max_ahs_length = 0;
  shown = Shown(parameters);
  EXPECT_NE(shown.find(" MaxOutstandingUnexpectedPDUs=0/0 MaxAHSLength=256/0 "
                       "TaggedBufferForSolicitedDataOnly=No "
                       "iSERHelloRequired=No"),
            std::string::npos)
      << shown;
  EXPECT_EQ(IserDialect(parameters.iser),
            "RFC 7145, write base offset of the whole buffer");
}

}  // namespace
}  // namespace skiff::protocol
