#include <poll.h>
#include <skiff/skiff.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/common/version.h"
#include "tools/library/initiator_test_util.h"

namespace skiff::library {
namespace {

using ::testing::HasSubstr;
using ::testing::TestWithParam;
using ::testing::Values;

TEST(LibraryTest, TellsWhatItIs) {
  EXPECT_STREQ(skiff_version(), SKIFF_VERSION);
  EXPECT_STREQ(skiff_version(), tools::kVersion);
  EXPECT_EQ(std::to_string(SKIFF_VERSION_MAJOR) + "." +
                std::to_string(SKIFF_VERSION_MINOR),
            SKIFF_VERSION);
  EXPECT_EQ(skiff_has_transport("tcp"), 1);
  EXPECT_EQ(skiff_has_transport("auto"), 1);
  EXPECT_EQ(skiff_has_transport("pigeon"), 0);
  EXPECT_EQ(skiff_has_transport(nullptr), 0);
}

TEST(LibraryTest, RefusesStructsOfWrongSizes) {
  struct Later {
    skiff_context_options known;
    uint64_t more;
  } later;
  const auto create = [&later](size_t size) {
    later.known.struct_size = size;
    skiff_context* context = nullptr;
    const int result = skiff_context_create(&later.known, &context);
    EXPECT_EQ(context != nullptr, result == 0);
    if (context != nullptr) {
      EXPECT_EQ(skiff_context_close(context), 0);
    }
    return result;
  };
  SKIFF_INIT(later);
  EXPECT_EQ(create(0), -EINVAL);
  EXPECT_THAT(skiff_last_error(),
              HasSubstr("struct_size of skiff_context_options is 0: write "
                        "SKIFF_INIT()"));
  EXPECT_EQ(create(8), -EINVAL);
  EXPECT_EQ(create(3), -EINVAL);
  EXPECT_EQ(create(1 << 20), -EINVAL);
  EXPECT_THAT(skiff_last_error(), HasSubstr("is 1048576: it has to be "
                                            "sizeof(skiff_context_options)"));
  // Of older callers, and of newer ones that use nothing new.
  EXPECT_EQ(create(16), 0);
  EXPECT_EQ(create(sizeof(skiff_context_options)), 0);
  EXPECT_EQ(create(sizeof(later)), 0);
  later.more = 1;
  EXPECT_EQ(create(sizeof(later)), -EINVAL);
  EXPECT_THAT(skiff_last_error(),
              HasSubstr("sets a member at byte " +
                        std::to_string(sizeof(skiff_context_options)) +
                        ", which this version of the library (1.0) does not"));
}

TEST(LibraryTest, RefusesOptionsThatMakeNoSense) {
  const auto error_of = [](const skiff_context_options& options) {
    skiff_context* context = nullptr;
    EXPECT_EQ(skiff_context_create(&options, &context), -EINVAL);
    return std::string(skiff_last_error());
  };
  skiff_context_options options;
  SKIFF_INIT(options);
  options.flags = 1u << 7;
  EXPECT_THAT(error_of(options), HasSubstr("have 0x80"));
  options.flags = SKIFF_CONTEXT_SPIN | SKIFF_CONTEXT_ADAPTIVE_SPIN;
  EXPECT_THAT(error_of(options), HasSubstr("exclude each other"));
  SKIFF_INIT(options);
  options.alloc = [](void*, size_t, size_t) -> void* { return nullptr; };
  EXPECT_THAT(error_of(options), HasSubstr("alloc and free"));
  SKIFF_INIT(options);
  options.log_level = 9;
  EXPECT_THAT(error_of(options), HasSubstr("log_level is 9"));
  SKIFF_INIT(options);
  options.threads = 2;
  options.cpu_count = 1;
  EXPECT_THAT(error_of(options), HasSubstr("cpu_count is 1 with 2 threads"));
  options.cpu_count = 2;
  EXPECT_THAT(error_of(options), HasSubstr("cpus is NULL"));
  SKIFF_INIT(options);
  options.threads = 5000;
  EXPECT_THAT(error_of(options), HasSubstr("5000 threads are too many"));
  EXPECT_EQ(skiff_context_create(nullptr, nullptr), -EINVAL);
}

TEST(LibraryTest, RefusesWhatIsNoHandle) {
  EXPECT_EQ(skiff_context_close(nullptr), -EINVAL);
  EXPECT_STREQ(skiff_last_error(), "the skiff_context is NULL");
  int something = 0;
  auto* const garbage = reinterpret_cast<skiff_context*>(&something);
  EXPECT_EQ(skiff_context_close(garbage), -EBADF);
  EXPECT_EQ(skiff_context_fd(reinterpret_cast<skiff_context*>(~uintptr_t{0})),
            -EBADF);
  EXPECT_EQ(skiff_context_fd(reinterpret_cast<skiff_context*>(1)), -EBADF);

  skiff_context* context = nullptr;
  ASSERT_EQ(skiff_context_create(nullptr, &context), 0);
  auto* const wrong = reinterpret_cast<skiff_disk*>(context);
  EXPECT_EQ(skiff_disk_close(wrong, nullptr, nullptr), -EBADF);
  EXPECT_STREQ(skiff_last_error(),
               "a skiff_context was given where a skiff_disk is wanted");
  EXPECT_EQ(skiff_context_close(context), 0);
  EXPECT_EQ(skiff_context_close(context), -EBADF);
  EXPECT_STREQ(skiff_last_error(),
               "the skiff_context was closed before, or is no handle");
  // The place in the table is used again, and the old handle stays closed.
  skiff_context* next = nullptr;
  ASSERT_EQ(skiff_context_create(nullptr, &next), 0);
  EXPECT_EQ(skiff_context_poll(context), -EBADF);
  EXPECT_EQ(skiff_context_close(next), 0);
}

// Threads of this process.
size_t Threads() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<size_t>(std::distance(begin(tasks), end(tasks)));
}

TEST(LibraryTest, LeavesNoThreadBehind) {
  std::thread([] {}).join();  // With the first, sanitizers start their own.
  const size_t before = Threads();
  skiff_context_options options;
  SKIFF_INIT(options);
  options.threads = 2;
  skiff_context* context = nullptr;
  ASSERT_EQ(skiff_context_create(&options, &context), 0);
  // Looks up a name, on a thread that nobody owns.
  skiff_disk* disk = nullptr;
  EXPECT_LT(skiff_disk_open(context,
                            "iscsi://localhost:1/iqn.2026-11.org.example:a/0",
                            nullptr, nullptr, nullptr, &disk),
            0);
  EXPECT_GT(Threads(), before);
  EXPECT_EQ(skiff_context_close(context), 0) << skiff_last_error();
  EXPECT_EQ(Threads(), before);
}

TEST(LibraryTest, ErrorsAreOfTheirThread) {
  EXPECT_EQ(skiff_context_close(nullptr), -EINVAL);
  std::thread([] { EXPECT_STREQ(skiff_last_error(), ""); }).join();
  EXPECT_STREQ(skiff_last_error(), "the skiff_context is NULL");
}

// A context that the test's thread drives.
class DrivenContextTest : public ::testing::Test {
 protected:
  TestContext context_{0};
};

TEST_F(DrivenContextTest, CanBeWaitedForInALoopOfTheCallers) {
  const int fd = skiff_context_fd(context_.get());
  ASSERT_GE(fd, 0);
  while (skiff_context_poll(context_.get()) > 0) {
  }
  int timeout = 0;
  EXPECT_EQ(skiff_context_timeout(context_.get(), &timeout), 0);
  EXPECT_EQ(timeout, -1);
  int64_t deadline = 0;
  EXPECT_EQ(skiff_context_deadline(context_.get(), &deadline), 0);
  EXPECT_EQ(deadline, INT64_MAX);
  pollfd readable = {fd, POLLIN, 0};
  EXPECT_EQ(poll(&readable, 1, 0), 0);

  Outcome outcome;
  std::thread([&] {
    EXPECT_EQ(skiff_context_post(
                  context_.get(), 0,
                  [](void* user) { Outcome::Done(user, 0, ""); }, &outcome),
              0);
  }).join();
  EXPECT_EQ(poll(&readable, 1, 10000), 1);
  EXPECT_EQ(outcome.times(), 0);
  EXPECT_GT(skiff_context_poll(context_.get()), 0);
  EXPECT_EQ(outcome.times(), 1);
  EXPECT_EQ(skiff_context_wait(context_.get(), 1), 0);
  EXPECT_EQ(skiff_context_post(
                context_.get(), 1, [](void*) {}, nullptr),
            -ERANGE);
  EXPECT_EQ(skiff_context_post(context_.get(), 0, nullptr, nullptr), -EINVAL);
}

// A thread that posts, and a wait for each of what it posts.
TEST(LibraryTest, AnAdaptiveContextSleepsWhenNothingComes) {
  skiff_context_options options;
  SKIFF_INIT(options);
  options.flags = SKIFF_CONTEXT_ADAPTIVE_SPIN;
  skiff_context* context = nullptr;
  ASSERT_EQ(skiff_context_create(&options, &context), 0) << skiff_last_error();
  int ran = 0;
  for (int i = 1; i <= 100; ++i) {
    std::thread other([&] {
      skiff_context_post(
          context, 0, [](void* user) { ++*static_cast<int*>(user); }, &ran);
    });
    while (ran < i) ASSERT_GE(skiff_context_wait(context, -1), 0);
    other.join();
  }
  const clock_t before = clock();
  EXPECT_EQ(skiff_context_wait(context, 500), 0);
  EXPECT_LT(clock() - before, CLOCKS_PER_SEC / 4);
  int timeout_ms = 0;
  EXPECT_EQ(skiff_context_timeout(context, &timeout_ms), 0);
  EXPECT_NE(timeout_ms, 0);
  EXPECT_EQ(skiff_context_close(context), 0);
}

TEST_F(DrivenContextTest, BelongsToOneThread) {
  std::thread([this] {
    EXPECT_EQ(skiff_context_poll(context_.get()), -EPERM);
    EXPECT_THAT(skiff_last_error(), HasSubstr("skiff_context_adopt()"));
    EXPECT_EQ(skiff_context_wait(context_.get(), 0), -EPERM);
    EXPECT_EQ(skiff_context_close(context_.get()), -EPERM);
    int64_t deadline = 0;
    EXPECT_EQ(skiff_context_deadline(context_.get(), &deadline), -EPERM);
    EXPECT_EQ(skiff_context_adopt(context_.get()), 0);
    EXPECT_GE(skiff_context_poll(context_.get()), 0);
  }).join();
  EXPECT_EQ(skiff_context_poll(context_.get()), -EPERM);
  EXPECT_EQ(skiff_context_adopt(context_.get()), 0);
  EXPECT_GE(skiff_context_poll(context_.get()), 0);
}

// Both kinds, by how many threads they have.
class ContextTest : public TestWithParam<uint32_t> {
 protected:
  TestContext context_{GetParam()};
};

INSTANTIATE_TEST_SUITE_P(Kinds, ContextTest, Values(0, 2));

TEST_P(ContextTest, CallbacksMayNotWait) {
  context_.InCallback([this] {
    EXPECT_EQ(skiff_context_close(context_.get()), -EDEADLK);
    EXPECT_THAT(skiff_last_error(), HasSubstr("pass a callback"));
    std::array<char, 64> memory;
    EXPECT_EQ(skiff_memory_register(context_.get(), memory.data(), 64), 0);
    EXPECT_EQ(skiff_memory_unregister(context_.get(), memory.data(), nullptr,
                                      nullptr),
              -EDEADLK);
    EXPECT_EQ(skiff_memory_unregister(context_.get(), memory.data(),
                                      skiff_ignore, nullptr),
              0);
    // Other contexts may be waited for.
    skiff_context* other = nullptr;
    EXPECT_EQ(skiff_context_create(nullptr, &other), 0);
    EXPECT_EQ(skiff_context_wait(other, 1), 0);
    EXPECT_EQ(skiff_context_close(other), 0);
  });
  if (GetParam() == 0) return;
  EXPECT_EQ(skiff_context_fd(context_.get()), -EOPNOTSUPP);
  EXPECT_EQ(skiff_context_poll(context_.get()), -EOPNOTSUPP);
  EXPECT_EQ(skiff_context_adopt(context_.get()), -EOPNOTSUPP);
}

TEST_P(ContextTest, KnowsMemory) {
  std::array<char, 4096> memory;
  skiff_context* const context = context_.get();
  EXPECT_EQ(skiff_memory_register(context, memory.data(), 0), -EINVAL);
  EXPECT_EQ(skiff_memory_register(context, nullptr, 1), -EINVAL);
  EXPECT_EQ(skiff_memory_register(context, memory.data(), SIZE_MAX), -EINVAL);
  EXPECT_EQ(skiff_memory_register(context, memory.data() + 100, 100), 0);
  for (const int begin : {1, 100, 150, 199}) {
    EXPECT_EQ(skiff_memory_register(context, memory.data() + begin, 100),
              -EEXIST)
        << begin;
  }
  EXPECT_EQ(skiff_memory_register(context, memory.data() + 200, 100), 0);
  EXPECT_EQ(skiff_memory_unregister(context, memory.data(), nullptr, nullptr),
            -ENOENT);
  EXPECT_EQ(skiff_buffer_free(context, memory.data() + 100), -ENOENT);
  EXPECT_EQ(
      skiff_memory_unregister(context, memory.data() + 100, nullptr, nullptr),
      0);
  Outcome outcome;
  EXPECT_EQ(skiff_memory_unregister(context, memory.data() + 200, Outcome::Done,
                                    &outcome),
            0);
  EXPECT_TRUE(context_.Await([&] { return outcome.times() == 1; }));
  EXPECT_EQ(outcome.result(), 0);
}

// Counts what is allocated.
std::atomic<int> allocated = 0;

TEST(LibraryTest, GetsBuffersFromTheCallersAllocator) {
  for (const uint32_t threads : {0, 1}) {
    skiff_context_options options;
    SKIFF_INIT(options);
    options.threads = threads;
    options.alloc = [](void*, size_t size, size_t alignment) -> void* {
      if (size > 1 << 20) return nullptr;
      ++allocated;
      return std::aligned_alloc(alignment,
                                (size + alignment - 1) / alignment * alignment);
    };
    options.free = [](void*, void* memory, size_t size) {
      EXPECT_EQ(size, 5000u);
      --allocated;
      std::free(memory);
    };
    skiff_context* context = nullptr;
    ASSERT_EQ(skiff_context_create(&options, &context), 0);
    void* buffer = nullptr;
    EXPECT_EQ(skiff_buffer_alloc(context, 0, &buffer), -EINVAL);
    EXPECT_EQ(skiff_buffer_alloc(context, 2 << 20, &buffer), -ENOMEM);
    EXPECT_EQ(buffer, nullptr);
    ASSERT_EQ(skiff_buffer_alloc(context, 5000, &buffer), 0);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer) % 4096, 0u);
    EXPECT_EQ(skiff_memory_unregister(context, buffer, nullptr, nullptr),
              -ENOENT);
    EXPECT_EQ(skiff_context_close(context), -EBUSY);
    EXPECT_THAT(skiff_last_error(), HasSubstr("1 buffer: close"));
    EXPECT_EQ(skiff_buffer_free(context, buffer), 0);
    EXPECT_EQ(skiff_buffer_free(context, buffer), -ENOENT);
    EXPECT_EQ(skiff_context_close(context), 0);
    EXPECT_EQ(allocated, 0);
  }
}

TEST_P(ContextTest, AChildHasNoPartInIt) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    int64_t deadline = 0;
    void* buffer = nullptr;
    const bool refused =
        skiff_context_close(context_.get()) == -ECHILD &&
        skiff_context_poll(context_.get()) == -ECHILD &&
        skiff_context_deadline(context_.get(), &deadline) == -ECHILD &&
        skiff_buffer_alloc(context_.get(), 1, &buffer) == -ECHILD;
    _exit(refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace skiff::library
