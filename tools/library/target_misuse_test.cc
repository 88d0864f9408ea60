// Mistakes with the target's functions of the C interface: each has an error
// that names it.

#include <cerrno>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/library/target_test_util.h"

namespace skiff::library {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kSize = 1 << 20;

// `call` fails so, and in these words.
void ExpectError(int result, int error, const std::string& words) {
  EXPECT_EQ(result, -error) << words;
  EXPECT_THAT(skiff_last_error(), HasSubstr(words));
}

// With that many threads.
class MisuseTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  MisuseTest() : server_(GetParam()) {}

  int Create(const skiff_backend_ops& ops, const skiff_backend_options& o) {
    skiff_backend* backend = nullptr;
    const int result =
        skiff_backend_create(server_.context, &ops, &o, &backend);
    EXPECT_EQ(backend == nullptr, result != 0);
    if (result == 0) {
      EXPECT_EQ(skiff_backend_close(backend), 0);
    }
    return result;
  }

  TestServer server_;
};

INSTANTIATE_TEST_SUITE_P(Contexts, MisuseTest, ::testing::Values(0u, 2u),
                         [](const auto& info) {
                           return info.param == 0 ? std::string("OwnLoop")
                                                  : std::string("Threads");
                         });

TEST_P(MisuseTest, NullHandles) {
  skiff_backend* backend = nullptr;
  skiff_target* target = nullptr;
  skiff_server* server = nullptr;
  const skiff_backend_ops ops = TestStore::Ops();
  TestStore store(TestStore::Mode::kInside, kSize);
  const skiff_backend_options options = store.Options();
  ExpectError(skiff_backend_create(nullptr, &ops, &options, &backend), EINVAL,
              "skiff_context is NULL");
  ExpectError(skiff_backend_create(server_.context, &ops, &options, nullptr),
              EINVAL, "skiff_backend");
  ExpectError(skiff_target_create(nullptr, "iqn.2026-11.x:y", nullptr, &target),
              EINVAL, "skiff_context is NULL");
  ExpectError(skiff_target_create(server_.context, nullptr, nullptr, &target),
              EINVAL, "name");
  ExpectError(skiff_server_create(nullptr, nullptr, &server), EINVAL,
              "skiff_context is NULL");
  ExpectError(skiff_server_create(server_.context, nullptr, nullptr), EINVAL,
              "skiff_server");
  ExpectError(skiff_backend_complete(nullptr, 1, 0), EINVAL,
              "skiff_backend is NULL");
  ExpectError(skiff_backend_resize(nullptr, kSize), EINVAL,
              "skiff_backend is NULL");
  ExpectError(skiff_backend_close(nullptr), EINVAL, "skiff_backend is NULL");
  ExpectError(skiff_target_add_lun(nullptr, 0, nullptr, nullptr), EINVAL,
              "skiff_target is NULL");
  ExpectError(skiff_target_add_lun(server_.target, 0, nullptr, nullptr), EINVAL,
              "skiff_backend is NULL");
  ExpectError(skiff_target_remove_lun(nullptr, 0, nullptr, nullptr), EINVAL,
              "skiff_target is NULL");
  ExpectError(skiff_target_luns(server_.target, nullptr, nullptr), EINVAL,
              "each is NULL");
  ExpectError(skiff_target_close(nullptr), EINVAL, "skiff_target is NULL");
  ExpectError(skiff_server_listen(nullptr, "tcp://127.0.0.1:0", nullptr, 0),
              EINVAL, "skiff_server is NULL");
  ExpectError(skiff_server_listen(server_.server, nullptr, nullptr, 0), EINVAL,
              "address is NULL");
  ExpectError(
      skiff_server_close_portal(server_.server, nullptr, nullptr, nullptr),
      EINVAL, "address is NULL");
  ExpectError(skiff_server_add_target(server_.server, nullptr, nullptr), EINVAL,
              "skiff_target is NULL");
  ExpectError(
      skiff_server_remove_target(server_.server, nullptr, 0, nullptr, nullptr),
      EINVAL, "skiff_target is NULL");
  ExpectError(skiff_server_sessions(server_.server, nullptr, nullptr, nullptr),
              EINVAL, "each is NULL");
  ExpectError(skiff_server_close(nullptr, 0, nullptr, nullptr), EINVAL,
              "skiff_server is NULL");
}

