#include "transport/trace/tracing_backend.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/tcp/tcp_test_util.h"
#include "transport/trace/pcapng.h"
#include "transport/trace/pcapng_reader.h"

namespace skiff::transport {
namespace {

class TracingBackendTest : public TcpTest {
 protected:
  TracingBackendTest() {
    backend_ = MakeTracingBackend(
        MakeTcpBackend(),
        [this](absl::string_view blocks) { absl::StrAppend(&file_, blocks); });
  }

  std::string file_ = PcapngHeader();
};

// Both ends are traced: all that is sent is there twice, as sent and received.
TEST_F(TracingBackendTest, CapturesBothDirectionsOfBothEnds) {
  EXPECT_EQ(backend_->scheme(), "tcp");
  auto listener = Listen("tcp://127.0.0.1:0");
  ASSERT_NE(listener, nullptr);
  auto client = Connect(listener->address());
  ASSERT_TRUE(client.ok()) << client.status();
  auto server = Accept();
  ASSERT_NE(server, nullptr);
  const std::string there(100000, 'q');
  const std::string back = "answer";
  size_t sent = 0;
  std::string received;
  ASSERT_TRUE(RunUntil([&] {
    if (sent < there.size()) {
      const IoResult result = Write(client->get(), there.substr(sent));
      if (result.status == IoStatus::kOk) sent += result.bytes;
    }
    char buffer[8192];
    const IoResult result = Read(server.get(), buffer, sizeof(buffer));
    if (result.status == IoStatus::kOk) received.append(buffer, result.bytes);
    return received.size() == there.size();
  }));
  EXPECT_EQ(received, there);
  EXPECT_EQ(Write(server.get(), back).bytes, back.size());
  IoStatus last = IoStatus::kOk;
  EXPECT_EQ(ReadSome(client->get(), back.size(), &last), back);

  const auto segments = ReadPcapng(file_);
  ASSERT_TRUE(segments.ok()) << segments.status();
  const std::string from = (*client)->local_address();
  const std::string to = (*client)->peer_address();
  size_t bytes_there = 0;
  std::string bytes_back;
  for (const CapturedSegment& segment : *segments) {
    if (segment.from == from) {
      EXPECT_EQ(segment.to, to);
      bytes_there += segment.bytes.size();
    } else {
      EXPECT_EQ(segment.from, to);
      absl::StrAppend(&bytes_back, segment.bytes);
    }
  }
  EXPECT_EQ(bytes_there, 2 * there.size());
  EXPECT_EQ(bytes_back, back + back);
}

TEST_F(TracingBackendTest, PassesOnWhatFails) {
  EXPECT_FALSE(
      backend_->CheckAddress(Address::Parse("tcp://h:1?nonsense=1").value())
          .ok());
  EXPECT_FALSE(
      Connect(Address::Parse("tcp://127.0.0.1:1").value()).status().ok());
  EXPECT_EQ(file_, PcapngHeader());
}

}  // namespace
}  // namespace skiff::transport
