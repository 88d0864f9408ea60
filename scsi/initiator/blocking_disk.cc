#include "scsi/initiator/blocking_disk.h"

#include <sys/uio.h>

#include "scsi/initiator/run_until.h"

namespace skiff::scsi {
namespace {

using Op = DiskIo::Op;

}  // namespace

absl::StatusOr<std::unique_ptr<BlockingDisk>> BlockingDisk::Open(
    transport::EpollReactor* reactor, CommandPort* port,
    const DiskOptions& options) {
  absl::StatusOr<std::unique_ptr<Disk>> disk =
      Disk::Create(port, reactor, options);
  if (!disk.ok()) return disk.status();
  bool opened = false;
  absl::Status result;
  (*disk)->Open([&opened, &result](absl::Status status) {
    opened = true;
    result = std::move(status);
  });
  RunUntil(reactor, [&opened] { return opened; });
  if (!result.ok()) return result;
  return std::unique_ptr<BlockingDisk>(
      new BlockingDisk(reactor, *std::move(disk)));
}

BlockingDisk::~BlockingDisk() { disk_->Close(); }

absl::Status BlockingDisk::Run(DiskIo* io) {
  bool done = false;
  io->context = &done;
  io->done = [](DiskIo* ended) { *static_cast<bool*>(ended->context) = true; };
  disk_->Submit(io);
  RunUntil(reactor_, [&done] { return done; });
  return io->status;
}

absl::Status BlockingDisk::Read(uint64_t offset, void* data, size_t length) {
  const iovec iov = {data, length};
  DiskIo io;
  io.op = Op::kRead;
  io.offset = offset;
  io.length = length;
  io.iov = &iov;
  io.iov_count = 1;
  return Run(&io);
}

absl::Status BlockingDisk::Write(uint64_t offset, const void* data,
                                 size_t length, bool fua) {
  const iovec iov = {const_cast<void*>(data), length};  // Only read from.
  DiskIo io;
  io.op = Op::kWrite;
  io.fua = fua;
  io.offset = offset;
  io.length = length;
  io.iov = &iov;
  io.iov_count = 1;
  return Run(&io);
}

absl::Status BlockingDisk::Flush() {
  DiskIo io;
  io.op = Op::kFlush;
  return Run(&io);
}

absl::Status BlockingDisk::Unmap(uint64_t offset, uint64_t length) {
  DiskIo io;
  io.op = Op::kUnmap;
  io.offset = offset;
  io.length = length;
  return Run(&io);
}

absl::Status BlockingDisk::WriteZeroes(uint64_t offset, uint64_t length,
                                       bool may_unmap) {
  DiskIo io;
  io.op = Op::kWriteZeroes;
  io.may_unmap = may_unmap;
  io.offset = offset;
  io.length = length;
  return Run(&io);
}

absl::Status BlockingDisk::CompareAndWrite(uint64_t offset,
                                           const void* expected,
                                           const void* data, size_t length) {
  const iovec iov[2] = {{const_cast<void*>(expected), length},
                        {const_cast<void*>(data), length}};
  DiskIo io;
  io.op = Op::kCompareAndWrite;
  io.offset = offset;
  io.length = length;
  io.iov = iov;
  io.iov_count = 2;
  return Run(&io);
}

void RunCommand(transport::EpollReactor* reactor, CommandPort* port,
                Command* command) {
  bool done = false;
  command->context = &done;
  command->done = [](Command* ended) {
    *static_cast<bool*>(ended->context) = true;
  };
  port->Submit(command);
  RunUntil(reactor, [&done] { return done; });
}

}  // namespace skiff::scsi
