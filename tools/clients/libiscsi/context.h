#ifndef SKIFF_TOOLS_CLIENTS_LIBISCSI_CONTEXT_H_
#define SKIFF_TOOLS_CLIENTS_LIBISCSI_CONTEXT_H_

#include <skiff/skiff.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tools/clients/libiscsi/call.h"
#include "tools/clients/libiscsi/found.h"
#include "tools/clients/libiscsi/loop.h"
#include "tools/clients/libiscsi/types.h"

namespace skiff::libiscsi {

// Who shows by CHAP who he is. Empty: nobody has to.
struct Credentials {
  std::string user;
  std::string password;  // Never in an error or in the log.

  bool empty() const { return user.empty(); }
  // Null and "" mean neither. What is wrong with them, or null.
  const char* Set(const char* new_user, const char* new_password);
};

// What a program sets before it connects.
struct Settings {
  std::string initiator_name;
  std::string alias;
  std::string target_name;
  Credentials initiator;
  Credentials target;
  iscsi_session_type session_type = kNormalSession;
  iscsi_transport_type transport = kTcpTransport;
  bool header_digest = false;
  int timeout_seconds = 0;  // 0: none.
  bool no_reconnect = false;
  int reconnect_retries = -1;  // -1: for ever.
};

// What libiscsi calls a context: one session, and its commands. On one thread
// at a time, as its users are told.
//
// Skiff's callbacks only note what has ended. The program's callbacks run from
// Turn(), outside of all calls of Skiff, and so may do everything.
struct iscsi_context {
  // What the program may have under way at once.
  static constexpr size_t kMaxCalls = 65536;
  static constexpr size_t kMaxNops = 1024;
  static constexpr size_t kMaxUnits = 1024;
  static constexpr size_t kMaxDiscoveries = 16;

  static iscsi_context* Create(const char* initiator_name);
  iscsi_context(const iscsi_context&) = delete;
  iscsi_context& operator=(const iscsi_context&) = delete;

  Settings& settings() { return settings_; }
  int fd() const { return loop_->fd(); }

  // --- What was wrong last. Fail() returns -1.
  const char* error() const { return error_.c_str(); }
  void SetError(std::string text);
  int Fail(std::string text);

  // --- Log.
  void set_log_level(int level) { log_level_ = level; }
  void set_log(iscsi_log_fn log) { log_ = log; }

  // --- The loop.

  // Sends what was submitted, and arms the descriptor. Runs no callback.
  void Prepare();
  // One turn, with the program's callbacks. -1: the session ended, and is not
  // to be restored. The context may be gone then, and only then, if *gone is
  // true.
  int Turn(int wait_ms, bool* gone = nullptr);
  // Turns until `finished`. False: the context was destroyed meanwhile. Does
  // not finish in the child of a fork() what Skiff has to tell.
  bool TurnUntil(const bool* finished);
  // Now, or when the outermost turn ends. Works in the child of a fork(), too.
  // -1: not in the log function.
  int Destroy();
  // The calling thread drives it from now on. False: it is the child of a
  // fork(), and the session is its parent's; or Skiff calls the log function.
  bool Enter();

  // --- Sessions. Callbacks get GOOD or ERROR, and run from a turn.

  bool logged_in() const { return logged_in_; }
  bool connected() const { return state_ != State::kIdle; }
  // It will be logged in, or the session ends.
  bool logging_in() const {
    return state_ == State::kConnecting || state_ == State::kUp ||
           state_ == State::kClosing;
  }
  int Connect(const char* portal, iscsi_command_cb cb, void* private_data);
  int FullConnect(const char* portal, int lun, iscsi_command_cb cb,
                  void* private_data);
  int Login(iscsi_command_cb cb, void* private_data);
  int Logout(iscsi_command_cb cb, void* private_data);
  int Disconnect();
  int Reconnect();
  // Targets of the portal: null with an error.
  using FoundFn =
      std::function<void(int status, const std::shared_ptr<Found>& found)>;
  int Discover(FoundFn done);

  // --- Commands.

  int Submit(int lun, scsi_task* task, iscsi_command_cb cb, iscsi_data* data,
             void* private_data);
  // Locally, at once, with the callback. -1: there is no such command.
  int Cancel(scsi_task* task);
  void CancelAll();
  // Lets Skiff abort it. `cb` gets RFC 7143's response, an uint32_t.
  int Abort(scsi_task* task, iscsi_command_cb cb, void* private_data);
  // By its tag; null: it is not under way.
  scsi_task* TaskOf(uint32_t tag) const;
  int AbortAll(int lun, iscsi_command_cb cb, void* private_data);
  int ResetUnit(int lun, iscsi_command_cb cb, void* private_data);
  // -1: too much waits to be told already. For whatever starts something that
  // Answer() ends.
  int CheckRoom();
  // `cb` with a response in a later turn. 0.
  int Answer(iscsi_command_cb cb, void* private_data, int status,
             uint32_t response);
  int Nop(iscsi_command_cb cb, const unsigned char* data, int size,
          void* private_data);
  size_t nops_in_flight() const { return waiting_nops_.size(); }
  size_t calls() const { return calls_.size(); }
  // Of them, those that were not sent.
  size_t waiting() const;

 private:
  // What libiscsi's own struct has there: programs that were built with its
  // inner header, as iscsi-test-cu, change functions in the table that comes
  // first, and other things. Nothing of ours is to be hit, and nothing is used.
  struct Foreign {
    void** table = functions.data();
    std::array<char, 16384> rest = {};
    std::array<void*, 64> functions = {};
  };

