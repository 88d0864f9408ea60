#include "transport/verbs/cm_errors.h"

#include <cerrno>
#include <string>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "transport/transport.h"

namespace skiff::transport {
namespace {

CmEvent Event(rdma_cm_event_type type, int status,
              std::vector<uint8_t> private_data = {}) {
  CmEvent event;
  event.type = type;
  event.status = status;
  event.private_data = std::move(private_data);
  return event;
}

std::string Payload(const absl::Status& status) {
  const auto payload = status.GetPayload(kRejectPrivateData);
  return payload.has_value() ? std::string(*payload) : "none";
}

TEST(CmErrorsTest, ARejectionCarriesWhatThePeerSaid) {
  // Reason 28 is the consumer's; the connection manager pads with zeros.
  const absl::Status status =
      CmEventError(Event(RDMA_CM_EVENT_REJECTED, 28, {'n', 'o', 0, 0}));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Payload(status), std::string("no\0\0", 4));
}

TEST(CmErrorsTest, ARejectionWithoutWordsHasOnlyPadding) {
  const absl::Status status = CmEventError(
      Event(RDMA_CM_EVENT_REJECTED, 28, std::vector<uint8_t>(148)));
  EXPECT_EQ(Payload(status), "none");
  EXPECT_TRUE(absl::StrContains(status.message(), "rejected")) << status;
}

TEST(CmErrorsTest, NobodyListensIsNotTheWordOfAProgram) {
  const absl::Status status =
      CmEventError(Event(RDMA_CM_EVENT_REJECTED, 8, {1, 2, 3}));
  EXPECT_EQ(Payload(status), "none");
  EXPECT_TRUE(absl::StrContains(status.message(), "listening")) << status;
}

TEST(CmErrorsTest, IwarpRejectsWithAnErrno) {
  const absl::Status status =
      CmEventError(Event(RDMA_CM_EVENT_REJECTED, -ECONNREFUSED, {'n', 'o'}));
  EXPECT_EQ(Payload(status), "no");
  EXPECT_TRUE(absl::StrContains(
      CmEventError(Event(RDMA_CM_EVENT_REJECTED, -ETIMEDOUT)).message(),
      "timed out"));
}

TEST(CmErrorsTest, EveryEventThatEndsAnAttemptHasAReason) {
  for (rdma_cm_event_type type :
       {RDMA_CM_EVENT_ADDR_ERROR, RDMA_CM_EVENT_ROUTE_ERROR,
        RDMA_CM_EVENT_CONNECT_ERROR, RDMA_CM_EVENT_UNREACHABLE,
        RDMA_CM_EVENT_REJECTED, RDMA_CM_EVENT_DISCONNECTED,
        RDMA_CM_EVENT_DEVICE_REMOVAL}) {
    for (int status : {0, -ENODEV, -ETIMEDOUT, 17}) {
      const absl::Status error = CmEventError(Event(type, status));
      EXPECT_FALSE(error.ok()) << rdma_event_str(type);
      EXPECT_GT(error.message().size(), 20u) << error;
    }
  }
}

}  // namespace
}  // namespace skiff::transport
