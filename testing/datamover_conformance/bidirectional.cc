// Commands that need an additional header segment: bidirectional ones, and
// those with a CDB of more than 16 bytes.

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "testing/datamover_conformance/network.h"
#include "testing/stack/exchange_target.h"
#include "testing/stack/stack_test_util.h"

namespace skiff::protocol {
namespace {

using Outcome = scsi::Command::Outcome;

// One exchange, whose buffers are in several pieces if `pieces` says so.
class Exchange {
 public:
  struct Sizes {
    uint32_t out = 0;
    uint32_t in = 0;
  };

  Exchange(uint8_t cdb_length, Sizes allowed, Sizes wanted, int pieces = 1)
      : out_(Random(allowed.out)), in_(allowed.in, '\xee'), wanted_(wanted) {
    command_.cdb.fill(0);
    SetExchangeCdb(cdb_length, wanted.out, wanted.in, &command_);
    out_iov_ = Cut(&out_, pieces);
    in_iov_ = Cut(&in_, pieces);
    command_.data_out = out_iov_.data();
    command_.data_out_count = static_cast<int>(out_iov_.size());
    command_.data_out_length = allowed.out;
    command_.data_in = in_iov_.data();
    command_.data_in_count = static_cast<int>(in_iov_.size());
    command_.data_in_length = allowed.in;
    command_.context = this;
    command_.done = [](scsi::Command* done) {
      static_cast<Exchange*>(done->context)->finished_ = true;
    };
  }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  scsi::Command* command() { return &command_; }
  bool finished() const { return finished_; }

  void Check() const {
    EXPECT_EQ(command_.outcome, Outcome::kCompleted);
    EXPECT_EQ(command_.status, 0);
    // The device sees at least the 16 bytes of the header.
    const std::string cdb(reinterpret_cast<const char*>(command_.cdb.data()),
                          std::max<size_t>(command_.cdb_length, 16));
    const size_t given = std::min<size_t>(in_.size(), wanted_.in);
    // Without the bytes themselves, which can be megabytes.
    EXPECT_TRUE(in_.substr(0, given) ==
                ExchangeAnswer(cdb, out_.substr(0, wanted_.out), given));
    EXPECT_TRUE(in_.substr(given) == std::string(in_.size() - given, '\xee'));
  }

 private:
  static std::string Random(size_t size) {
    std::string bytes(size, '\0');
    testing::SimRandom random(size + 1);
    for (char& byte : bytes) byte = static_cast<char>(random.Next());
    return bytes;
  }
  static std::vector<iovec> Cut(std::string* bytes, int pieces) {
    std::vector<iovec> list;
    size_t at = 0;
    for (int i = 1; i <= pieces; ++i) {
      const size_t end = bytes->size() * i / pieces;
      list.push_back({bytes->data() + at, end - at});
      at = end;
    }
    return list;
  }

  std::string out_;
  std::string in_;
  const Sizes wanted_;
  std::vector<iovec> out_iov_;
  std::vector<iovec> in_iov_;
  scsi::Command command_;
  bool finished_ = false;
};

class BidirectionalTest : public ::testing::TestWithParam<Network> {
 protected:
  BidirectionalTest() : stack_(GetParam().MakeStack(1)) {
    stack_->StopServer();
    stack_->target = MakeExchangeTarget(kTargetName);
    stack_->StartServer();
  }
  void Run(Exchange* exchange) {
    stack_->initiator->Submit(exchange->command());
    ASSERT_TRUE(stack_->RunUntil([&] { return exchange->finished(); }));
    exchange->Check();
  }

