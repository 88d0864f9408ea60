#include "tools/common/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace skiff::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;

// The other end, with a socket of its own.
class ServiceManagerTest : public ::testing::Test {
 protected:
  void TearDown() override {
    if (fd_ >= 0) close(fd_);
    unlink(path_.c_str());
    rmdir(folder_);
    for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"})
      unsetenv(name);
  }

  void Listen(const std::string& name) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    ASSERT_LT(name.size(), sizeof(address.sun_path));
    std::memcpy(address.sun_path, name.data(), name.size());
    if (name[0] == '@') address.sun_path[0] = '\0';
    if (name[0] == '/') unlink(name.c_str());
    fd_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&address),
                   offsetof(sockaddr_un, sun_path) + name.size()),
              0)
        << std::strerror(errno);
    setenv("NOTIFY_SOCKET", name.c_str(), 1);
  }

  std::string Receive() const {
    char message[4096];
    const ssize_t size = recv(fd_, message, sizeof(message), MSG_DONTWAIT);
    return size < 0 ? "nothing" : std::string(message, size);
  }

  static std::string Problem() {
    return std::string(ServiceManager::FromEnvironment().status().message());
  }

  // A folder whose name is short enough for sockets.
  char folder_[32] = "/tmp/skiff-notify-XXXXXX";
  const std::string path_ = absl::StrCat(mkdtemp(folder_), "/socket");
  int fd_ = -1;
};

TEST_F(ServiceManagerTest, WithoutOneNothingHappens) {
  setenv("WATCHDOG_USEC", "1000000", 1);
  const auto manager = ServiceManager::FromEnvironment();
  ASSERT_TRUE(manager.ok()) << manager.status();
  EXPECT_EQ(manager->watchdog(), absl::ZeroDuration());
  EXPECT_TRUE(manager->Ready("serving").ok());
  EXPECT_TRUE(manager->Alive().ok());
}

TEST_F(ServiceManagerTest, TellsWhatHappensToPathsAndAbstractNames) {
  for (const std::string& name : {path_, absl::StrCat("@skiff-", getpid())}) {
    Listen(name);
    const auto manager = ServiceManager::FromEnvironment();
    ASSERT_TRUE(manager.ok()) << manager.status();
    EXPECT_TRUE(manager->Ready("two\nlines").ok());
    EXPECT_EQ(Receive(), "READY=1\nSTATUS=two lines");
    EXPECT_TRUE(manager->Reloading().ok());
    EXPECT_THAT(Receive(), MatchesRegex("RELOADING=1\nMONOTONIC_USEC=[0-9]+"));
    EXPECT_TRUE(manager->Stopping("ends").ok());
    EXPECT_EQ(Receive(), "STOPPING=1\nSTATUS=ends");
    EXPECT_TRUE(manager->Alive().ok());
    EXPECT_EQ(Receive(), "WATCHDOG=1");
    close(fd_);
    EXPECT_THAT(std::string(manager->Alive().message()),
                HasSubstr(absl::StrCat(name, " 'WATCHDOG=1'")));
  }
}

TEST_F(ServiceManagerTest, ALongStatusIsCutBetweenCharacters) {
  Listen(path_);
  const auto manager = ServiceManager::FromEnvironment();
  ASSERT_TRUE(manager.ok()) << manager.status();
  const std::string start(1023, 'x');
  EXPECT_TRUE(manager->Stopping(start + "\u00e4 and more").ok());
  EXPECT_EQ(Receive(), "STOPPING=1\nSTATUS=" + start);
  EXPECT_TRUE(manager->Stopping(start + "yz").ok());
  EXPECT_EQ(Receive(), "STOPPING=1\nSTATUS=" + start + "y");
}

