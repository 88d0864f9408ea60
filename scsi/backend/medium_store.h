#ifndef SKIFF_SCSI_BACKEND_MEDIUM_STORE_H_
#define SKIFF_SCSI_BACKEND_MEDIUM_STORE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "scsi/backend/medium_record.h"
#include "transport/log/log.h"

namespace skiff::scsi {

// Keeps a medium's record with it: in the extended attribute user.skiff.medium
// of a file; in the file PATH.skiff beside it, where its file system has none;
// for a block device, in a file of the state directory.
//
// The identity of a block device that has a name that is unique in the world (a
// WWID, or the UUID of a logical volume) comes from it, and is the same on
// every machine. Others get a random one, as files do.
class MediumStore {
 public:
  struct Options {
    std::string path = {};
    bool read_only = false;  // Then nothing is written.
    std::string state_directory = {};
    bool clear_data_loss = false;
    transport::LogSink log = nullptr;  // Null: silent.
  };

  // Reads the record of the open file `fd`, which outlives the store, or begins
  // one. Where nothing can be kept it says so and goes on; an error is only
  // that what is to be cleared cannot be.
  static absl::StatusOr<std::unique_ptr<MediumStore>> Open(
      int fd, const Options& options);
  MediumStore(const MediumStore&) = delete;
  MediumStore& operator=(const MediumStore&) = delete;
  // Waits for NoteDataLoss() to be written, but not for ever.
  ~MediumStore();

  // Empty: it has none, and none can be kept.
  const std::string& identity() const { return record_.identity; }
  // In words, when it was opened; empty: nothing is known to be lost.
  std::string data_loss() const;

  // Remembers that a flush failed. Returns at once: a thread of its own writes
  // and logs it. Only the first call of several does anything. Thread-safe.
  void NoteDataLoss(int error);

 private:
  // Where the record is.
  struct Place {
    enum class Kind : uint8_t { kNone, kAttribute, kFile };
    Kind kind = Kind::kNone;
    std::string path;  // kFile.
  };
  struct Writing;

  MediumStore(int fd, const Options& options);
  absl::Status Load();
  void FindFilePlace();
  void FindDevicePlace();
  bool BelongsHere(const MediumRecord& record) const;
  void Begin(bool keep_loss);
  absl::Status Clear();
  absl::StatusOr<std::string> Read() const;
  static absl::Status Write(int fd, const Place& place,
                            const MediumRecord& record);
  void Log(transport::LogLevel level, absl::string_view message) const;

  const int fd_;
  const Options options_;
  Place place_;
  std::string fixed_identity_;  // Of a device that has one by itself.
  uint64_t inode_ = 0;
  int64_t born_ns_ = 0;
  MediumRecord record_;
  std::shared_ptr<Writing> writing_;
};

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_BACKEND_MEDIUM_STORE_H_