TEST_P(MisuseTest, HandlesOfAnotherKind) {
  ExpectError(
      skiff_backend_close(reinterpret_cast<skiff_backend*>(server_.target)),
      EBADF, "skiff_target");
  ExpectError(
      skiff_target_close(reinterpret_cast<skiff_target*>(server_.server)),
      EBADF, "skiff_server");
  int nothing = 0;
  ExpectError(skiff_server_close(reinterpret_cast<skiff_server*>(&nothing), 0,
                                 nullptr, nullptr),
              EBADF, "is no handle");
}

TEST_P(MisuseTest, OptionsOfABackend) {
  TestStore store(TestStore::Mode::kInside, kSize);
  const skiff_backend_ops ops = TestStore::Ops();
  const skiff_backend_options good = store.Options();
  EXPECT_EQ(Create(ops, good), 0) << skiff_last_error();
  const auto with =
      [&](const std::function<void(skiff_backend_options*)>& set) {
        skiff_backend_options options = good;
        set(&options);
        return Create(ops, options);
      };
  ExpectError(with([](auto* o) { o->size_bytes = 0; }), EINVAL, "size_bytes");
  ExpectError(with([](auto* o) { o->size_bytes = 1000; }), EINVAL,
              "size_bytes is 1000");
  ExpectError(with([](auto* o) { o->block_size = 513; }), EINVAL,
              "block_size is 513");
  ExpectError(with([](auto* o) { o->physical_block_size = 3000; }), EINVAL,
              "physical_block_size is 3000");
  ExpectError(with([](auto* o) { o->unmap_granularity = 100; }), EINVAL,
              "unmap_granularity is 100");
  ExpectError(with([](auto* o) { o->buffer_alignment = 3; }), EINVAL,
              "buffer_alignment is 3");
  ExpectError(with([](auto* o) { o->flags = 1u << 30; }), EINVAL, "flags");
  ExpectError(with([](auto* o) { o->struct_size = 0; }), EINVAL,
              "struct_size of skiff_backend_options is 0");
  ExpectError(with([](auto* o) { o->struct_size = 13; }), EINVAL,
              "struct_size of skiff_backend_options is 13");
  skiff_backend_ops none = ops;
  none.submit = nullptr;
  ExpectError(Create(none, good), EINVAL, "submit()");
  none = ops;
  none.struct_size = 0;
  ExpectError(Create(none, good), EINVAL,
              "struct_size of skiff_backend_ops is 0");
  skiff_backend* backend = nullptr;
  ExpectError(skiff_backend_create(server_.context, nullptr, &good, &backend),
              EINVAL, "submit()");
}

// Of another version of the library.
TEST_P(MisuseTest, StructsOfAnotherSize) {
  struct {
    skiff_ram_options known;
    uint64_t more;
  } later;
  SKIFF_INIT(later);
  later.known.size_bytes = kSize;
  skiff_backend* backend = nullptr;
  ASSERT_EQ(skiff_backend_create_ram(server_.context, &later.known, &backend),
            0)
      << skiff_last_error();
  EXPECT_EQ(skiff_backend_close(backend), 0);
  later.more = 1;
  ExpectError(skiff_backend_create_ram(server_.context, &later.known, &backend),
              EINVAL, "does not have");
  // One that ends behind the size of the medium.
  skiff_ram_options earlier;
  SKIFF_INIT(earlier);
  earlier.struct_size = offsetof(skiff_ram_options, block_size);
  earlier.size_bytes = kSize;
  earlier.block_size = 77;  // Not of the struct.
  ASSERT_EQ(skiff_backend_create_ram(server_.context, &earlier, &backend), 0)
      << skiff_last_error();
  EXPECT_EQ(skiff_backend_close(backend), 0);
}

