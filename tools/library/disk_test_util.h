#ifndef SKIFF_TOOLS_LIBRARY_DISK_TEST_UTIL_H_
#define SKIFF_TOOLS_LIBRARY_DISK_TEST_UTIL_H_

#include <sys/uio.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "protocol/initiator/initiator.h"
#include "scsi/initiator/disk.h"
#include "transport/reactor/epoll_reactor.h"
#include "transport/registry.h"

namespace skiff::library {

// One I/O of a test, with memory of its own.
struct TestIo {
  scsi::DiskIo io;
  std::string data;
  iovec iov = {};
  bool finished = false;
};

// A disk of a target under test, by the C++ initiator over TCP, on a reactor
// that the test's thread turns.
class TestDisk {
 public:
  // `turn` is called again and again while the disk is waited for.
  TestDisk(const std::string& portal, const std::string& target, uint64_t lun,
           std::function<void()> turn = nullptr,
           const std::string& initiator = "iqn.2026-11.org.example:tester");
  TestDisk(const TestDisk&) = delete;
  TestDisk& operator=(const TestDisk&) = delete;
  ~TestDisk();

  // Logs in and opens the disk.
  absl::Status Open();
  const scsi::DiskInfo& info() const { return disk_->info(); }
  // Unit attentions so far.
  int attentions() const { return attentions_; }

  absl::Status Write(uint64_t offset, const std::string& data);
  absl::Status Read(uint64_t offset, std::string* data);  // As long as it is.
  absl::Status Run(scsi::DiskIo::Op op, uint64_t offset, uint64_t length);

  // `io` lasts until it is finished.
  void Start(TestIo* io);
  void Cancel(TestIo* io) { disk_->Cancel(&io->io); }
  bool connected() const { return initiator_->connected(); }
  // False: it did not happen in time.
  bool RunUntil(const std::function<bool()>& done,
                absl::Duration limit = absl::Seconds(20));

 private:
  absl::Status Await(TestIo* io);

  const std::function<void()> turn_;
  transport::Registry registry_;
  std::unique_ptr<transport::EpollReactor> reactor_;
  std::unique_ptr<protocol::Initiator> initiator_;
  std::unique_ptr<scsi::Disk> disk_;
  absl::Status login_ = absl::UnknownError("no answer yet");
  bool ready_ = false;
  int attentions_ = 0;
};

}  // namespace skiff::library

#endif  // SKIFF_TOOLS_LIBRARY_DISK_TEST_UTIL_H_
