#include "tools/management/unix_listener.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace skiff::tools {
namespace {

using ::testing::HasSubstr;

class UnixListenerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(mkdtemp(folder_), nullptr);
    options_.path = std::string(folder_) + "/socket";
  }
  void TearDown() override {
    listener_.reset();
    for (const int fd : accepted_) close(fd);
    unlink(options_.path.c_str());
    rmdir(folder_);
  }

  absl::Status Start() {
    auto started = UnixListener::Start(
        options_,
        [this](int fd) {
          const std::lock_guard<std::mutex> lock(mutex_);
          accepted_.push_back(fd);
          changed_.notify_all();
        },
        [this](const std::string& message) {
          const std::lock_guard<std::mutex> lock(mutex_);
          warnings_ += message;
        });
    if (!started.ok()) return started.status();
    listener_ = *std::move(started);
    return absl::OkStatus();
  }

  // -1: refused.
  int Connect() const {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, options_.path.data(), options_.path.size());
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(fd, reinterpret_cast<const sockaddr*>(&address),
                sizeof(address)) == 0) {
      return fd;
    }
    close(fd);
    return -1;
  }

  void WaitForAccepted(size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return accepted_.size() >= count; });
  }

  std::string Warnings() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return warnings_;
  }

  char folder_[32] = "/tmp/skiff-listen-XXXXXX";
  UnixListener::Options options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int> accepted_;
  std::string warnings_;
  std::unique_ptr<UnixListener> listener_;
};

TEST_F(UnixListenerTest, HasItsModeAndGoes) {
  options_.mode = 0640;
  ASSERT_TRUE(Start().ok());
  struct stat there = {};
  ASSERT_EQ(stat(options_.path.c_str(), &there), 0);
  EXPECT_EQ(there.st_mode & 0777, 0640U);
  listener_.reset();
  EXPECT_NE(stat(options_.path.c_str(), &there), 0);
}

TEST_F(UnixListenerTest, AnotherThatTookItsPlaceStays) {
  ASSERT_TRUE(Start().ok());
  unlink(options_.path.c_str());
  std::unique_ptr<UnixListener> first = std::move(listener_);
  ASSERT_TRUE(Start().ok());
  first.reset();
  const int fd = Connect();
  EXPECT_GE(fd, 0);
  close(fd);
}

TEST_F(UnixListenerTest, AConnectionThatWentMakesRoom) {
  options_.max_connections = 1;
  ASSERT_TRUE(Start().ok());
  for (size_t i = 1; i <= 3; ++i) {
    const int fd = Connect();
    WaitForAccepted(i);
    const int more = Connect();
    char byte = 0;
    EXPECT_EQ(read(more, &byte, 1), 0);  // Closed at once.
    close(more);
    close(fd);
    // It is seen before the next one comes: hanging up came first.
  }
  EXPECT_THAT(Warnings(), HasSubstr("refuses connections"));
}

TEST_F(UnixListenerTest, APathThatIsTooLongIsAnError) {
  options_.path = std::string(folder_) + "/" + std::string(200, 'x');
  EXPECT_THAT(std::string(Start().message()), HasSubstr("107 bytes at most"));
}

}  // namespace
}  // namespace skiff::tools