TEST_P(MisuseTest, MemoryAndFiles) {
  skiff_backend* backend = nullptr;
  skiff_ram_options ram;
  SKIFF_INIT(ram);
  ExpectError(skiff_backend_create_ram(server_.context, nullptr, &backend),
              EINVAL, "size_bytes is 0");
  ram.size_bytes = kSize;
  ram.flags = SKIFF_RAM_HUGE_PAGES | SKIFF_RAM_SMALL_PAGES;
  ExpectError(skiff_backend_create_ram(server_.context, &ram, &backend), EINVAL,
              "exclude");
  ram.flags = 0;
  ASSERT_EQ(skiff_backend_create_ram(server_.context, &ram, &backend), 0);
  ExpectError(skiff_backend_complete(backend, 1, 0), EINVAL,
              "not one of callbacks");
  ExpectError(skiff_backend_resize(backend, kSize), EOPNOTSUPP, "size");
  EXPECT_EQ(skiff_backend_close(backend), 0);
  skiff_file_options file;
  SKIFF_INIT(file);
  ExpectError(skiff_backend_create_file(server_.context, &file, &backend),
              EINVAL, "path");
  file.path = "/nowhere/at/all";
  ExpectError(skiff_backend_create_file(server_.context, &file, &backend),
              ENOENT, "/nowhere/at/all");
  EXPECT_EQ(backend, nullptr);
}

TEST_P(MisuseTest, LogicalUnits) {
  TestStore store(TestStore::Mode::kInside, kSize);
  store.Create(server_.context);
  server_.AddLun(3, store.backend);
  ExpectError(skiff_target_add_lun(server_.target, 3, store.backend, nullptr),
              EEXIST, "LUN 3");
  ExpectError(
      skiff_target_add_lun(server_.target, 16384, store.backend, nullptr),
      ERANGE, "16384");
  skiff_lun_options options;
  SKIFF_INIT(options);
  options.vendor = "more than eight";
  ExpectError(skiff_target_add_lun(server_.target, 4, store.backend, &options),
              EINVAL, "vendor");
  ExpectError(skiff_target_remove_lun(server_.target, 4, nullptr, nullptr),
              ENOENT, "LUN 4");
  // What failed has left nothing behind.
  EXPECT_EQ(skiff_target_remove_lun(server_.target, 3, nullptr, nullptr), 0);
  EXPECT_EQ(skiff_backend_close(store.backend), 0) << skiff_last_error();
  ExpectError(skiff_target_add_lun(server_.target, 3, store.backend, nullptr),
              EBADF, "skiff_backend was closed");
  ExpectError(skiff_backend_complete(store.backend, 1, 0), EBADF, "closed");
  ExpectError(skiff_backend_close(store.backend), EBADF, "closed");
}

TEST_P(MisuseTest, ThingsOfAnotherContext) {
  TestServer other(0);
  TestStore store(TestStore::Mode::kInside, kSize);
  store.Create(other.context);
  ExpectError(skiff_target_add_lun(server_.target, 0, store.backend, nullptr),
              EINVAL, "another context");
  ExpectError(skiff_server_add_target(server_.server, other.target, nullptr),
              EINVAL, "another context");
  EXPECT_EQ(skiff_backend_close(store.backend), 0);
}

TEST_P(MisuseTest, NamesAndAddresses) {
  skiff_target* target = nullptr;
  EXPECT_EQ(skiff_target_create(server_.context, "no name", nullptr, &target),
            -EINVAL);
  EXPECT_EQ(target, nullptr);
  skiff_server* const server = server_.server;
  ExpectError(skiff_server_listen(server, "127.0.0.1:3260", nullptr, 0), EINVAL,
              "127.0.0.1");
  ExpectError(skiff_server_listen(server, "pigeon://127.0.0.1:0", nullptr, 0),
              EPROTONOSUPPORT, "pigeon");
  ExpectError(skiff_server_listen(server, server_.portal.c_str(), nullptr, 0),
              EADDRINUSE, "127.0.0.1");
  char small[5] = "";
  ExpectError(skiff_server_listen(server, "tcp://127.0.0.1:0", small, 5),
              ERANGE, "5 bytes");
  ExpectError(skiff_server_listen(server, "tcp://127.0.0.1:0", small, 0),
              EINVAL, "bound_size");
  ExpectError(
      skiff_server_close_portal(server, "tcp://127.0.0.1:1", nullptr, nullptr),
      ENOENT, "tcp://127.0.0.1:1");
  skiff_server_options options;
  SKIFF_INIT(options);
  options.queue_depth = ~0u;
  skiff_server* another = nullptr;
  ExpectError(skiff_server_create(server_.context, &options, &another), EINVAL,
              "queue depth");
  EXPECT_EQ(another, nullptr);
}

