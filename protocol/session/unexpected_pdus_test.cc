#include "protocol/session/unexpected_pdus.h"

#include "gtest/gtest.h"

namespace skiff::protocol {
namespace {

TEST(UnexpectedPdusTest, WithoutALimitNothingIsCounted) {
  UnexpectedPdus pdus;
  for (int i = 0; i < 1000; ++i) pdus.Add(1);
  EXPECT_EQ(pdus.outstanding(), 0u);
  EXPECT_TRUE(pdus.HasRoom(1000));
  EXPECT_FALSE(pdus.Crowded());
}

TEST(UnexpectedPdusTest, WhoSendsIsBoundedWhateverThePeerAllows) {
  UnexpectedPdus pdus;
  pdus.SetSendLimit(0xffffffff);
  EXPECT_EQ(pdus.limit(), 1024u);
  pdus.SetSendLimit(5);
  EXPECT_EQ(pdus.limit(), 5u);
  pdus.SetSendLimit(0);
  EXPECT_EQ(pdus.limit(), 0u);
}

TEST(UnexpectedPdusTest, ALaterNumberRetires) {
  UnexpectedPdus pdus;
  pdus.SetLimit(4);
  pdus.Add(10);
  pdus.Add(10);
  EXPECT_TRUE(pdus.Crowded());
  pdus.Add(12);
  EXPECT_TRUE(pdus.HasRoom());
  EXPECT_FALSE(pdus.HasRoom(1));
  pdus.Add(12);
  EXPECT_FALSE(pdus.HasRoom());
  pdus.Retire(10);
  EXPECT_EQ(pdus.outstanding(), 4u);
  pdus.Retire(12);
  EXPECT_EQ(pdus.outstanding(), 2u);
  pdus.Retire(13);
  EXPECT_EQ(pdus.outstanding(), 0u);
}

TEST(UnexpectedPdusTest, NumbersWrap) {
  UnexpectedPdus pdus;
  pdus.SetLimit(2);
  pdus.Add(0xffffffff);
  pdus.Add(0);
  pdus.Retire(0);
  EXPECT_EQ(pdus.outstanding(), 1u);
  pdus.Retire(1);
  EXPECT_EQ(pdus.outstanding(), 0u);
}

TEST(UnexpectedPdusTest, OneOfMany) {
  UnexpectedPdus pdus;
  pdus.SetLimit(5);
  pdus.Add(1);
  pdus.Add(2);
  pdus.Add(2);
  pdus.RetireOne(2);
  EXPECT_EQ(pdus.outstanding(), 2u);
  pdus.RetireOne(3);
  EXPECT_EQ(pdus.outstanding(), 2u);
  pdus.Retire(3);
  EXPECT_EQ(pdus.outstanding(), 0u);
  pdus.RetireOne(2);
  EXPECT_EQ(pdus.outstanding(), 0u);
}

}  // namespace
}  // namespace skiff::protocol
