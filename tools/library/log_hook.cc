#include "tools/library/log_hook.h"

#include <mutex>
#include <string>
#include <vector>

namespace skiff::library {
namespace {

int NumberOf(transport::LogLevel level) { return static_cast<int>(level) + 1; }
static_assert(static_cast<int>(transport::LogLevel::kError) + 1 ==
              SKIFF_LOG_ERROR);
static_assert(static_cast<int>(transport::LogLevel::kDebug) + 1 ==
              SKIFF_LOG_DEBUG);

// All hooks, in a list that needs no memory of its own.
std::mutex all_mutex;
LogHook* first_hook = nullptr;
bool took_process_log = false;

}  // namespace

std::shared_ptr<LogHook> LogHook::Create(const skiff_context_options& options) {
  std::shared_ptr<LogHook> self(new LogHook(options));
  const std::lock_guard<std::mutex> lock(all_mutex);
  if (!took_process_log) transport::SetProcessLog(WriteToAll);
  took_process_log = true;
  self->next_ = first_hook;
  if (first_hook != nullptr) first_hook->previous_ = self.get();
  first_hook = self.get();
  return self;
}

LogHook::LogHook(const skiff_context_options& options)
    : function_(options.log),
      user_(options.log_user),
      level_(options.log_level != 0 ? static_cast<int>(options.log_level)
                                    : SKIFF_LOG_INFO) {}

LogHook::~LogHook() {
  const std::lock_guard<std::mutex> lock(all_mutex);
  (previous_ != nullptr ? previous_->next_ : first_hook) = next_;
  if (next_ != nullptr) next_->previous_ = previous_;
}

void LogHook::Write(transport::LogLevel level,
                    absl::string_view message) const {
  if (function_ == nullptr || NumberOf(level) > level_) return;
  function_(user_, NumberOf(level), std::string(message).c_str());
}

transport::LogSink LogHook::Sink() const {
  return [self = shared_from_this()](transport::LogLevel level,
                                     absl::string_view message) {
    self->Write(level, message);
  };
}

void LogHook::WriteToAll(transport::LogLevel level, absl::string_view message) {
  std::vector<std::shared_ptr<LogHook>> hooks;
  {
    const std::lock_guard<std::mutex> lock(all_mutex);
    for (LogHook* hook = first_hook; hook != nullptr; hook = hook->next_) {
      // One that is being destroyed waits for the lock.
      if (auto kept = hook->weak_from_this().lock()) {
        hooks.push_back(std::move(kept));
      }
    }
  }
  for (const auto& hook : hooks) hook->Write(level, message);
}

}  // namespace skiff::library
