#ifndef SKIFF_SCSI_BACKEND_FILE_OPTIONS_H_
#define SKIFF_SCSI_BACKEND_FILE_OPTIONS_H_

#include <cstdint>
#include <string>

#include "transport/log/log.h"

namespace skiff::scsi {

// Who makes the system calls.
enum class FileIo : uint8_t {
  kAuto,          // io_uring; the helper thread where the kernel refuses that.
  kIoUring,       // Fails to open where the kernel refuses it.
  kHelperThread,  // One blocking thread per reactor: slow, works everywhere.
};

// How a file or block device is opened.
struct FileBackendOptions {
  std::string path;  // A regular file or a block device.
  // Nonzero: the file is created sparse when missing, and must have this size
  // otherwise (never truncated). Zero: it must exist, its size is used.
  uint64_t size_bytes = 0;
  uint32_t block_size = 512;
  bool read_only = false;
  bool direct = false;         // O_DIRECT.
  uint32_t queue_depth = 128;  // System calls in flight per reactor; 1 .. 4096.
  FileIo io = FileIo::kAuto;
  // For a block device: where what is kept with the medium is; for a file, if
  // it can be neither in nor beside it. Made if it is missing (not what is
  // above it). Empty: nowhere.
  std::string state_directory = {};
  // Whoever knows that data may be lost wants it served again all the same.
  bool clear_data_loss = false;
  // About what is kept with the medium; errors of operations are in their
  // requests. Called when the file is opened, and by a thread of its own. May
  // be null.
  transport::LogSink log = nullptr;
};

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_BACKEND_FILE_OPTIONS_H_
