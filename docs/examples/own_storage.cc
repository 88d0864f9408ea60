// Serves storage of one's own, whose operations end on a thread of its own:
// own_storage [tcp://HOST:PORT]. Lines of standard input change it: "grow",
// "remove".
#include <sys/uio.h>

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <future>
#include <iostream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "protocol/target/target_server.h"
#include "scsi/backend/backend.h"
#include "scsi/backend/remote_completions.h"
#include "scsi/target/target.h"
#include "transport/log/log.h"
#include "transport/reactor/reactor_threads.h"
#include "transport/registry.h"
#include "transport/tcp/tcp_transport.h"

namespace {

namespace protocol = skiff::protocol;
namespace scsi = skiff::scsi;
namespace transport = skiff::transport;

constexpr uint64_t kMaxBytes = 4 << 20;
constexpr size_t kMaxLines = 1000;

// The medium: memory, and the only thread that touches it.
class Storage : public scsi::Backend {
 public:
  Storage() : bytes_(kMaxBytes), thread_([this] { Work(); }) {
    info_.description = "storage of our own";
    info_.size_bytes = kMaxBytes / 2;
  }
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  ~Storage() override {
    Run(nullptr);
    thread_.join();
  }

  scsi::BackendInfo info() const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return info_;
  }
  absl::StatusOr<std::unique_ptr<scsi::BackendChannel>> OpenChannel(
      transport::Reactor* reactor) override;
  // Any reactor calls this, so it does not look at what Grow() changes.
  scsi::ProvisioningExtent ProvisioningAt(uint64_t offset) override {
    return {kMaxBytes - offset, true};
  }

  void Grow() {
    const std::lock_guard<std::mutex> lock(mutex_);
    info_.size_bytes = kMaxBytes;
  }

  // Calls `job` on the medium's thread; null ends the thread.
  void Run(std::function<void()> job) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      jobs_.push_back(std::move(job));
    }
    changed_.notify_one();
  }

  void Execute(scsi::IoRequest* request) {
    using Op = scsi::IoRequest::Op;
    request->status = scsi::IoStatus::kOk;
    if (request->op == Op::kFlush) return;
    if (request->op != Op::kRead && request->op != Op::kWrite) {
      request->status = scsi::IoStatus::kNotSupported;
      return;
    }
    const bool read = request->op == Op::kRead;
    if (request->length > kMaxBytes ||
        request->offset > kMaxBytes - request->length) {
      request->status =
          read ? scsi::IoStatus::kReadError : scsi::IoStatus::kWriteError;
      request->error_offset = request->offset;
      request->reason = "beyond the end of the medium";
      return;
    }
    uint8_t* at = bytes_.data() + request->offset;
    uint64_t left = request->length;
    for (int i = 0; i < request->iov_count; ++i) {
      const iovec& piece = request->iov[i];
      const size_t size = std::min<uint64_t>(piece.iov_len, left);
      std::memcpy(read ? piece.iov_base : at, read ? at : piece.iov_base, size);
      at += size;
      left -= size;
    }
  }

 private:
  void Work() {
    for (;;) {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return !jobs_.empty(); });
      const std::function<void()> job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      if (job == nullptr) return;
      job();
    }
  }

  mutable std::mutex mutex_;
  scsi::BackendInfo info_;
  std::vector<uint8_t> bytes_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  std::thread thread_;  // The last: it uses the others.
};

class StorageChannel : public scsi::BackendChannel {
 public:
  StorageChannel(Storage* storage, transport::Reactor* reactor)
      : storage_(storage), completions_(reactor) {}
  bool Submit(scsi::IoRequest* request) override {
    storage_->Run([storage = storage_, completions = &completions_, request] {
      storage->Execute(request);  // On the medium's thread.
      completions->Complete(request);
    });
    return false;  // `done` will run.
  }

 private:
  Storage* const storage_;
  scsi::RemoteCompletions completions_;
};

absl::StatusOr<std::unique_ptr<scsi::BackendChannel>> Storage::OpenChannel(
    transport::Reactor* reactor) {
  return std::make_unique<StorageChannel>(this, reactor);
}

// Keeps lines until the program has time to write them.
class Lines {
 public:
  void Add(transport::LogLevel level, absl::string_view message) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (lines_.size() == kMaxLines) return;
    lines_.push_back(transport::FormatLogLine(absl::Now(), level, message));
  }
  void Print() {
    std::deque<std::string> lines;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      lines.swap(lines_);
    }
    for (const std::string& line : lines) std::cerr << line;
  }

 private:
  std::mutex mutex_;
  std::deque<std::string> lines_;
};

// Until standard input ends.
void Obey(scsi::Target* target, Storage* storage, Lines* lines) {
  for (std::string command; std::getline(std::cin, command);) {
    absl::Status status;
    if (command == "grow") {
      storage->Grow();
      target->NotifyBackendChanged(0);
    } else if (command == "remove") {
      status = target->RemoveLogicalUnit(1);
    }
    std::cout << command << ": " << status.ToString() << std::endl;
    lines->Print();
  }
}

absl::Status Serve(const char* uri) {
  const auto address = transport::Address::Parse(uri);
  if (!address.ok()) return address.status();
  transport::Registry registry;
  absl::Status status = registry.Add(transport::MakeTcpTransport());
  if (!status.ok()) return status;
  transport::ReactorThreadsOptions reactors;
  reactors.count = 2;
  auto threads = transport::ReactorThreads::Start(reactors);
  if (!threads.ok()) return threads.status();

  const auto storage = std::make_shared<Storage>();
  const std::shared_ptr<scsi::Target> target =
      scsi::Target::Create("iqn.2026-11.org.example:own");
  status = target->AddLogicalUnit(storage, {});
  scsi::LogicalUnitOptions second;
  second.lun = 1;
  if (status.ok()) {
    status = target->AddLogicalUnit(std::make_shared<Storage>(), second);
  }
  if (!status.ok()) return status;

  const auto lines = std::make_shared<Lines>();
  protocol::TargetServerOptions options;
  options.log = [lines](transport::LogLevel level, absl::string_view message) {
    lines->Add(level, message);
  };
  auto server = protocol::TargetServer::Create(&registry,
                                               (*threads)->reactors(), options);
  if (!server.ok()) return server.status();
  status = (*server)->AddTarget(target);
  (*threads)->RunOn(0, [&] {
    if (!status.ok()) return;
    const auto portal = (*server)->Listen(*address);
    status = portal.status();
    if (portal.ok()) {
      std::cout << "serving " << target->name() << " at " << portal->ToString()
                << std::endl;
    }
  });
  if (status.ok()) Obey(target.get(), storage.get(), lines.get());

  std::promise<void> ended;
  (*server)->Shutdown(absl::Seconds(1), [&] { ended.set_value(); });
  ended.get_future().wait();
  (*threads)->Stop();  // What lives on the reactors may be destroyed now.
  lines->Print();
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  const absl::Status status =
      Serve(argc > 1 ? argv[1] : "tcp://127.0.0.1:3260");
  if (!status.ok()) std::cerr << status.message() << std::endl;
  return status.ok() ? 0 : 1;
}
