#include "transport/system/system_library.h"

#include <dlfcn.h>
#include <signal.h>

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace skiff::transport {
namespace {

using ::testing::HasSubstr;

int (*real_puts)(const char*) = nullptr;
int (*real_none)() = nullptr;

const SystemLibrary::Function kPuts[] = {
    {"puts", "GLIBC_2.2.5", reinterpret_cast<void**>(&real_puts)}};
const SystemLibrary::Function kNone[] = {
    {"skiff_none", "GLIBC_2.2.5", reinterpret_cast<void**>(&real_none)}};

auto HandlerOf(int number) {
  struct sigaction action = {};
  EXPECT_EQ(sigaction(number, nullptr, &action), 0);
  return action.sa_handler;
}

void Handler(int) {}

// Libraries stay for the life of the process, as everywhere.
TEST(SystemLibraryTest, SaysWhatToInstall) {
  static SystemLibrary library("libskiff_none.so.1", "libskiff-none1", {});
  EXPECT_EQ(library.Load(),
            absl::UnimplementedError("libskiff_none.so.1 is not installed: apt "
                                     "install libskiff-none1"));
  // It stays as it was.
  EXPECT_TRUE(absl::IsUnimplemented(library.Load()));
}

TEST(SystemLibraryTest, SaysWhenItIsBroken) {
  static SystemLibrary library("/dev/null", "broken1", {});
  const absl::Status status = library.Load();
  EXPECT_TRUE(absl::IsUnimplemented(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("cannot load"));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("apt install --reinstall broken1"));
}

TEST(SystemLibraryTest, SaysWhenItIsAnotherVersion) {
  static SystemLibrary library("libc.so.6", "libc6", kNone);
  EXPECT_THAT(std::string(library.Load().message()),
              HasSubstr("skiff_none@GLIBC_2.2.5 is missing; upgrade"));
}

TEST(SystemLibraryTest, EndsWhoDoesNotAsk) {
  static SystemLibrary library("libskiff_none.so.1", "libskiff-none1", {});
  EXPECT_DEATH(library.Require(), "libskiff_none.so.1 is not installed");
}

#if defined(__x86_64__)
TEST(SystemLibraryTest, BindsFunctions) {
  static SystemLibrary library("libc.so.6", "libc6", kPuts);
  ASSERT_TRUE(library.Load().ok()) << library.Load();
  EXPECT_GE(real_puts("called"), 0);
}
#endif

TEST(SystemLibraryTest, GivesSignalsBack) {
  static const std::string kPath = std::string(getenv("TEST_SRCDIR")) + "/" +
                                   getenv("TEST_WORKSPACE") +
                                   "/transport/system/libtakes_signals.so";
  const auto of_segv = HandlerOf(SIGSEGV);  // A sanitizer's, perhaps.
  const auto of_abort = HandlerOf(SIGABRT);
  signal(SIGHUP, SIG_IGN);
  signal(SIGTERM, Handler);
  signal(SIGUSR1, SIG_DFL);
  static SystemLibrary library(kPath.c_str(), "test", {});
  ASSERT_TRUE(library.Load().ok()) << library.Load();
  EXPECT_EQ(HandlerOf(SIGSEGV), of_segv);
  EXPECT_EQ(HandlerOf(SIGABRT), of_abort);
  EXPECT_EQ(HandlerOf(SIGHUP), SIG_IGN);
  EXPECT_EQ(HandlerOf(SIGTERM), &Handler);
  EXPECT_EQ(HandlerOf(SIGUSR1), SIG_DFL);
  // It was there, and is still.
  void* const again = dlopen(kPath.c_str(), RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(again, nullptr);
  EXPECT_NE(dlsym(again, "SkiffTestAnswer"), nullptr);
  dlclose(again);
}

}  // namespace
}  // namespace skiff::transport
