#ifndef SKIFF_SCSI_BACKEND_MEDIUM_STORE_H_
#define SKIFF_SCSI_BACKEND_MEDIUM_STORE_H_

#include <sys/types.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "scsi/backend/medium_record.h"
#include "transport/log/log.h"

namespace skiff::scsi {

// Keeps a medium's record with it: in the extended attribute user.skiff.medium
// of a file; in the file PATH.skiff beside it, where that cannot be; and in the
// state directory, where that cannot be either. A block device's is in a file
// of the state directory.
//
// The identity of a block device that has a name that is unique in the world (a
// WWID, or the UUID of a logical volume) comes from it, and is the same on
// every machine. Others get a random one, as files do.
class MediumStore {
 public:
  // System calls, so that tests can have them fail.
  struct Calls {
    int (*fsync)(int fd) = ::fsync;
    ssize_t (*fgetxattr)(int fd, const char* name, void* value,
                         size_t size) = ::fgetxattr;
    int (*fsetxattr)(int fd, const char* name, const void* value, size_t size,
                     int flags) = ::fsetxattr;
  };

  struct Options {
    std::string path = {};
    bool read_only = false;  // Then nothing is written.
    std::string state_directory = {};
    bool clear_data_loss = false;
    transport::LogSink log = nullptr;  // Null: silent.
    Calls calls = {};
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
  // In words, when it was opened; empty: nothing is known to be lost. A record
  // that cannot be read may say that something is.
  std::string data_loss() const;

  // Remembers that a flush failed. Returns at once: a thread of its own writes
  // and logs it. Only the first call of several does anything. Thread-safe.
  void NoteDataLoss(int error);

 private:
  // Where the record is, or can be.
  struct Place {
    enum class Kind : uint8_t { kAttribute, kFile };
    Kind kind = Kind::kAttribute;
    std::string path = {};    // kFile.
    bool spare = false;       // For when others fail: what is there may be
                              // somebody else's.
    bool says_lost = false;   // Data may be lost, by what was read there.
    bool unreadable = false;  // Something is there; not ours to write over.
    const char* name() const;
  };
  struct Writing;

  MediumStore(int fd, const Options& options);
  absl::Status Load();
  // Fills places_: the best first.
  void FindFilePlaces();
  void FindDevicePlaces();
  bool BelongsHere(const MediumRecord& record) const;
  void Begin();
  void NoteUnwritten();
  absl::Status Clear();
  // Nothing: there is none.
  absl::StatusOr<std::optional<MediumRecord>> Read(const Place& place) const;
  static absl::Status Write(const Calls& calls, int fd, const Place& place,
                            const MediumRecord& record);
  void Log(transport::LogLevel level, absl::string_view message) const;

  const int fd_;
  const Options options_;
  std::vector<Place> places_;   // The record is in the first, if it is in any.
  std::string fixed_identity_;  // Of a device that has one by itself.
  uint64_t inode_ = 0;
  int64_t born_ns_ = 0;
  MediumRecord record_;
  std::string unreadable_;  // Why what is kept cannot be read.
  std::shared_ptr<Writing> writing_;
};

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_BACKEND_MEDIUM_STORE_H_