TEST_F(ServiceManagerTest, AWatchdogIsOfOneProcess) {
  setenv("NOTIFY_SOCKET", "/nowhere", 1);
  EXPECT_EQ(ServiceManager::FromEnvironment()->watchdog(),
            absl::ZeroDuration());
  setenv("WATCHDOG_USEC", "1500000", 1);
  EXPECT_EQ(ServiceManager::FromEnvironment()->watchdog(),
            absl::Milliseconds(1500));
  setenv("WATCHDOG_PID", absl::StrCat(getpid()).c_str(), 1);
  EXPECT_EQ(ServiceManager::FromEnvironment()->watchdog(),
            absl::Milliseconds(1500));
  setenv("WATCHDOG_PID", absl::StrCat(getppid()).c_str(), 1);
  EXPECT_EQ(ServiceManager::FromEnvironment()->watchdog(),
            absl::ZeroDuration());
}

TEST_F(ServiceManagerTest, SaysWhichVariableIsWrong) {
  for (const char* name : {"relative", "vsock:2:1234"}) {
    setenv("NOTIFY_SOCKET", name, 1);
    EXPECT_THAT(Problem(), HasSubstr(absl::StrCat("NOTIFY_SOCKET is '", name)));
  }
  setenv("NOTIFY_SOCKET", "@", 1);
  EXPECT_THAT(Problem(), HasSubstr("has 1 bytes"));
  setenv("NOTIFY_SOCKET", absl::StrCat("/", std::string(107, 'x')).c_str(), 1);
  EXPECT_THAT(Problem(), HasSubstr("has 108 bytes"));
  setenv("NOTIFY_SOCKET", "/nowhere", 1);
  for (const char* usec : {"0", "-1", "1s", "99999999999999999999"}) {
    setenv("WATCHDOG_USEC", usec, 1);
    EXPECT_THAT(Problem(), HasSubstr(absl::StrCat("WATCHDOG_USEC is '", usec)));
  }
}

// Takes messages with descriptors, and closes these.
TEST_F(ServiceManagerTest, KeepsDescriptors) {
  EXPECT_EQ(ServiceManager().Keep({0}).code(),
            absl::StatusCode::kFailedPrecondition);
  Listen(path_);
  const auto manager = ServiceManager::FromEnvironment();
  ASSERT_TRUE(manager.ok()) << manager.status();
  std::vector<std::string> told;
  size_t descriptors = 0;
  std::thread reader([&] {
    while (told.size() < 6) {
      char text[256];
      alignas(cmsghdr) char control[4096];
      iovec into = {text, sizeof(text)};
      msghdr header = {};
      header.msg_iov = &into;
      header.msg_iovlen = 1;
      header.msg_control = control;
      header.msg_controllen = sizeof(control);
      const ssize_t size = recvmsg(fd_, &header, 0);
      told.emplace_back(text, static_cast<size_t>(size));
      const cmsghdr* const rights = CMSG_FIRSTHDR(&header);
      const size_t count = rights == nullptr
                               ? 0
                               : (rights->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      if (told.back() != "BARRIER=1") descriptors += count;
      for (size_t i = 0; i < count; ++i) {
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(rights) + i * sizeof(int), sizeof(int));
        close(fd);
      }
    }
  });
  const absl::Status kept = manager->Keep(std::vector<int>(300, fd_));
  const absl::Status forgotten = manager->Forget();
  reader.join();
  EXPECT_TRUE(kept.ok()) << kept;
  EXPECT_TRUE(forgotten.ok()) << forgotten;
  EXPECT_EQ(descriptors, 300u);
  EXPECT_THAT(told, ElementsAre("FDSTORE=1\nFDNAME=skiff", "BARRIER=1",
                                "FDSTORE=1\nFDNAME=skiff", "BARRIER=1",
                                "FDSTOREREMOVE=1\nFDNAME=skiff", "BARRIER=1"));
}

TEST_F(ServiceManagerTest, WhatIsKeptForAnotherIsNotTaken) {
  setenv("LISTEN_FDS", "2", 1);
  setenv("LISTEN_PID", "1", 1);
  EXPECT_THAT(ServiceManager::TakeKept(), IsEmpty());
  unsetenv("LISTEN_PID");
  EXPECT_THAT(ServiceManager::TakeKept(), IsEmpty());
  unsetenv("LISTEN_FDS");
}

}  // namespace
}  // namespace skiff::tools
