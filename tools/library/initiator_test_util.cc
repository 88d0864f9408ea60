#include "tools/library/initiator_test_util.h"

#include <chrono>
#include <future>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "scsi/backend/ram_backend.h"
#include "transport/tcp/tcp_transport.h"

namespace skiff::library {

// A disk in memory whose size a test changes while nothing else is done.
class RamTarget::Resizable : public scsi::Backend {
 public:
  Resizable() : memory_(*scsi::MakeRamBackend({.size_bytes = kBytes})) {
    info_ = memory_->info();
  }
  scsi::BackendInfo info() const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return info_;
  }
  absl::StatusOr<std::unique_ptr<scsi::BackendChannel>> OpenChannel(
      transport::Reactor* reactor) override {
    return memory_->OpenChannel(reactor);
  }
  void set_size(uint64_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    info_.size_bytes = bytes;
  }

 private:
  const std::unique_ptr<scsi::Backend> memory_;
  mutable std::mutex mutex_;
  scsi::BackendInfo info_;  // Under `mutex_`.
};

RamTarget::RamTarget() {
  EXPECT_TRUE(registry_.Add(transport::MakeTcpTransport()).ok());
  threads_ = *transport::ReactorThreads::Start({});
  disk_ = std::make_shared<Resizable>();
  target_ = scsi::Target::Create(kName);
  EXPECT_TRUE(target_->AddLogicalUnit(disk_, {}).ok());
  scsi::LogicalUnitOptions second;
  second.lun = 1;
  EXPECT_TRUE(target_
                  ->AddLogicalUnit(
                      *scsi::MakeRamBackend({.size_bytes = kBytes / 2}), second)
                  .ok());
  server_ =
      *protocol::TargetServer::Create(&registry_, threads_->reactors(), {});
  EXPECT_TRUE(server_->AddTarget(target_).ok());
  threads_->RunOn(0, [this] {
    portal_ = absl::StrCat(
        "iscsi://", server_->Listen({"tcp", "127.0.0.1", 0, {}})->HostPort());
  });
}

RamTarget::~RamTarget() { Stop(); }

std::string RamTarget::Url(int lun) const {
  return absl::StrCat(portal_, "/", kName, "/", lun);
}

void RamTarget::Stop() {
  if (server_ == nullptr) return;
  std::promise<void> ended;
  server_->Shutdown(absl::ZeroDuration(), [&] { ended.set_value(); });
  ended.get_future().wait();
  threads_->Stop();
  server_.reset();
}

void RamTarget::Resize(uint64_t bytes) {
  threads_->RunOn(0, [&] {
    disk_->set_size(bytes);
    target_->NotifyBackendChanged(0);
  });
  // Once what it tells has come to its sessions, which are on that thread.
  threads_->RunOn(0, [] {});
}

TestContext::TestContext(uint32_t threads, uint32_t flags) : threads_(threads) {
  skiff_context_options options;
  SKIFF_INIT(options);
  options.threads = threads;
  options.flags = flags;
  options.log = Log;
  options.log_user = this;
  options.log_level = SKIFF_LOG_DEBUG;
  EXPECT_EQ(skiff_context_create(&options, &context_), 0) << skiff_last_error();
}

TestContext::~TestContext() {
  EXPECT_EQ(skiff_context_close(context_), 0) << skiff_last_error();
}

void TestContext::Log(void* user, int /*level*/, const char* message) {
  auto* const self = static_cast<TestContext*>(user);
  const std::lock_guard<std::mutex> lock(self->mutex_);
  self->log_.emplace_back(message);
}

std::vector<std::string> TestContext::log() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return log_;
}

bool TestContext::Await(const std::function<bool()>& reached) const {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + std::chrono::seconds(20);
  while (!reached()) {
    if (Clock::now() > end) return false;
    if (threads_ == 0) {
      EXPECT_GE(skiff_context_wait(context_, 10), 0) << skiff_last_error();
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  return true;
}

void TestContext::InCallback(const std::function<void()>& fn) const {
  Outcome outcome;
  outcome.then = fn;
  EXPECT_EQ(skiff_context_post(
                context_, 0, [](void* user) { Outcome::Done(user, 0, ""); },
                &outcome),
            0);
  EXPECT_TRUE(Await([&] { return outcome.times() == 1; }));
}

void Outcome::Done(void* user, int result, const char* message) {
  auto* const self = static_cast<Outcome*>(user);
  if (self->then) std::exchange(self->then, nullptr)();
  const std::lock_guard<std::mutex> lock(self->mutex_);
  ++self->times_;
  self->result_ = result;
  self->message_ = message;
}

int Outcome::times() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return times_;
}

int Outcome::result() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return result_;
}

std::string Outcome::message() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return message_;
}

}  // namespace skiff::library