TEST_P(MisuseTest, TargetsThatAreNotServed) {
  skiff_target* target = nullptr;
  ASSERT_EQ(skiff_target_create(server_.context, "iqn.2026-11.org.example:x",
                                nullptr, &target),
            0);
  ExpectError(
      skiff_server_remove_target(server_.server, target, 0, nullptr, nullptr),
      ENOENT, "iqn.2026-11.org.example:x");
  EXPECT_EQ(skiff_target_close(target), 0) << skiff_last_error();
  ExpectError(skiff_server_add_target(server_.server, target, nullptr), EBADF,
              "closed");
  ExpectError(skiff_target_close(target), EBADF, "closed");
}

// What waits, and what opens a portal, is for the thread that drives the
// context; the rest for any.
TEST_P(MisuseTest, CallsOnAnotherThread) {
  TestStore store(TestStore::Mode::kInside, kSize);
  store.Create(server_.context);
  server_.AddLun(0, store.backend);
  std::thread other([&] {
    const int wrong = GetParam() == 0 ? -EPERM : 0;
    EXPECT_EQ(
        skiff_server_listen(server_.server, "tcp://127.0.0.1:0", nullptr, 0),
        wrong);
    EXPECT_EQ(skiff_target_remove_lun(server_.target, 0, nullptr, nullptr),
              wrong);
    if (wrong != 0) {
      EXPECT_EQ(
          skiff_target_remove_lun(server_.target, 0, &skiff_ignore, nullptr), 0)
          << skiff_last_error();
    }
  });
  other.join();
  EXPECT_TRUE(
      server_.Await([&] { return skiff_backend_close(store.backend) == 0; }));
}

TEST_P(MisuseTest, WaitingInACallback) {
  TestStore store(TestStore::Mode::kInside, kSize);
  store.Create(server_.context);
  server_.AddLun(0, store.backend);
  server_.AddLun(1, store.backend);
  Outcome done;
  int waited = 1;
  int started = 1;
  done.then = [&] {
    waited = skiff_target_remove_lun(server_.target, 1, nullptr, nullptr);
    started =
        skiff_target_remove_lun(server_.target, 1, &skiff_ignore, nullptr);
  };
  ASSERT_EQ(skiff_target_remove_lun(server_.target, 0, &Outcome::Done, &done),
            0);
  EXPECT_TRUE(server_.Await(done));
  EXPECT_EQ(waited, -EDEADLK);
  EXPECT_EQ(started, 0);
  EXPECT_TRUE(
      server_.Await([&] { return skiff_backend_close(store.backend) == 0; }));
}

// From inside submit(), where requests are in flight.
TEST_P(MisuseTest, ClosingInSubmit) {
  struct Store {
    TestServer* server;
    skiff_backend* backend = nullptr;
    int close = 1, context = 1, resize = 1, twice = 1;
  } store = {&server_};
  skiff_backend_ops ops;
  SKIFF_INIT(ops);
  ops.submit = [](void* user, const skiff_request* request) {
    auto* const self = static_cast<Store*>(user);
    self->close = skiff_backend_close(self->backend);
    self->context = skiff_context_close(self->server->context);
    self->resize = skiff_backend_resize(self->backend, 2 * kSize);
    EXPECT_EQ(skiff_backend_complete(self->backend, request->id, 0), 0);
    self->twice = skiff_backend_complete(self->backend, request->id, 0);
  };
  skiff_backend_options options;
  SKIFF_INIT(options);
  options.size_bytes = kSize;
  options.user = &store;
  ASSERT_EQ(
      skiff_backend_create(server_.context, &ops, &options, &store.backend), 0);
  server_.AddLun(0, store.backend);
  const auto disk = server_.Disk();
  ASSERT_TRUE(disk->Open().ok());
  std::string data(512, 'x');
  EXPECT_TRUE(disk->Read(0, &data).ok());
  EXPECT_EQ(store.close, -EBUSY);
  EXPECT_EQ(store.context, -EDEADLK);
  EXPECT_EQ(store.resize, 0);
  EXPECT_EQ(store.twice, -EALREADY);
  EXPECT_EQ(skiff_target_remove_lun(server_.target, 0, nullptr, nullptr), 0);
  EXPECT_EQ(skiff_backend_close(store.backend), 0) << skiff_last_error();
}

}  // namespace
}  // namespace skiff::library