  const std::unique_ptr<Stack> stack_;
};

INSTANTIATE_TEST_SUITE_P(Networks, BidirectionalTest,
                         ::testing::ValuesIn(Networks()), NetworkName());

TEST_P(BidirectionalTest, CdbsOfEveryLengthArriveWhole) {
  stack_->LogIn();
  for (uint8_t length = kMinExchangeCdb; length <= 32; ++length) {
    SCOPED_TRACE(static_cast<int>(length));
    Exchange read(length, {0, 100}, {0, 100});
    Run(&read);
    Exchange write(length, {100, 0}, {100, 0});
    Run(&write);
  }
}

TEST_P(BidirectionalTest, DataMoveBothWaysByEveryRule) {
  for (const bool immediate : {false, true}) {
    for (const bool initial_r2t : {false, true}) {
      SCOPED_TRACE(::testing::Message() << "ImmediateData " << immediate
                                        << ", InitialR2T " << initial_r2t);
      InitiatorOptions options = stack_->Options();
      options.offer.immediate_data = immediate;
      options.offer.initial_r2t = initial_r2t;
      options.offer.first_burst_length = 8192;
      options.offer.max_burst_length = 65536;
      stack_->LogIn(options);
      for (const Exchange::Sizes sizes : {Exchange::Sizes{1, 1},
                                          {512, 100000},
                                          {100000, 512},
                                          {8192, 8192},
                                          {3 << 20, (3 << 20) + 1}}) {
        for (const int pieces : {1, 3}) {
          Exchange exchange(32, sizes, sizes, pieces);
          Run(&exchange);
          EXPECT_FALSE(exchange.command()->underflow);
          EXPECT_FALSE(exchange.command()->overflow);
          EXPECT_EQ(exchange.command()->bidi_read_residual, 0u);
        }
      }
      EXPECT_EQ(stack_->initiator->stats().reconnects, 0u);
    }
  }
}

TEST_P(BidirectionalTest, EachDirectionHasItsResidual) {
  stack_->LogIn();
  Exchange less(16, {1000, 2000}, {900, 1700});
  Run(&less);
  EXPECT_TRUE(less.command()->underflow);
  EXPECT_EQ(less.command()->residual, 100u);
  EXPECT_EQ(less.command()->bidi_read_residual, 300u);
  Exchange more(16, {1000, 2000}, {1500, 2000});
  Run(&more);
  EXPECT_TRUE(more.command()->overflow);
  EXPECT_EQ(more.command()->residual, 500u);
  EXPECT_EQ(more.command()->bidi_read_residual, 0u);
}

TEST_P(BidirectionalTest, ManyAtOnce) {
  stack_->LogIn();
  std::vector<std::unique_ptr<Exchange>> exchanges;
  for (uint32_t i = 0; i < 300; ++i) {
    const Exchange::Sizes sizes = {1 + 97 * i, 1 + 131 * (300 - i)};
    exchanges.push_back(std::make_unique<Exchange>(16 + i % 17, sizes, sizes));
    stack_->initiator->Submit(exchanges.back()->command());
  }
  for (const auto& exchange : exchanges) {
    ASSERT_TRUE(stack_->RunUntil([&] { return exchange->finished(); }));
    exchange->Check();
  }
  EXPECT_EQ(stack_->initiator->stats().reconnects, 0u);
}

// RFC 7145 section 6.8. Streams have no such limit.
TEST_P(BidirectionalTest, WhatTheTargetHasNoRoomForIsNotSent) {
  constexpr uint32_t kOneSegment = 8;  // For the length of a read.
  stack_->StopServer();
  stack_->server_options.offer.iser.max_ahs_length = kOneSegment;
  stack_->StartServer();
  stack_->LogIn();
  Exchange fits(16, {100, 100}, {100, 100});
  Run(&fits);
  Exchange too_long(32, {100, 100}, {100, 100});
  stack_->initiator->Submit(too_long.command());
  EXPECT_FALSE(too_long.finished());  // Never from inside Submit().
  ASSERT_TRUE(stack_->RunUntil([&] { return too_long.finished(); }));
  EXPECT_EQ(too_long.command()->outcome,
            GetParam().rdma() ? Outcome::kInvalid : Outcome::kCompleted);
  Exchange after(16, {100, 100}, {100, 100});
  Run(&after);
  EXPECT_EQ(stack_->initiator->stats().reconnects, 0u);
}

// The response takes one of the two out of use at most.
TEST_P(BidirectionalTest, BothKeysEnd) {
  if (!GetParam().rdma()) return;
  stack_->LogIn();
  constexpr uint64_t kCommands = 10;
  for (uint64_t i = 0; i < kCommands; ++i) {
    Exchange exchange(32, {20000, 20000}, {20000, 20000});
    Run(&exchange);
  }
  const ConnectionInfo info = stack_->initiator->connection();
  if (info.remote_invalidation) {
    EXPECT_EQ(info.counters.remote_invalidations, kCommands);
    EXPECT_EQ(info.counters.local_invalidations, kCommands);
  } else {
    EXPECT_EQ(info.counters.registrations, 2 * kCommands);
  }
}

}  // namespace
}  // namespace skiff::protocol
