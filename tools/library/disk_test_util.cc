#include "tools/library/disk_test_util.h"

#include <poll.h>

#include <utility>

#include "gtest/gtest.h"
#include "scsi/lun.h"
#include "transport/tcp/tcp_transport.h"

namespace skiff::library {

TestDisk::TestDisk(const std::string& portal, const std::string& target,
                   uint64_t lun, std::function<void()> turn,
                   const std::string& initiator)
    : turn_(std::move(turn)) {
  EXPECT_TRUE(registry_.Add(transport::MakeTcpTransport()).ok());
  auto reactor = transport::EpollReactor::Create();
  EXPECT_TRUE(reactor.ok()) << reactor.status();
  reactor_ = *std::move(reactor);
  protocol::InitiatorOptions options;
  const auto address = transport::Address::Parse(portal);
  EXPECT_TRUE(address.ok()) << address.status();
  options.portal = address.value_or(transport::Address());
  options.target_name = target;
  options.initiator_name = initiator;
  auto made = protocol::Initiator::Create(&registry_, reactor_.get(), options,
                                          [this](const absl::Status& status) {
                                            login_ = status;
                                            ready_ = true;
                                          });
  EXPECT_TRUE(made.ok()) << made.status();
  initiator_ = *std::move(made);
  scsi::DiskOptions disk;
  disk.lun = scsi::EncodeLun(lun);
  disk.on_unit_attention = [this](const scsi::SenseData&) { ++attentions_; };
  auto created = scsi::Disk::Create(initiator_.get(), reactor_.get(), disk);
  EXPECT_TRUE(created.ok()) << created.status();
  disk_ = *std::move(created);
}

TestDisk::~TestDisk() {
  disk_->Close();
  initiator_.reset();
}

absl::Status TestDisk::Open() {
  if (!RunUntil([this] { return ready_; })) {
    return absl::DeadlineExceededError("no login");
  }
  if (!login_.ok()) return login_;
  absl::Status result = absl::UnknownError("no answer yet");
  bool opened = false;
  disk_->Open([&](const absl::Status& status) {
    result = status;
    opened = true;
  });
  EXPECT_TRUE(RunUntil([&] { return opened; }));
  return result;
}

bool TestDisk::RunUntil(const std::function<bool()>& done,
                        absl::Duration limit) {
  const absl::Time end = transport::EpollReactor::MonotonicNow() + limit;
  while (!done()) {
    if (transport::EpollReactor::MonotonicNow() > end) return false;
    if (turn_ != nullptr) turn_();
    if (reactor_->Poll() > 0) continue;
    pollfd ready = {reactor_->fd(), POLLIN, 0};
    poll(&ready, 1, 1);
  }
  return true;
}

void TestDisk::Start(TestIo* io) {
  io->iov = {io->data.data(), io->data.size()};
  if (!io->data.empty()) {
    io->io.iov = &io->iov;
    io->io.iov_count = 1;
  }
  io->io.context = io;
  io->io.done = [](scsi::DiskIo* done) {
    static_cast<TestIo*>(done->context)->finished = true;
  };
  disk_->Submit(&io->io);
}

absl::Status TestDisk::Await(TestIo* io) {
  Start(io);
  if (!RunUntil([io] { return io->finished; })) {
    ADD_FAILURE() << "the I/O does not end";
    disk_->Cancel(&io->io);
    RunUntil([io] { return io->finished; });
  }
  return io->io.status;
}

absl::Status TestDisk::Write(uint64_t offset, const std::string& data) {
  TestIo io;
  io.io.op = scsi::DiskIo::Op::kWrite;
  io.io.offset = offset;
  io.io.length = data.size();
  io.data = data;
  return Await(&io);
}

absl::Status TestDisk::Read(uint64_t offset, std::string* data) {
  TestIo io;
  io.io.offset = offset;
  io.io.length = data->size();
  io.data = std::move(*data);
  absl::Status status = Await(&io);
  *data = std::move(io.data);
  return status;
}

absl::Status TestDisk::Run(scsi::DiskIo::Op op, uint64_t offset,
                           uint64_t length) {
  TestIo io;
  io.io.op = op;
  io.io.offset = offset;
  io.io.length = length;
  return Await(&io);
}

}  // namespace skiff::library
