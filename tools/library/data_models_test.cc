// Both roles of the C interface over both data models: iSCSI over TCP, and iSER
// over libfabric's provider "tcp".

#include <cerrno>
#include <cstdint>
#include <numeric>
#include <ostream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tools/library/target_test_util.h"

namespace skiff::library {
namespace {

constexpr uint64_t kSize = 4 << 20;

struct Way {
  const char* portal;
  const char* scheme;
  const char* query;
  const char* data_model;
  uint32_t threads;
};

std::ostream& operator<<(std::ostream& out, const Way& way) {
  return out << way.data_model << way.threads;
}

class DataModelsTest : public ::testing::TestWithParam<Way> {
 protected:
  DataModelsTest() : server_(GetParam().threads) {
    char bound[100] = "";
    EXPECT_EQ(skiff_server_listen(server_.server, GetParam().portal, bound,
                                  sizeof(bound)),
              0)
        << skiff_last_error();
    portal_ = bound;
  }

  void Serve(TestStore* store) {
    store->Create(server_.context);
    server_.AddLun(0, store->backend);
  }
  void StopServing(TestStore* store) {
    EXPECT_EQ(skiff_target_remove_lun(server_.target, 0, nullptr, nullptr), 0)
        << skiff_last_error();
    EXPECT_EQ(skiff_backend_close(store->backend), 0) << skiff_last_error();
  }
  std::string Url() const {
    const size_t host = portal_.find("//") + 2;
    return std::string(GetParam().scheme) + "://" +
           portal_.substr(host, portal_.find('?') - host) + "/" +
           TestServer::kName + "/0" + GetParam().query;
  }
  skiff_disk* Open() {
    skiff_disk* disk = nullptr;
    EXPECT_EQ(skiff_disk_open(server_.context, Url().c_str(), nullptr, nullptr,
                              nullptr, &disk),
              0)
        << skiff_last_error();
    return disk;
  }
  skiff_command_counts LunCounts() {
    skiff_command_counts counts = {};
    EXPECT_EQ(skiff_target_luns(
                  server_.target,
                  [](void* user, const skiff_lun_info* lun) {
                    *static_cast<skiff_command_counts*>(user) = lun->counts;
                    return 0;
                  },
                  &counts),
              0);
    return counts;
  }
  // Of the one session.
  skiff_command_counts SessionCounts() {
    skiff_command_counts counts = {};
    EXPECT_EQ(skiff_server_sessions(
                  server_.server,
                  [](void* user, const skiff_session_info* session) {
                    EXPECT_STREQ(session->data_model, GetParam().data_model);
                    *static_cast<skiff_command_counts*>(user) = session->counts;
                    return 0;
                  },
                  nullptr, &counts),
              0)
        << skiff_last_error();
    return counts;
  }

