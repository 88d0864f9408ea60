// The target of the C interface, served to the C++ initiator over TCP, by
// contexts of both kinds.

#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/library/target_test_util.h"

namespace skiff::library {
namespace {

using ::testing::HasSubstr;
using Op = scsi::DiskIo::Op;

constexpr uint64_t kSize = 4 << 20;

// With that many threads.
class TargetTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  TargetTest() : server_(GetParam()) {}
  TestServer server_;
};

INSTANTIATE_TEST_SUITE_P(Contexts, TargetTest, ::testing::Values(0u, 2u),
                         [](const auto& info) {
                           return info.param == 0 ? std::string("OwnLoop")
                                                  : std::string("Threads");
                         });

std::string Pattern(size_t size, char first) {
  std::string data(size, '\0');
  for (size_t i = 0; i < size; ++i) {
    data[i] = static_cast<char>(first + i / 512 + i % 7);
  }
  return data;
}

void WriteAndReadBack(TestDisk* disk) {
  const std::string data = Pattern(256 << 10, 'a');
  ASSERT_TRUE(disk->Write(8192, data).ok());
  std::string back(data.size(), '\0');
  ASSERT_TRUE(disk->Read(8192, &back).ok());
  EXPECT_TRUE(back == data);
}

TEST_P(TargetTest, ServesStorageOfOnesOwn) {
  for (const auto mode : {TestStore::Mode::kInside, TestStore::Mode::kThread}) {
    TestStore store(mode, kSize);
    store.Create(server_.context);
    server_.AddLun(0, store.backend);
    {
      const auto disk = server_.Disk();
      ASSERT_TRUE(disk->Open().ok());
      EXPECT_EQ(disk->info().size_bytes, kSize);
      WriteAndReadBack(disk.get());
      EXPECT_TRUE(disk->Run(Op::kFlush, 0, 0).ok());
      EXPECT_EQ(store.flushes(), 1);
      EXPECT_TRUE(disk->Run(Op::kUnmap, 8192, 4096).ok());
      std::string zeroes(4096, 'x');
      EXPECT_TRUE(disk->Read(8192, &zeroes).ok());
      EXPECT_TRUE(zeroes == std::string(4096, '\0'));
      // It has no such operation: zeroes are written.
      EXPECT_TRUE(disk->Run(Op::kWriteZeroes, 0, 64 << 10).ok());
    }
    EXPECT_EQ(skiff_backend_close(store.backend), -EBUSY);
    EXPECT_THAT(skiff_last_error(), HasSubstr("LUN 0"));
    EXPECT_EQ(skiff_target_remove_lun(server_.target, 0, nullptr, nullptr), 0)
        << skiff_last_error();
    EXPECT_EQ(store.unused(), 1);
    EXPECT_EQ(skiff_backend_close(store.backend), 0) << skiff_last_error();
  }
}

TEST_P(TargetTest, ServesMemoryAndFiles) {
  skiff_backend* ram = nullptr;
  skiff_ram_options memory;
  SKIFF_INIT(memory);
  memory.size_bytes = kSize;
  ASSERT_EQ(skiff_backend_create_ram(server_.context, &memory, &ram), 0)
      << skiff_last_error();
  const char* const directory = std::getenv("TEST_TMPDIR");
  const std::string path = std::string(directory) + "/disk.img";
  unlink(path.c_str());
  skiff_backend* file = nullptr;
  skiff_file_options options;
  SKIFF_INIT(options);
  options.path = path.c_str();
  options.size_bytes = kSize;
  ASSERT_EQ(skiff_backend_create_file(server_.context, &options, &file), 0)
      << skiff_last_error();
  // Memory of the program's own.
  std::string bytes(kSize, '\0');
  skiff_backend* own = nullptr;
  TestStore store(TestStore::Mode::kInside, kSize);
  skiff_backend_options direct = store.Options();
  direct.memory = bytes.data();
  const skiff_backend_ops ops = TestStore::Ops();
  ASSERT_EQ(skiff_backend_create(server_.context, &ops, &direct, &own), 0)
      << skiff_last_error();
  server_.AddLun(0, ram);
  server_.AddLun(1, file);
  server_.AddLun(2, own);
  for (const uint64_t lun : {0, 1, 2}) {
    const auto disk = server_.Disk(lun);
    ASSERT_TRUE(disk->Open().ok());
    WriteAndReadBack(disk.get());
  }
  EXPECT_TRUE(bytes.substr(8192, 4096) == Pattern(4096, 'a'));
  for (skiff_backend* backend : {ram, file, own}) {
    EXPECT_EQ(skiff_backend_resize(backend, 2 * kSize), -EOPNOTSUPP);
  }
  server_.Close();
  for (skiff_backend* backend : {ram, file, own}) {
    EXPECT_TRUE(
        server_.Await([backend] { return skiff_backend_close(backend) == 0; }));
  }
}

TEST_P(TargetTest, RemovesALunWhileCommandsAreInFlight) {
  for (const bool can_cancel : {false, true}) {
    TestStore store(TestStore::Mode::kHeld, kSize);
    store.can_cancel = can_cancel;
    store.Create(server_.context);
    server_.AddLun(5, store.backend);
    TestIo ios[4];
    const auto disk = server_.Disk(5);
    ASSERT_TRUE(disk->Open().ok());
    for (TestIo& io : ios) {
      io.data.resize(4096);
      io.io.length = 4096;
      disk->Start(&io);
    }
    EXPECT_TRUE(disk->RunUntil([&] { return store.held() == 4; }));
    Outcome done;
    int closed = 1;
    done.then = [&] { closed = skiff_backend_close(store.backend); };
    ASSERT_EQ(skiff_target_remove_lun(server_.target, 5, &Outcome::Done, &done),
              0)
        << skiff_last_error();
    EXPECT_EQ(skiff_target_remove_lun(server_.target, 5, &Outcome::Done, &done),
              -ENOENT);
    EXPECT_FALSE(done.times() > 0 && store.held() > 0);
    if (!can_cancel) {
      EXPECT_TRUE(disk->RunUntil([&] { return store.cancels() == 4; }));
      EXPECT_FALSE(disk->RunUntil([&] { return done.times() > 0; },
                                  absl::Milliseconds(50)))
          << "the backend still has requests";
      EXPECT_EQ(skiff_backend_close(store.backend), -EBUSY);
      EXPECT_THAT(skiff_last_error(), HasSubstr("removal"));
      EXPECT_EQ(store.Release(), 4u);
    }
    EXPECT_TRUE(disk->RunUntil([&] { return done.times() > 0; }));
    EXPECT_EQ(done.result(), 0) << done.message();
    EXPECT_EQ(closed, 0);
    EXPECT_EQ(store.held(), 0u);
    EXPECT_TRUE(disk->RunUntil([&] {
      for (const TestIo& io : ios) {
        if (!io.finished) return false;
      }
      return true;
    }));
    for (const TestIo& io : ios) EXPECT_FALSE(io.io.status.ok());
  }
}

TEST_P(TargetTest, ResizesWhileItIsServed) {
  TestStore store(TestStore::Mode::kInside, 2 * kSize);
  skiff_backend_options options = store.Options();
  options.size_bytes = kSize;
  const skiff_backend_ops ops = TestStore::Ops();
  ASSERT_EQ(
      skiff_backend_create(server_.context, &ops, &options, &store.backend), 0);
  server_.AddLun(0, store.backend);
  server_.AddLun(1, store.backend);
  const auto disk = server_.Disk(1);
  ASSERT_TRUE(disk->Open().ok());
  const int before = disk->attentions();
  EXPECT_FALSE(disk->Write(kSize, std::string(512, 'x')).ok());
  EXPECT_EQ(skiff_backend_resize(store.backend, 2 * kSize - 1), -EINVAL);
  EXPECT_THAT(skiff_last_error(), HasSubstr("512"));
  ASSERT_EQ(skiff_backend_resize(store.backend, 2 * kSize), 0)
      << skiff_last_error();
  ASSERT_TRUE(disk->Open().ok());
  EXPECT_GT(disk->attentions(), before);
  EXPECT_EQ(disk->info().size_bytes, 2 * kSize);
  EXPECT_TRUE(disk->Write(kSize, std::string(512, 'x')).ok());
  for (const uint64_t lun : {0, 1}) {
    EXPECT_EQ(skiff_target_remove_lun(server_.target, lun, nullptr, nullptr),
              0);
  }
  EXPECT_EQ(skiff_backend_close(store.backend), 0) << skiff_last_error();
}

TEST_P(TargetTest, TellsInitiatorsOfErrors) {
  TestStore store(TestStore::Mode::kThread, kSize);
  store.Create(server_.context);
  server_.AddLun(0, store.backend);
  const auto disk = server_.Disk();
  ASSERT_TRUE(disk->Open().ok());
  std::string data(512, 'x');
  store.error = -EIO;
  EXPECT_FALSE(disk->Read(0, &data).ok());
  store.error = -ENOSPC;
  EXPECT_EQ(disk->Write(0, data).code(), absl::StatusCode::kResourceExhausted);
  store.error = 0;
  EXPECT_TRUE(disk->Write(0, data).ok());
  EXPECT_EQ(server_.Lines("read of 512 bytes at byte 0"), 1);
  struct Seen {
    int luns = 0;
    uint64_t failed_reads = 0, failed_writes = 0, size = 0;
    std::string medium;
  } seen;
  EXPECT_EQ(skiff_target_luns(
                server_.target,
                [](void* user, const skiff_lun_info* info) {
                  auto* const out = static_cast<Seen*>(user);
                  ++out->luns;
                  out->failed_reads = info->failed_reads;
                  out->failed_writes = info->failed_writes;
                  out->size = info->size_bytes;
                  out->medium = info->medium;
                  return 0;
                },
                &seen),
            0);
  EXPECT_EQ(seen.luns, 1);
  EXPECT_EQ(seen.failed_reads, 1u);
  EXPECT_EQ(seen.failed_writes, 1u);
  EXPECT_EQ(seen.size, kSize);
  EXPECT_EQ(seen.medium, "a store of the test's");
  EXPECT_EQ(skiff_target_remove_lun(server_.target, 0, nullptr, nullptr), 0);
  EXPECT_EQ(skiff_backend_close(store.backend), 0) << skiff_last_error();
}

struct Sessions {
  std::vector<uint64_t> ids;
  std::vector<std::string> initiators;
  std::string target;
  uint64_t commands = 0;

