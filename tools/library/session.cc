#include "tools/library/session.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "tools/common/transports.h"
#include "tools/library/error.h"
#include "tools/library/options.h"

namespace skiff::library {
namespace {

// What cannot be without end: longer than anybody waits.
constexpr absl::Duration kForEver = absl::Hours(24 * 365);

}  // namespace

int ReadDiskOptions(const Context& context, const skiff_disk_options* given,
                    skiff_disk_options* known) {
  if (const int error = ReadOptions(given, "skiff_disk_options", known)) {
    return error;
  }
  if (known->thread > context.reactor_count()) {
    return Fail(ERANGE,
                absl::StrCat("there is no thread ", known->thread,
                             ": the context has ", context.reactor_count()));
  }
  return CheckFlags(known->flags,
                    SKIFF_DISK_COMMANDS_ONLY | SKIFF_DISK_HEADER_DIGEST |
                        SKIFF_DISK_DATA_DIGEST,
                    "skiff_disk_options");
}

uint32_t ReactorOf(Context* context, const skiff_disk_options& options) {
  return options.thread == 0 ? context->ChooseReactor() : options.thread - 1;
}

int FailUrl(const absl::Status& status) {
  // There is no transport of that name.
  return absl::IsNotFound(status) ? Fail(EPROTONOSUPPORT, status.message())
                                  : Fail(status);
}

absl::StatusOr<tools::Endpoint> ParseUrl(const Context& context,
                                         const std::string& url) {
  auto endpoint = tools::ParseEndpoint(url, context.registry());
  if (!endpoint.ok()) return endpoint.status();
  const auto chap = ChapOf(*endpoint);
  if (!chap.ok()) return chap.status();
  const auto transport = context.registry()->Find(endpoint->portal.scheme);
  if (!transport.ok()) return transport.status();
  const absl::Status valid = (*transport)->CheckAddress(endpoint->portal);
  if (!valid.ok()) return valid;
  tools::LoadLibraryOf(endpoint->portal.scheme);
  return endpoint;
}

protocol::InitiatorOptions MakeInitiatorOptions(
    const tools::Endpoint& endpoint, const skiff_disk_options& given) {
  protocol::InitiatorOptions options;
  options.portal = endpoint.portal;
  // ParseUrl() has seen that it is right.
  options.chap = *ChapOf(endpoint);
  options.target_name = endpoint.target;
  options.initiator_name =
      StringOf(given.initiator_name, options.initiator_name);
  options.initiator_alias = StringOf(given.initiator_alias, "");
  options.max_commands = std::max(options.max_commands, given.max_commands);
  for (const auto& [flag, digests] :
       {std::pair(SKIFF_DISK_HEADER_DIGEST, &options.offer.header_digest),
        std::pair(SKIFF_DISK_DATA_DIGEST, &options.offer.data_digest)}) {
    if ((given.flags & flag) == 0) continue;
    *digests = {protocol::Digest::kCrc32c, protocol::Digest::kNone};
  }
  options.connect.timeout =
      TimeOf(given.connect_timeout_ms, options.connect.timeout, kForEver);
  protocol::SessionTimeouts& timeouts = options.timeouts;
  constexpr absl::Duration kOff = absl::ZeroDuration();
  timeouts.login_timeout =
      TimeOf(given.login_timeout_ms, timeouts.login_timeout, kForEver);
  timeouts.command_timeout =
      TimeOf(given.command_timeout_ms, timeouts.command_timeout, kOff);
  timeouts.nop_interval =
      TimeOf(given.ping_interval_ms, timeouts.nop_interval, kOff);
  timeouts.nop_timeout =
      TimeOf(given.ping_timeout_ms, timeouts.nop_timeout, kForEver);
  options.reconnect.replacement_timeout =
      TimeOf(given.restore_timeout_ms, options.reconnect.replacement_timeout,
             kForEver);
  return options;
}

Session::~Session() = default;

void Session::Connect(protocol::InitiatorOptions options,
                      absl::AnyInvocable<void(absl::Status)> on_ready) {
  options.on_change = [this](protocol::SessionChange change,
                             const absl::Status& why) {
    OnChange(change, why);
  };
  options.capture = context_->capture();
  options.log = [context = context_](absl::string_view message) {
    context->Log(transport::LogLevel::kInfo, message);
  };
  options.warn = [context = context_](absl::string_view message) {
    context->Log(transport::LogLevel::kWarning, message);
  };
  // Kept by both: only one of them is called.
  auto shared = std::make_shared<absl::AnyInvocable<void(absl::Status)>>(
      std::move(on_ready));
  auto initiator = protocol::Initiator::Create(
      context_->registry(), context_->reactor(reactor_), options,
      [shared](absl::Status status) { (*shared)(std::move(status)); });
  if (!initiator.ok()) {
    // Not once the session was left.
    context_->Post(reactor_, [this, shared, status = initiator.status()] {
      if (!listeners_.empty()) (*shared)(status);
    });
    return;
  }
  initiator_ = *std::move(initiator);
  context_->memories().AddUser(reactor_, this);
}

void Session::Leave(Listener* listener, absl::AnyInvocable<void()> done) {
  std::erase(listeners_, listener);
  if (!listeners_.empty()) {
    context_->Post(reactor_, std::move(done));
    return;
  }
  if (initiator_ == nullptr || !initiator_->connected()) {
    End(std::move(done));
    return;
  }
  // A target that does not answer is left after Logout's own timeout.
  initiator_->Logout(
      [this, done = std::move(done)](const absl::Status& /*status*/) mutable {
        End(std::move(done));
      });
}

void Session::End(absl::AnyInvocable<void()> done) {
  // Not from inside a callback of the initiator, and of its commands.
  context_->Post(reactor_, [this, done = std::move(done)]() mutable {
    if (initiator_ != nullptr) {
      context_->memories().RemoveUser(reactor_, this);
      initiator_.reset();
    }
    done();
  });
}

void Session::OnChange(protocol::SessionChange change,
                       const absl::Status& why) {
  const std::vector<Listener*> listeners = listeners_;
  for (Listener* listener : listeners) {
    if (absl::c_linear_search(listeners_, listener)) {
      listener->OnChange(change, why);
    }
  }
}

void Session::UseMemory(void* data, size_t size,
                        const std::shared_ptr<const void>& owner) {
  const absl::Status status = initiator_->UseMemory(data, size, owner);
  if (status.ok()) return;
  // Commands work all the same.
  context_->Log(transport::LogLevel::kWarning,
                absl::StrCat(size,
                             " bytes of memory are registered for each "
                             "command: ",
                             status.message()));
}

void Session::ForgetMemory(void* data, size_t size) {
  initiator_->ForgetMemory(data, size);
}

}  // namespace skiff::library