  TestServer server_;
  std::string portal_;
};

INSTANTIATE_TEST_SUITE_P(
    Ways, DataModelsTest,
    ::testing::Values(Way{"tcp://127.0.0.1:0", "iscsi", "", "iSCSI", 0},
                      Way{"tcp://127.0.0.1:0", "iscsi", "", "iSCSI", 2},
                      Way{"libfabric://127.0.0.1:0?provider=tcp", "iser",
                          "?transport=libfabric&provider=tcp", "iSER", 0},
                      Way{"libfabric://127.0.0.1:0?provider=tcp", "iser",
                          "?transport=libfabric&provider=tcp", "iSER", 2}),
    [](const auto& info) {
      return std::string(info.param.data_model) +
             (info.param.threads == 0 ? "OwnLoop" : "Threads");
    });

uint64_t Sum(const skiff_latency& latency) {
  return std::accumulate(latency.counts, latency.counts + SKIFF_LATENCY_COUNTS,
                         uint64_t{0});
}

TEST_P(DataModelsTest, CountsCommandsOnBothSides) {
  TestStore store(TestStore::Mode::kInside, kSize);
  Serve(&store);
  skiff_disk* const disk = Open();
  std::string data(64 << 10, 'd');
  ASSERT_EQ(
      skiff_disk_write(disk, 0, data.data(), data.size(), 0, nullptr, nullptr),
      0)
      << skiff_last_error();
  for (int i = 0; i < 3; ++i) {
    std::string back(4096, ' ');
    ASSERT_EQ(
        skiff_disk_read(disk, 0, back.data(), back.size(), nullptr, nullptr), 0)
        << skiff_last_error();
    EXPECT_EQ(back, data.substr(0, back.size()));
  }
  const uint64_t errors = LunCounts().check_conditions;
  store.error = -EIO;
  EXPECT_EQ(skiff_disk_read(disk, 0, data.data(), 512, nullptr, nullptr), -EIO);
  store.error = 0;
  for (const skiff_command_counts& counts : {LunCounts(), SessionCounts()}) {
    EXPECT_EQ(counts.reads, 4u);
    EXPECT_EQ(counts.read_bytes, 12288u);
    EXPECT_EQ(counts.writes, 1u);
    EXPECT_EQ(counts.written_bytes, data.size());
    EXPECT_GT(counts.others, 0u) << "INQUIRY and its like";
    EXPECT_EQ(counts.check_conditions, errors + 1);
    EXPECT_EQ(counts.busy + counts.aborted, 0u);
    EXPECT_EQ(Sum(counts.read_latency), 4u);
    EXPECT_EQ(Sum(counts.write_latency), 1u);
  }
  skiff_disk_stats stats;
  SKIFF_INIT(stats);
  EXPECT_EQ(skiff_disk_get_stats(disk, &stats), 0) << skiff_last_error();
  EXPECT_STREQ(stats.data_model, GetParam().data_model);
  EXPECT_EQ(stats.reads, 4u);
  EXPECT_EQ(stats.read_bytes, 12288u);
  EXPECT_EQ(stats.writes, 1u);
  EXPECT_EQ(stats.written_bytes, data.size());
  EXPECT_EQ(Sum(stats.read_latency), 4u);
  EXPECT_GT(stats.read_latency.max_ns, 0u);
  EXPECT_EQ(stats.failed_ios, 1u);
  EXPECT_EQ(skiff_disk_close(disk, nullptr, nullptr), 0);
  EXPECT_EQ(LunCounts().reads, 4u) << "the session is gone";
  StopServing(&store);
}

// What the backend holds is in flight, and has a latency in the end.
TEST_P(DataModelsTest, CountsWhatTakesLong) {
  TestStore store(TestStore::Mode::kHeld, kSize);
  Serve(&store);
  skiff_disk* const disk = Open();
  std::string back(4096, ' ');
  Outcome read;
  ASSERT_EQ(
      skiff_disk_read(disk, 0, back.data(), back.size(), Outcome::Done, &read),
      0)
      << skiff_last_error();
  ASSERT_TRUE(server_.Await([&] { return store.held() == 1; }));
  EXPECT_EQ(LunCounts().in_flight, 1u);
  EXPECT_EQ(SessionCounts().in_flight, 1u);
  EXPECT_EQ(LunCounts().reads, 0u);
  EXPECT_EQ(store.Release(), 1u);
  ASSERT_TRUE(server_.Await(read));
  EXPECT_EQ(read.result(), 0) << read.message();
  EXPECT_TRUE(server_.Await([&] { return LunCounts().in_flight == 0; }));
  EXPECT_EQ(LunCounts().reads, 1u);
  EXPECT_GT(LunCounts().read_latency.sum_ns, 0u);
  EXPECT_EQ(LunCounts().read_latency.max_ns, LunCounts().read_latency.sum_ns);
  EXPECT_EQ(skiff_disk_close(disk, nullptr, nullptr), 0);
  StopServing(&store);
}

// Cancelled while the backend has it, which lets go of it, or does not.
TEST_P(DataModelsTest, CancelsWhatABackendHolds) {
  for (const bool lets_go : {true, false}) {
    TestStore store(TestStore::Mode::kHeld, kSize);
    store.can_cancel = lets_go;
    Serve(&store);
    skiff_disk* const disk = Open();
    const uint64_t aborted = LunCounts().aborted;
    std::string data(4096, 'w');
    const iovec piece = {data.data(), data.size()};
    Outcome write;
    skiff_io io;
    SKIFF_INIT(io);
    io.op = SKIFF_IO_WRITE;
    io.length = data.size();
    io.iov = &piece;
    io.iov_count = 1;
    io.done = Outcome::Done;
    io.user = &write;
    uint64_t id = 0;
    ASSERT_EQ(skiff_disk_submit(disk, &io, 1, &id), 0) << skiff_last_error();
    ASSERT_TRUE(server_.Await([&] { return store.held() == 1; }));
    Outcome abort;
    ASSERT_EQ(skiff_disk_abort(disk, id, Outcome::Done, &abort), 0)
        << skiff_last_error();
    abort.then = [&] { EXPECT_EQ(write.times(), 1); };
    if (lets_go) {
      ASSERT_TRUE(server_.Await(write));
    } else {
      // The target answers when nothing refers to the command any more.
      ASSERT_TRUE(server_.Await([&] { return store.cancels() == 1; }));
      EXPECT_EQ(write.times(), 0);
      EXPECT_EQ(store.Release(), 1u);
      ASSERT_TRUE(server_.Await(write));
    }
    EXPECT_EQ(write.result(), -ECANCELED) << write.message();
    ASSERT_TRUE(server_.Await(abort));
    EXPECT_EQ(abort.result(), 0) << abort.message();
    EXPECT_EQ(LunCounts().aborted, aborted + 1);
    EXPECT_EQ(skiff_disk_abort(disk, id, nullptr, nullptr), -EALREADY);
    EXPECT_EQ(skiff_disk_abort(disk, id + 1000, nullptr, nullptr), -ENOENT);
    EXPECT_EQ(skiff_disk_abort(disk, 0, nullptr, nullptr), -ENOENT);
    EXPECT_EQ(skiff_disk_close(disk, nullptr, nullptr), 0);
    StopServing(&store);
  }
}

TEST_P(DataModelsTest, ReconnectsWhenAsked) {
  TestStore store(TestStore::Mode::kInside, kSize);
  Serve(&store);
  EXPECT_EQ(skiff_disk_reconnect(nullptr), -EINVAL);
  skiff_disk* const disk = Open();
  ASSERT_EQ(skiff_disk_reconnect(disk), 0) << skiff_last_error();
  skiff_disk_stats stats;
  SKIFF_INIT(stats);
  EXPECT_TRUE(server_.Await([&] {
    EXPECT_EQ(skiff_disk_get_stats(disk, &stats), 0);
    return stats.reconnects == 1 && stats.connected == 1;
  }));
  std::string data(4096, 'r');
  EXPECT_EQ(
      skiff_disk_write(disk, 0, data.data(), data.size(), 0, nullptr, nullptr),
      0)
      << skiff_last_error();
  EXPECT_EQ(skiff_disk_close(disk, nullptr, nullptr), 0);
  StopServing(&store);
}

// The second megabyte is not mapped.
TEST_P(DataModelsTest, TellsWhatIsMapped) {
  skiff_backend_ops ops;
  SKIFF_INIT(ops);
  ops.submit = [](void* user, const skiff_request* request) {
    skiff_backend_complete(*static_cast<skiff_backend**>(user), request->id, 0);
  };
  ops.provisioning = [](void*, uint64_t offset, uint64_t* length) {
    const uint64_t megabyte = offset >> 20;
    *length = megabyte < 2 ? ((megabyte + 1) << 20) - offset : kSize - offset;
    return megabyte == 1 ? 0 : 1;
  };
  skiff_backend* backend = nullptr;
  skiff_backend_options options;
  SKIFF_INIT(options);
  options.size_bytes = kSize;
  options.flags = SKIFF_BACKEND_THIN;
  options.user = &backend;
  ASSERT_EQ(skiff_backend_create(server_.context, &ops, &options, &backend), 0)
      << skiff_last_error();
  server_.AddLun(0, backend);
  skiff_disk* const disk = Open();
  skiff_extent extents[4];
  size_t count = 0;
  ASSERT_EQ(skiff_disk_get_lba_status(disk, 512, extents, 4, &count, nullptr,
                                      nullptr),
            0)
      << skiff_last_error();
  ASSERT_EQ(count, 3u);
  constexpr uint64_t kMegabyte = 1 << 20;
  EXPECT_EQ(extents[0].offset, 512u);
  EXPECT_EQ(extents[0].length, kMegabyte - 512);
  EXPECT_EQ(extents[0].state, SKIFF_EXTENT_MAPPED);
  EXPECT_EQ(extents[1].offset, kMegabyte);
  EXPECT_EQ(extents[1].length, kMegabyte);
  EXPECT_EQ(extents[1].state, SKIFF_EXTENT_DEALLOCATED);
  EXPECT_EQ(extents[2].length, kSize - 2 * kMegabyte);
  // No more than there is room for, and told by a callback.
  Outcome told;
  ASSERT_EQ(skiff_disk_get_lba_status(disk, kMegabyte, extents, 1, &count,
                                      Outcome::Done, &told),
            0);
  ASSERT_TRUE(server_.Await(told));
  EXPECT_EQ(told.result(), 0) << told.message();
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(extents[0].state, SKIFF_EXTENT_DEALLOCATED);
  const auto ask = [&](uint64_t offset, size_t capacity) {
    return skiff_disk_get_lba_status(disk, offset, extents, capacity, &count,
                                     nullptr, nullptr);
  };
  EXPECT_EQ(ask(3, 4), -EINVAL);
  EXPECT_EQ(ask(0, 0), -EINVAL);
  EXPECT_EQ(ask(kSize, 4), -ERANGE);
  EXPECT_EQ(skiff_disk_close(disk, nullptr, nullptr), 0);
  EXPECT_EQ(skiff_target_remove_lun(server_.target, 0, nullptr, nullptr), 0);
  EXPECT_EQ(skiff_backend_close(backend), 0) << skiff_last_error();
}

// Memory that sessions have registered stays theirs until they end.
TEST_P(DataModelsTest, AMemoryMediumMayGoWhileASessionHasRegisteredIt) {
  skiff_ram_options ram;
  SKIFF_INIT(ram);
  ram.size_bytes = kSize;
  skiff_backend* backend = nullptr;
  ASSERT_EQ(skiff_backend_create_ram(server_.context, &ram, &backend), 0)
      << skiff_last_error();
  server_.AddLun(0, backend);
  skiff_disk* const disk = Open();
  std::string data(128 << 10, 'm');
  ASSERT_EQ(
      skiff_disk_write(disk, 0, data.data(), data.size(), 0, nullptr, nullptr),
      0)
      << skiff_last_error();
  ASSERT_EQ(skiff_target_remove_lun(server_.target, 0, nullptr, nullptr), 0)
      << skiff_last_error();
  EXPECT_EQ(skiff_backend_close(backend), 0) << skiff_last_error();
  EXPECT_LT(
      skiff_disk_read(disk, 0, data.data(), data.size(), nullptr, nullptr), 0);
  EXPECT_EQ(skiff_disk_close(disk, nullptr, nullptr), 0);
}

}  // namespace
}  // namespace skiff::library