  static int Each(void* user, const skiff_session_info* info) {
    auto* const self = static_cast<Sessions*>(user);
    self->ids.push_back(info->id);
    self->initiators.emplace_back(info->initiator);
    self->target = info->target;
    self->commands += info->commands;
    return 0;
  }
};

TEST_P(TargetTest, ListsSessionsAndDropsOne) {
  TestStore store(TestStore::Mode::kInside, kSize);
  store.Create(server_.context);
  server_.AddLun(0, store.backend);
  const auto disk = server_.Disk(0, "iqn.2026-11.org.example:one");
  const auto other = server_.Disk(0, "iqn.2026-11.org.example:two");
  ASSERT_TRUE(disk->Open().ok());
  ASSERT_TRUE(other->Open().ok());
  Sessions seen;
  EXPECT_EQ(
      skiff_server_sessions(server_.server, &Sessions::Each, nullptr, &seen), 0)
      << skiff_last_error();
  EXPECT_THAT(seen.initiators,
              ::testing::UnorderedElementsAre("iqn.2026-11.org.example:one",
                                              "iqn.2026-11.org.example:two"));
  EXPECT_EQ(seen.target, TestServer::kName);
  EXPECT_GT(seen.commands, 0u);
  EXPECT_EQ(
      skiff_server_sessions(
          server_.server, [](void*, const skiff_session_info*) { return 42; },
          nullptr, nullptr),
      42);

  const size_t which = seen.initiators[0].back() == 'e' ? 0 : 1;
  Outcome done;
  EXPECT_EQ(skiff_server_drop_session(server_.server, seen.ids[which],
                                      &Outcome::Done, &done),
            0)
      << skiff_last_error();
  EXPECT_TRUE(server_.Await(done));
  EXPECT_EQ(done.result(), 0) << done.message();
  EXPECT_TRUE(disk->RunUntil([&] { return !disk->connected(); }));
  EXPECT_EQ(
      skiff_server_drop_session(server_.server, ~uint64_t{0}, nullptr, nullptr),
      -ENOENT);
  std::string data(512, 'x');
  EXPECT_TRUE(other->Read(0, &data).ok());
  EXPECT_EQ(skiff_target_remove_lun(server_.target, 0, nullptr, nullptr), 0);
  EXPECT_EQ(skiff_backend_close(store.backend), 0) << skiff_last_error();
}

TEST_P(TargetTest, ClosesAPortalAndItsSessionsGoOn) {
  TestStore store(TestStore::Mode::kInside, kSize);
  store.Create(server_.context);
  server_.AddLun(0, store.backend);
  const auto disk = server_.Disk();
  ASSERT_TRUE(disk->Open().ok());
  EXPECT_EQ(skiff_server_close_portal(server_.server, server_.portal.c_str(),
                                      nullptr, nullptr),
            0)
      << skiff_last_error();
  EXPECT_EQ(skiff_server_close_portal(server_.server, server_.portal.c_str(),
                                      nullptr, nullptr),
            -ENOENT);
  std::string data(512, 'x');
  EXPECT_TRUE(disk->Read(0, &data).ok());
  EXPECT_FALSE(server_.Disk()->Open().ok());
  EXPECT_EQ(skiff_target_remove_lun(server_.target, 0, nullptr, nullptr), 0);
  EXPECT_EQ(skiff_backend_close(store.backend), 0) << skiff_last_error();
}

TEST_P(TargetTest, RemovesATargetWithItsSessions) {
  TestStore store(TestStore::Mode::kInside, kSize);
  store.Create(server_.context);
  server_.AddLun(0, store.backend);
  const auto disk = server_.Disk();
  ASSERT_TRUE(disk->Open().ok());
  EXPECT_EQ(skiff_target_close(server_.target), -EBUSY);
  EXPECT_EQ(skiff_server_add_target(server_.server, server_.target, nullptr),
            -EEXIST);
  Outcome done;
  int closed = 1;
  done.then = [&] { closed = skiff_target_close(server_.target); };
  ASSERT_EQ(skiff_server_remove_target(server_.server, server_.target, 0,
                                       &Outcome::Done, &done),
            0)
      << skiff_last_error();
  EXPECT_TRUE(disk->RunUntil([&] { return done.times() > 0; }));
  EXPECT_EQ(done.result(), 0) << done.message();
  EXPECT_EQ(closed, 0);
  server_.target = nullptr;
  EXPECT_TRUE(
      server_.Await([&] { return skiff_backend_close(store.backend) == 0; }));
}

// Who may come, and what he may do.
struct Access {
  static int Admit(void*, const skiff_initiator_id* who) {
    EXPECT_THAT(who->initiator_port, HasSubstr(who->initiator));
    return std::string(who->initiator).ends_with(":nobody") ? -EACCES : 0;
  }
  static uint32_t Rights(void*, const skiff_initiator_id* who, uint64_t) {
    return std::string(who->initiator).ends_with(":reader")
               ? SKIFF_ACCESS_IDENTIFY | SKIFF_ACCESS_READ
               : SKIFF_ACCESS_ALL;
  }
};

TEST_P(TargetTest, AsksWhoMayDoWhat) {
  skiff_access_ops access;
  SKIFF_INIT(access);
  access.admit = &Access::Admit;
  access.rights = &Access::Rights;
  skiff_target* guarded = nullptr;
  const char name[] = "iqn.2026-11.org.example:guarded";
  ASSERT_EQ(skiff_target_create(server_.context, name, &access, &guarded), 0)
      << skiff_last_error();
  TestStore store(TestStore::Mode::kInside, kSize);
  store.Create(server_.context);
  ASSERT_EQ(skiff_target_add_lun(guarded, 0, store.backend, nullptr), 0);
  ASSERT_EQ(skiff_server_add_target(server_.server, guarded, nullptr), 0);
  const auto as = [&](const char* who) {
    return std::make_unique<TestDisk>(
        server_.portal, name, 0, [this] { server_.Turn(); },
        std::string("iqn.2026-11.org.example:") + who);
  };
  EXPECT_FALSE(as("nobody")->Open().ok());
  const std::string data(512, 'x');
  const auto reader = as("reader");
  ASSERT_TRUE(reader->Open().ok());
  std::string back(512, 'y');
  EXPECT_TRUE(reader->Read(0, &back).ok());
  EXPECT_EQ(reader->Write(0, data).code(), absl::StatusCode::kPermissionDenied);
  const auto writer = as("writer");
  ASSERT_TRUE(writer->Open().ok());
  EXPECT_TRUE(writer->Write(0, data).ok());
  EXPECT_EQ(
      skiff_server_remove_target(server_.server, guarded, 0, nullptr, nullptr),
      0)
      << skiff_last_error();
  EXPECT_EQ(skiff_target_remove_lun(guarded, 0, nullptr, nullptr), 0);
  EXPECT_EQ(skiff_target_close(guarded), 0) << skiff_last_error();
  EXPECT_EQ(skiff_backend_close(store.backend), 0) << skiff_last_error();
}

// What a program gives up in a hurry.
TEST_P(TargetTest, EndsWithCommandsInFlight) {
  TestStore store(TestStore::Mode::kHeld, kSize);
  store.can_cancel = true;
  store.Create(server_.context);
  server_.AddLun(0, store.backend);
  TestIo io;
  io.data.resize(4096);
  io.io.length = 4096;
  const auto disk = server_.Disk();
  ASSERT_TRUE(disk->Open().ok());
  disk->Start(&io);
  EXPECT_TRUE(disk->RunUntil([&] { return store.held() == 1; }));
  server_.Close();
  EXPECT_EQ(store.cancels(), 1);
  EXPECT_TRUE(
      server_.Await([&] { return skiff_backend_close(store.backend) == 0; }));
  EXPECT_EQ(skiff_backend_complete(store.backend, 1, 0), -EBADF);
}

TEST_P(TargetTest, ClosesThingsInCallbacks) {
  // A server from inside the list of its sessions.
  Outcome done;
  struct Both {
    TestServer* server;
    Outcome* done;
    int closed = 1;
  } both = {&server_, &done};
  TestStore store(TestStore::Mode::kInside, kSize);
  store.Create(server_.context);
  server_.AddLun(0, store.backend);
  const auto disk = server_.Disk();
  ASSERT_TRUE(disk->Open().ok());
  EXPECT_EQ(
      skiff_server_sessions(
          server_.server,
          [](void* user, const skiff_session_info*) {
            auto* const with = static_cast<Both*>(user);
            EXPECT_EQ(
                skiff_server_close(with->server->server, 0, nullptr, nullptr),
                -EDEADLK);
            with->closed = skiff_server_close(with->server->server, 0,
                                              &Outcome::Done, with->done);
            EXPECT_EQ(skiff_context_close(with->server->context), -EDEADLK);
            return 0;
          },
          nullptr, &both),
      0);
  EXPECT_EQ(both.closed, 0);
  EXPECT_EQ(skiff_server_close(server_.server, 0, nullptr, nullptr), -EBADF);
  server_.server = nullptr;
  EXPECT_TRUE(server_.Await(done));
  EXPECT_EQ(skiff_context_close(server_.context), -EBUSY);
  EXPECT_EQ(skiff_target_remove_lun(server_.target, 0, nullptr, nullptr), 0);
  EXPECT_EQ(skiff_backend_close(store.backend), 0) << skiff_last_error();
}

}  // namespace
}  // namespace skiff::library
