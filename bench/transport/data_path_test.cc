// In its steady state the data path of a transport allocates nothing.

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench/protocol/count_allocations.h"
#include "bench/transport/connection.h"
#include "gtest/gtest.h"
#include "transport/reactor/epoll_reactor.h"

namespace skiff::bench {
namespace {

using Kind = Workload::Kind;

// To warm up, and as many to count: enough to go round all queues, of which the
// longest has 256 entries. Software devices in an emulated machine move some
// ten megabytes a second.
uint64_t OperationsOf(const Workload& workload) {
  return workload.size > 4096 ? 512 : 2000;
}

class DataPath {
 public:
  DataPath(const std::string& url, const Workload& workload)
      : reactor_(transport::EpollReactor::Create().value()),
        pair_(ConnectPair(reactor_.get(), reactor_.get(), url, workload)
                  .value()) {}

  bool RunTo(uint64_t operations) {
    while (pair_.client->completed() < operations) {
      if (pair_.client->closed() || pair_.server->closed()) return false;
      for (int i = 0; i < 16; ++i) {
        pair_.client->Poll();
        pair_.server->Poll();
      }
      reactor_->Poll();
    }
    return true;
  }

 private:
  const std::unique_ptr<transport::EpollReactor> reactor_;
  Pair pair_;
};

std::vector<Workload> Workloads(bool rdma) {
  std::vector<Workload> out;
  for (const Kind kind : {Kind::kSend, Kind::kWrite, Kind::kRead}) {
    if (!rdma && kind != Kind::kSend) continue;
    for (const uint32_t size : {64u, 65536u}) {
      Workload workload;
      workload.kind = kind;
      workload.size = size;
      workload.inline_bytes = 128;
      workload.ping_pong = kind != Kind::kRead;
      out.push_back(workload);
      workload.ping_pong = false;
      workload.depth = 32;
      out.push_back(workload);
    }
  }
  return out;
}

TEST(DataPathTest, AllocatesNothing) {
  const std::vector<std::string> urls = UsableTransports();
  ASSERT_GE(urls.size(), 2u) << "no libfabric, or not even TCP";
  // In a virtual machine with RDMA devices.
  if (std::getenv("SKIFF_VM_ADDRESS") != nullptr) {
    ASSERT_TRUE(std::any_of(urls.begin(), urls.end(), [](const auto& url) {
      return url.rfind("verbs:", 0) == 0;
    })) << "no verbs device works";
  }
  for (const std::string& url : urls) {
    for (const Workload& workload :
         Workloads(TransportOf(url)->capabilities().rdma)) {
      SCOPED_TRACE(testing::Message()
                   << url << " operation " << static_cast<int>(workload.kind)
                   << (workload.ping_pong ? " to and fro, " : " one way, ")
                   << workload.size << " bytes");
      DataPath path(url, workload);
      const uint64_t operations = OperationsOf(workload);
      ASSERT_TRUE(path.RunTo(operations));
      const uint64_t before = protocol::AllocationCount();
      ASSERT_TRUE(path.RunTo(2 * operations));
      EXPECT_EQ(protocol::AllocationCount() - before, 0u);
    }
  }
}

}  // namespace
}  // namespace skiff::bench
