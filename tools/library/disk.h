#ifndef SKIFF_TOOLS_LIBRARY_DISK_H_
#define SKIFF_TOOLS_LIBRARY_DISK_H_

#include <skiff/disk.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "scsi/initiator/disk.h"
#include "scsi/initiator/lun_lookup.h"
#include "scsi/initiator/retrying_command.h"
#include "tools/library/context.h"
#include "tools/library/handle.h"
#include "tools/library/pending.h"
#include "tools/library/session.h"

namespace skiff::library {

// What a skiff_disk stands for: a logical unit of a session. What is not said
// to be thread-safe is on the thread of its reactor.
class Disk : public Object,
             public std::enable_shared_from_this<Disk>,
             private Session::Listener {
 public:
  static constexpr Kind kKind = Kind::kDisk;
  static constexpr uint32_t kMaxInFlight = 65536;
  // Commands that ended and are kept to be used again.
  static constexpr size_t kMaxFreeCommands = 1024;

  // `options` is a copy. The session's reactor is the disk's.
  Disk(std::shared_ptr<Context> context, std::shared_ptr<Session> session,
       const skiff_disk_options& options, uint32_t lun);
  ~Disk() override;

  // --- Thread-safe.

  const transport::ForkDetector& fork_detector() const override {
    return context_->fork_detector();
  }
  const std::shared_ptr<Context>& context() const { return context_; }
  const std::shared_ptr<Session>& session() const { return session_; }
  uint32_t reactor() const { return session_->reactor(); }
  bool OnReactor() const { return context_->OnReactor(reactor()); }
  // By which callbacks name it. Before Open().
  void set_handle(skiff_disk* handle) { handle_ = handle; }
  // 0, or a remembered error: no I/O, or no command, is possible.
  int CheckReady(bool for_commands) const;
  // Makes room for `count`, at most kMaxInFlight. 0, or a remembered error.
  int Reserve(size_t count);
  // A number for Cancel().
  uint64_t NextId() { return next_id_.fetch_add(1, std::memory_order_relaxed); }
  // Whether there ever was such a number.
  bool Knows(uint64_t id) const { return id != 0 && id < next_id_.load(); }
  // Fills all but the size. False: the disk is not open yet.
  bool GetInfo(skiff_disk_info* out) const;
  // No event comes from now on. Once.
  void StopEvents() { told_.store(false); }

  // --- On the reactor.

  // Logs its session in, if that is to be done, and opens the disk.
  void Open(std::optional<protocol::InitiatorOptions> login, Ending::Done done);
  // Learns anew what the disk is.
  void Refresh(Ending::Done done);
  // Ends it in later turns: callbacks run there. It keeps itself until then.
  void Close(Ending::Done done);

  // I/O to be filled and started. On another thread: makes one that nobody has
  // used.
  Io* NewIo();
  // A command to be started, on any thread. The disk is ready.
  std::unique_ptr<RawCommand> NewCommand(const skiff_command& given,
                                         skiff_command_result* result);
  // Both were reserved.
  void Start(Io* io);
  void Start(std::unique_ptr<RawCommand> command);
  // False: nothing of that number is under way.
  bool Find(uint64_t id) const { return pending_.Find(id) != nullptr; }
  // `done` may run from inside.
  void Cancel(uint64_t id);
  // Cancels, and tells what came of it.
  void Abort(uint64_t id, Ending::Done done);
  void Reset(Ending::Done done);
  void Reconnect();
  void GetStats(skiff_disk_stats* stats) const;

 private:
  friend class RawCommand;

  struct Transfers {
    uint64_t count = 0;
    uint64_t bytes = 0;
    skiff_latency latency = {};
  };

  enum class State : uint8_t { kOpening, kOpen, kFailed, kClosing };

  void OnChange(protocol::SessionChange change,
                const absl::Status& why) override;
  void OnLoggedIn(absl::Status status);
  // Finds out how the target writes the LUN, and goes on.
  void LookUpLun();
  absl::Status Prepare();
  void FinishOpen(const absl::Status& status);
  void StartProbe();
  void OnProbed(const absl::Status& status);
  void OnUnitAttention(const scsi::SenseData& sense);
  void TellEvent(int event, const absl::Status& why,
                 const std::string& message);
  scsi::DiskOptions MakeDiskOptions();
  scsi::RetryOptions MakeRetryOptions() const;

  static void OnIoDone(scsi::DiskIo* ended);
  void OnRawCommandDone(RawCommand* command);
  absl::Duration Count(const Pending& pending, bool ok);
  void CountIo(const scsi::DiskIo& io, absl::Duration latency);
  static void Tell(Ending::Done done, const absl::Status& status);
  void TellAborts(uint64_t id, const absl::Status& end);
  void MaybeFinishClosing();

  const std::shared_ptr<Context> context_;
  const std::shared_ptr<Session> session_;
  const skiff_disk_options options_;  // Without its strings.
  const uint32_t lun_;
  skiff_disk* handle_ = nullptr;
  std::atomic<bool> told_ = true;
  std::atomic<State> state_ = State::kOpening;
  std::atomic<uint32_t> in_flight_ = 0;
  std::atomic<uint64_t> next_id_ = 1;
  mutable std::mutex info_mutex_;
  scsi::DiskInfo info_;  // Under `info_mutex_`.

  // The reactor's.
  std::unique_ptr<Context::Use> use_;
  std::unique_ptr<scsi::Disk> disk_;
  std::unique_ptr<scsi::LunLookup> lookup_;  // Where it was needed.
  std::optional<uint64_t> found_lun_;        // By it.
  scsi::RetryingCommand::Environment environment_;
  scsi::RetryingCommand::Environment once_environment_;
  PendingList pending_;
  IoPool free_ios_;
  std::vector<std::unique_ptr<RawCommand>> free_commands_;
  bool probing_ = false;
  bool finishing_ = false;
  std::multimap<uint64_t, Ending::Done> aborts_;  // By what they abort.
  std::vector<Ending::Done> probe_dones_;
  std::vector<Ending::Done> next_probe_dones_;
  std::shared_ptr<Disk> self_;  // While it is being closed.
  Ending::Done open_done_;      // Until it has run.
  Ending::Done close_done_;
  uint64_t ios_ = 0;
  uint64_t failed_ios_ = 0;
  absl::Duration latency_sum_;
  absl::Duration latency_max_;
  Transfers reads_;
  Transfers writes_;
};

}  // namespace skiff::library

#endif  // SKIFF_TOOLS_LIBRARY_DISK_H_