  struct Discovery;
  enum class State : uint8_t {
    kIdle,        // Not connected.
    kNoted,       // The portal is known; the target is not, yet.
    kDiscovery,   // A discovery session, which takes no commands.
    kConnecting,  // The first unit is being opened.
    kUp,
    kClosing,  // Units are being closed, to be opened again or not.
  };

  // While the program's callbacks run: the context stays until they have
  // returned, and goes then if one of them destroyed it.
  class Turning {
   public:
    explicit Turning(iscsi_context* context) : context_(context) {
      ++context_->depth_;
    }
    Turning(const Turning&) = delete;
    Turning& operator=(const Turning&) = delete;
    ~Turning();

   private:
    iscsi_context* const context_;
  };

  iscsi_context() = default;
  ~iscsi_context();

  static void OnLog(void* user, int level, const char* message);
  void RunEnded();
  void RunTimers();
  void EndAll();
  void Later(std::function<void()> function);

  std::string Url(const std::string& target, uint32_t lun) const;
  void FillOptions(skiff_disk_options* options, Unit* unit);
  // Both keep `done`, and call it from a turn, unless they fail.
  int Open(std::function<void(int status)> done);
  int FindTargets(FoundFn done);
  static void OnTarget(void* user, const skiff_found_target* target);
  static void OnFound(void* user, int result, const char* message);
  int ConnectThen(const char* portal, std::function<void(int status)> done);
  void TestUnitReady(int lun, int attempts, iscsi_command_cb cb,
                     void* private_data);
  Unit* FindUnit(uint32_t lun);
  void OpenUnit(Unit* unit);
  static void OnUnitOpened(void* user, int result, const char* message);
  void UnitOpened(Unit* unit, int result, const char* message);
  void UnitFailed(Unit* unit, const std::string& why);
  void StartWaiting(Unit* unit);
  void CloseUnit(Unit* unit);
  static void OnUnitClosed(void* user, int result, const char* message);
  static void OnEvent(void* user, skiff_disk* disk, int event, int result,
                      const char* message);
  void CloseUnits();
  void UnitsClosed();
  void Reopen();
  // Those that wait for a session.
  void AnswerNops(int status);
  void EndSession(const std::string& why);
  void FailWaiting(Unit* unit, const std::string& why);

  Call* NewCall();
  void Recycle(Call* call);
  bool PrepareBuffers(scsi_task* task, iscsi_data* data);
  bool CheckIovecs(const scsi_iovector& vector, int length);
  // Skiff's, or -1 with an error; the other lets it end with that.
  int Start(Call* call);
  void StartOrEnd(Call* call);
  void StartBare();
  static void OnCallDone(void* user, int result, const char* message);
  void CallDone(Call* call, int result, const char* message);
  void End(Call* call, int status);
  void Deliver(Call* call);
  void FillTask(Call* call);
  void FillStatus(Call* call);
  void FillSense(Call* call);
  Call* FindCall(const scsi_task* task);
  bool Settle(Call* call);
  void ExpireCalls();

  [[maybe_unused]] Foreign foreign_;  // The first.
  Settings settings_;
  std::string error_;
  std::atomic<int> log_level_ = 0;
  std::atomic<iscsi_log_fn> log_ = nullptr;
  std::unique_ptr<Loop> loop_;

  State state_ = State::kIdle;
  bool logged_in_ = false;
  bool has_socket_ = false;  // As far as the program is concerned.
  bool broken_ = false;      // Ended, and not to be restored.
  bool reopen_ = false;      // After kClosing.
  std::string portal_;       // With options of the URL.
  uint32_t first_lun_ = 0;
  std::vector<std::unique_ptr<Unit>> units_;
  size_t open_units_ = 0;  // Disks of Skiff that are not closed.
  // Told once how connecting ended; empty when nobody is to be told.
  std::function<void(int status)> connected_;
  std::vector<std::function<void()>> when_closed_;
  std::vector<std::function<void(int status)>> waiting_nops_;
  std::shared_ptr<Found> found_;  // By connecting.
  size_t discoveries_ = 0;        // That Skiff is at.
  uint64_t connects_ = 0;         // Until now.
  int reopen_attempts_ = 0;
  int64_t reopen_at_ = Loop::kNever;

  CallList calls_;           // All commands that have not been delivered.
  CallList free_;            // To be used again.
  std::vector<Call*> bare_;  // Without iovecs: started in the next turn.
  size_t unsent_ = 0;        // Submitted since the last turn.
  JobQueue ended_;           // What the program is to be told.
  uint32_t next_tag_ = 1;
  int64_t next_expiry_ = Loop::kNever;
  int depth_ = 0;  // Turns that are under way.
  bool destroyed_ = false;
};

// For calls that wait: a callback that notes how it ended.
struct Outcome {
  bool finished = false;
  int status = kError;
  void* data = nullptr;
  static void Note(iscsi_context* iscsi, int status, void* command_data,
                   void* private_data);
};

// `start` starts something that ends with Outcome::Note. Its status, or kError
// if it could not be started.
int RunAndWait(iscsi_context* iscsi,
               const std::function<int(iscsi_command_cb, void*)>& start);

}  // namespace skiff::libiscsi

#endif  // SKIFF_TOOLS_CLIENTS_LIBISCSI_CONTEXT_H_
