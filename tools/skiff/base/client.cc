#include "tools/skiff/base/client.h"

#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "protocol/negotiation/negotiated_keys.h"
#include "scsi/initiator/cdb.h"
#include "scsi/initiator/scsi_error.h"
#include "tools/common/completion.h"
#include "tools/common/secret_file.h"
#include "tools/common/stderr_log.h"
#include "tools/common/transports.h"
#include "tools/skiff/base/choice_text.h"
#include "tools/skiff/base/exit_code.h"
#include "tools/skiff/base/repeats.h"
#include "tools/skiff/base/text.h"

namespace skiff::tools {
namespace {

absl::StatusOr<std::vector<protocol::Digest>> ParseDigests(
    absl::string_view flag, absl::string_view text) {
  std::vector<protocol::Digest> digests;
  for (const absl::string_view name : absl::StrSplit(text, ',')) {
    if (absl::EqualsIgnoreCase(name, "none")) {
      digests.push_back(protocol::Digest::kNone);
    } else if (absl::EqualsIgnoreCase(name, "crc32c")) {
      digests.push_back(protocol::Digest::kCrc32c);
    } else {
      return UsageError(absl::StrCat(
          flag, ": '", name,
          "' is no digest; write none, crc32c, or both in order of preference, "
          "such as crc32c,none"));
    }
  }
  return digests;
}

// For another thread: copies that are made by copying share what they are made
// of, and whoever is last to let go of it frees it.
absl::Status OwnCopy(const absl::Status& status) {
  return absl::Status(status.code(), status.message());
}

}  // namespace

absl::StatusOr<std::unique_ptr<Client>> Client::Create(
    const CommonOptions& options, int reactors) {
  std::unique_ptr<Client> client(new Client);
  client->options_ = options;
  protocol::Offer& offer = client->options_.initiator.offer;
  for (const auto& [flag, text, digests] :
       {std::tuple("--header-digest", &options.header_digest,
                   &offer.header_digest),
        std::tuple("--data-digest", &options.data_digest,
                   &offer.data_digest)}) {
    if (text->empty()) continue;
    auto parsed = ParseDigests(flag, *text);
    if (!parsed.ok()) return parsed.status();
    *digests = *std::move(parsed);
  }

  const absl::Status secrets = client->ReadSecrets();
  if (!secrets.ok()) return secrets;
  if (!options.trace_file.empty()) {
    auto trace =
        TraceFile::Create(options.trace_file, [](absl::string_view warning) {
          LogToStderr(protocol::LogLevel::kWarning, warning);
        });
    if (!trace.ok()) return UsageError(trace.status().message());
    client->trace_ = *std::move(trace);
    client->capture_ = client->trace_->Sink();
  }
  const absl::Status status = AddTransportsAndAuto(
      &client->registry_,
      StderrSink(options.verbose ? protocol::LogLevel::kDebug
                                 : protocol::LogLevel::kWarning),
      [self = client.get()](const transport::ChoiceReport& report) {
        self->NoteChoice(report);
      });
  if (!status.ok()) return status;
  transport::ReactorThreadsOptions threads;
  threads.count = reactors;
  threads.reactor = options.reactor;
  auto started = transport::ReactorThreads::Start(threads);
  if (!started.ok()) return started.status();
  client->threads_ = *std::move(started);
  return client;
}

absl::Status Client::ReadSecrets() {
  if (!options_.password_file.empty()) {
    auto secret = ReadSecretFile(options_.password_file);
    if (!secret.ok()) return UsageError(secret.status().message());
    password_ = *std::move(secret);
  }
  if (!options_.target_password_file.empty()) {
    auto secret = ReadSecretFile(options_.target_password_file);
    if (!secret.ok()) return UsageError(secret.status().message());
    target_user_ = {options_.target_user, *std::move(secret)};
  } else if (!options_.target_user.empty()) {
    return UsageError("--target-user needs --target-password-file");
  }
  return absl::OkStatus();
}

absl::StatusOr<absl::optional<protocol::ChapInitiatorOptions>> Client::ChapFor(
    Endpoint endpoint) const {
  if (endpoint.user.secret.empty()) endpoint.user.secret = password_;
  if (target_user_.has_value()) {
    protocol::ChapCredential target = *target_user_;
    if (target.name.empty() && endpoint.target_user.has_value()) {
      target.name = endpoint.target_user->name;
    }
    endpoint.target_user = std::move(target);
  }
  if (endpoint.user.name.empty() && !password_.empty()) {
    return UsageError(
        "--password-file is the password of whom? Write a user into the URL: "
        "iscsi://user@host[:port]/...");
  }
  auto chap = ChapOf(endpoint);
  if (!chap.ok()) {
    return UsageError(absl::StrCat(chap.status().message(),
                                   "; --password-file reads one from a file"));
  }
  return chap;
}

absl::StatusOr<std::unique_ptr<Session>> Client::Login(
    const transport::Address& portal, const std::string& target,
    absl::optional<protocol::ChapInitiatorOptions> chap, int reactor) {
  protocol::InitiatorOptions options = options_.initiator;
  options.chap = std::move(chap);
  options.portal = portal;
  options.target_name = target;
  options.connect.timeout = options.timeouts.login_timeout;
  options.timeouts.text_timeout = options.timeouts.command_timeout;
  options.timeouts.text_answer_timeout = options.timeouts.command_timeout;
  options.capture = capture_;
  options.warn = [](absl::string_view message) {
    LogToStderr(protocol::LogLevel::kWarning, message);
  };
  if (options_.verbose) {
    options.log = [](absl::string_view message) {
      LogToStderr(protocol::LogLevel::kInfo, message);
    };
  }

  auto session = std::make_unique<Session>(this, portal, reactor);
  const absl::Status status = session->Await([&](Session::Done done) {
    // Kept by both: only one of them is called.
    auto shared = std::make_shared<Session::Done>(std::move(done));
    auto initiator = protocol::Initiator::Create(
        &registry_, session->reactor(), options,
        [shared](absl::Status ready) { (*shared)(std::move(ready)); });
    if (!initiator.ok()) {
      (*shared)(initiator.status());
      return;
    }
    session->initiator_ = *std::move(initiator);
  });
  if (!status.ok()) return status;
  session->logged_in_ = true;
  return session;
}

absl::Status Client::CheckAddress(const transport::Address& portal) const {
  const absl::StatusOr<transport::Transport*> transport =
      registry_.Find(portal.scheme);
  return transport.ok() ? (*transport)->CheckAddress(portal)
                        : transport.status();
}

absl::StatusOr<std::unique_ptr<Session>> Client::Connect(
    const Endpoint& endpoint, const std::string& target, int reactor) {
  const absl::Status valid = CheckAddress(endpoint.portal);
  if (!valid.ok()) return UsageError(valid.message());
  auto chap = ChapFor(endpoint);
  if (!chap.ok()) return chap.status();
  LoadLibraryOf(endpoint.portal.scheme);
  auto session = Login(endpoint.portal, target, *std::move(chap), reactor);
  if (session.ok()) return session;
  return Explain(session.status(), endpoint, target);
}

absl::StatusOr<std::vector<protocol::DiscoveredTarget>> Client::Discover(
    const Endpoint& endpoint) {
  auto session = Connect(endpoint, "");
  if (!session.ok()) return session.status();
  std::vector<protocol::DiscoveredTarget> targets;
  const absl::Status status = (*session)->Await([&](Session::Done done) {
    (*session)->initiator()->SendTargets(
        "All", [&targets, done = std::move(done)](
                   absl::StatusOr<std::vector<protocol::DiscoveredTarget>>
                       found) mutable {
          const absl::Status status = found.status();
          if (status.ok()) targets = *std::move(found);
          done(status);
        });
  });
  if (status.ok()) return targets;
  return WithExitCode(
      absl::Status(status.code(),
                   absl::StrCat("discovery at ", endpoint.portal.ToString(),
                                ": ", status.message(),
                                absl::IsDeadlineExceeded(status)
                                    ? "; --command-timeout sets the limit"
                                    : "")),
      ExitCode::kNoSession);
}

absl::Status Client::Explain(const absl::Status& failure,
                             const Endpoint& endpoint,
                             const std::string& target) {
  std::string message = WhyNotConnected(endpoint.portal);
  if (message.empty()) message = std::string(failure.message());
  if (absl::IsNotFound(failure) && !target.empty()) {
    std::vector<std::string> names;
    const auto targets = Discover(endpoint);
    if (targets.ok()) {
      for (const protocol::DiscoveredTarget& t : *targets) {
        names.push_back(t.name);
      }
    }
    absl::StrAppend(&message, names.empty()
                                  ? std::string("; discovery shows no target "
                                                "there")
                                  : absl::StrCat("; discovery shows ",
                                                 FirstFew(std::move(names),
                                                          "discover lists")));
  } else if (absl::IsUnauthenticated(failure) && endpoint.user.name.empty()) {
    absl::StrAppend(&message,
                    "; nobody was named: write user@ before the host, and give "
                    "--password-file");
  }
  return WithExitCode(absl::Status(failure.code(), message),
                      ExitCode::kNoSession);
}

void Client::NoteChoice(const transport::ChoiceReport& report) {
  const std::lock_guard<std::mutex> lock(choices_mutex_);
  why_no_rdma_[report.address] = report.fell_back() ? report.WhyNoRdma() : "";
  why_not_[report.address] = BriefFailure(report);
}

std::string Client::WhyNotConnected(const transport::Address& portal) const {
  const std::lock_guard<std::mutex> lock(choices_mutex_);
  const auto found = why_not_.find(portal.ToString());
  return found != why_not_.end() ? found->second : "";
}

std::string Client::WhyNoRdma(const transport::Address& portal) const {
  const std::lock_guard<std::mutex> lock(choices_mutex_);
  const auto found = why_no_rdma_.find(portal.ToString());
  return found != why_no_rdma_.end() ? found->second : "";
}

Session::Session(const Client* client, const transport::Address& portal,
                 int reactor)
    : client_(client),
      portal_(portal),
      threads_(client->threads_.get()),
      reactor_(reactor) {}

Session::~Session() {
  if (logged_in_ && client_->options_.verbose) {
    for (const absl::string_view line :
         absl::StrSplit(ToText(Report()), '\n', absl::SkipEmpty())) {
      LogToStderr(protocol::LogLevel::kInfo, line);
    }
  }
  if (initiator_ == nullptr) return;
  // A target that does not answer is left after Logout's own timeout.
  Await([this](Done done) {
    if (initiator_->connected()) {
      initiator_->Logout(std::move(done));
    } else {
      done(absl::OkStatus());
    }
  }).IgnoreError();
  RunOnReactor([this] { initiator_.reset(); });
}

void Session::UseMemory(absl::Span<uint8_t> memory,
                        std::shared_ptr<const void> owner) {
  absl::Status status;
  RunOnReactor([&] {
    status =
        OwnCopy(initiator_->UseMemory(memory.data(), memory.size(), owner));
  });
  // Commands work all the same.
  if (!status.ok()) {
    LogToStderr(protocol::LogLevel::kWarning,
                absl::StrCat("buffers are registered for each command: ",
                             status.message()));
  }
}

absl::Status Session::Await(absl::FunctionRef<void(Done)> start) {
  Completion completion;
  absl::Status result;
  RunOnReactor([&] {
    start([&completion, &result](const absl::Status& status) {
      result = OwnCopy(status);
      completion.Signal();
    });
  });
  completion.Wait();
  return result;
}

absl::Status Session::Run(scsi::Command* command) {
  Repeats repeats;
  while (true) {
    Completion completion;
    command->context = &completion;
    command->done = [](scsi::Command* c) {
      static_cast<Completion*>(c->context)->Signal();
    };
    RunOnReactor([&] { initiator_->Submit(command); });
    completion.Wait();
    if (repeats.Next(*command) != Repeats::Cause::kNone) continue;
    if (scsi::IsRecovered(*command)) {
      LogToStderr(protocol::LogLevel::kWarning,
                  absl::StrCat("the disk recovered from an error in ",
                               scsi::CommandName(*command)));
    }
    return scsi::CommandStatus(*command);
  }
}

SessionReport Session::Report() {
  SessionReport report;
  protocol::ConnectionCounters c;
  RunOnReactor([&] {
    const protocol::Initiator& initiator = *initiator_;
    const protocol::ConnectionInfo connection = initiator.connection();
    report.target = initiator.identity().target_name;
    report.peer = initiator.peer_address();
    report.transport = initiator.transport_name();
    report.data_model = connection.data_model;
    report.dialect = protocol::IserDialect(initiator.parameters().iser);
    report.device = connection.device;
    report.remote_invalidation = connection.remote_invalidation;
    report.fallbacks = connection.fallbacks;
    for (const auto& key : protocol::NegotiatedKeys(initiator.parameters())) {
      report.keys.emplace_back(key.first, key.second);
    }
    const protocol::InitiatorStats& stats = initiator.stats();
    report.commands = stats.commands;
    report.retries = stats.retries;
    report.reconnects = stats.reconnects;
    c = connection.counters;
  });
  const std::string why_no_rdma = client_->WhyNoRdma(portal_);
  if (!why_no_rdma.empty() && report.device.empty()) {
    report.fallbacks.push_back(
        absl::StrCat("TCP instead of RDMA: ", why_no_rdma));
  }
  report.counters = {{"pdus_in", c.pdus_in},
                     {"pdus_out", c.pdus_out},
                     {"bytes_in", c.bytes_in},
                     {"bytes_out", c.bytes_out},
                     {"payload_bytes_copied", c.copied_bytes}};
  if (report.device.empty()) return report;
  for (const auto& counter :
       {std::pair("sends", c.pdus_out), std::pair("receives", c.pdus_in),
        std::pair("remote_invalidations", c.remote_invalidations),
        std::pair("local_invalidations", c.local_invalidations),
        std::pair("registrations", c.registrations),
        std::pair("gathered_buffers", c.gathered_buffers)}) {
    report.counters.push_back(counter);
  }
  return report;
}

std::string Session::Describe() {
  return absl::StrCat(initiator_->data_model(), " over ",
                      initiator_->transport_name());
}

}  // namespace skiff::tools
