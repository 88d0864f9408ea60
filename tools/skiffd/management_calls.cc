#include "tools/skiffd/management_calls.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "tools/common/stderr_log.h"
#include "tools/common/version.h"
#include "tools/management/management.pb.h"
#include "tools/skiffd/management_lists.h"
#include "tools/skiffd/settings.h"

namespace skiff::tools::skiffd {
namespace {

namespace api = management::v1;

constexpr absl::string_view kService = "/skiff.management.v1.Management/";
// Of a grace: a day.
constexpr double kMaxGraceSeconds = 86400;

void Log(const std::string& message) {
  LogToStderr(protocol::LogLevel::kInfo, absl::StrCat("management: ", message));
}

absl::StatusOr<absl::Duration> GraceOf(double seconds) {
  // Nor is NaN.
  if (!(seconds >= 0 && seconds <= kMaxGraceSeconds)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a grace of ", seconds, " s: it may be 0 to ", kMaxGraceSeconds, " s"));
  }
  return absl::Seconds(seconds);
}

absl::StatusOr<api::ApplyReply> Apply(const api::ApplyRequest& request,
                                      Controls* controls) {
  const std::string name =
      request.name().empty() ? "the configuration" : request.name();
  const Daemon::Applied applied = controls->ApplyText(
      request.config(), name,
      {.dry_run = request.dry_run(), .force = request.force()});
  api::ApplyReply reply;
  for (const std::string& line : applied.changes) {
    reply.add_changes(ValidUtf8(line));
  }
  for (const std::string& line : applied.notes) {
    reply.add_notes(ValidUtf8(line));
  }
  for (const std::string& line : applied.problems) {
    reply.add_problems(ValidUtf8(line));
  }
  reply.set_in_use(applied.in_use);
  reply.set_bad_config(applied.bad_config);
  return reply;
}

absl::StatusOr<api::GetConfigReply> GetConfig(
    const api::GetConfigRequest& /*request*/, Controls* controls) {
  api::GetConfigReply reply;
  reply.set_config(controls->ConfigText());
  return reply;
}

absl::StatusOr<api::GetStatusReply> GetStatus(
    const api::GetStatusRequest& /*request*/, Controls* controls) {
  Daemon* const daemon = controls->daemon();
  const auto sessions = daemon->Sessions();
  if (!sessions.ok()) return sessions.status();
  const auto memory = daemon->Memory();
  if (!memory.ok()) return memory.status();
  api::GetStatusReply reply;
  reply.set_version(kVersion);
  reply.set_pid(getpid());
  reply.set_uptime_seconds(absl::ToDoubleSeconds(daemon->uptime()));
  reply.set_log_level(std::string(LevelName(controls->log_level())));
  reply.set_trace_file(ValidUtf8(controls->trace()->path()));
  reply.set_sessions(sessions->size());
  reply.set_memory_budget_bytes(memory->budget.limit);
  reply.set_memory_budget_used_bytes(memory->budget.charged);
  reply.set_buffers_bytes(memory->buffers.total_bytes);
  reply.set_buffers_held_bytes(memory->buffers.held_bytes);
  reply.set_waiting_commands(memory->buffers.waiting_tasks);
  return reply;
}

absl::StatusOr<api::ListSessionsReply> ListSessions(
    const api::ListSessionsRequest& /*request*/, Controls* controls) {
  const auto sessions = controls->daemon()->Sessions();
  if (!sessions.ok()) return sessions.status();
  api::ListSessionsReply reply;
  for (const protocol::SessionInfo& session : *sessions) {
    *reply.add_session() = SessionOf(session);
  }
  return reply;
}

absl::StatusOr<api::ListTargetsReply> ListTargets(
    const api::ListTargetsRequest& /*request*/, Controls* controls) {
  const Daemon& daemon = *controls->daemon();
  const auto sessions = daemon.Sessions();
  if (!sessions.ok()) return sessions.status();
  std::map<std::string, uint32_t> count;
  for (const protocol::SessionInfo& session : *sessions) {
    if (session.logged_in && !session.discovery) ++count[session.target_name];
  }
  api::ListTargetsReply reply;
  for (const TargetConfig& config : daemon.config().targets) {
    api::Target* const target = reply.add_target();
    target->set_name(config.name);
    target->set_alias(ValidUtf8(config.alias));
    target->set_luns(config.luns.size());
    target->set_sessions(count[config.name]);
    target->set_open(config.anybody);
    target->set_draining(daemon.IsDraining(config.name));
  }
  return reply;
}

absl::StatusOr<api::ListLunsReply> ListLuns(
    const api::ListLunsRequest& /*request*/, Controls* controls) {
  api::ListLunsReply reply;
  for (const Daemon::ServedLun& lun : controls->daemon()->Luns()) {
    *reply.add_lun() = LunOf(lun);
  }
  return reply;
}

absl::StatusOr<api::ListPortalsReply> ListPortals(
    const api::ListPortalsRequest& /*request*/, Controls* controls) {
  const auto sessions = controls->daemon()->Sessions();
  if (!sessions.ok()) return sessions.status();
  api::ListPortalsReply reply;
  for (const Daemon::ServedPortal& served :
       controls->daemon()->ServedPortals()) {
    api::Portal* const portal = reply.add_portal();
    portal->set_configured(served.configured);
    portal->set_bound(served.bound);
    portal->set_sessions(
        std::count_if(sessions->begin(), sessions->end(),
                      [&served](const protocol::SessionInfo& session) {
                        return session.portal == served.configured;
                      }));
  }
  return reply;
}

absl::StatusOr<api::ListDevicesReply> ListDevices(
    const api::ListDevicesRequest& /*request*/, Controls* controls) {
  api::ListDevicesReply reply;
  for (const transport::Transport* transport : controls->registry().All()) {
    for (const transport::DeviceReport& report : transport->Devices()) {
      *reply.add_device() = DeviceOf(std::string(transport->scheme()), report);
    }
  }
  return reply;
}

absl::StatusOr<api::DropSessionsReply> DropSessions(
    const api::DropSessionsRequest& request, Controls* controls) {
  const std::set<uint64_t> ids(request.id().begin(), request.id().end());
  const bool some =
      !ids.empty() || !request.initiator().empty() || !request.target().empty();
  if (some == request.all()) {
    return absl::InvalidArgumentError(
        "say which sessions: by id, initiator or target; or all of them");
  }
  const auto grace = GraceOf(request.grace_seconds());
  if (!grace.ok()) return grace.status();
  const auto sessions = controls->daemon()->Sessions();
  if (!sessions.ok()) return sessions.status();
  std::vector<uint64_t> found;
  for (const protocol::SessionInfo& session : *sessions) {
    if ((ids.empty() || ids.count(session.id) > 0) &&
        (request.initiator().empty() ||
         session.initiator_name == request.initiator()) &&
        (request.target().empty() || session.target_name == request.target())) {
      found.push_back(session.id);
    }
  }
  if (found.empty() && some) {
    return absl::NotFoundError(
        "there is no such session; 'skiffctl list sessions' shows those that "
        "there are");
  }
  controls->daemon()->Drop(found, *grace);
  Log(absl::StrCat("drops ", found.size(), " sessions"));
  api::DropSessionsReply reply;
  reply.mutable_id()->Add(found.begin(), found.end());
  return reply;
}

absl::StatusOr<api::DrainReply> Drain(const api::DrainRequest& request,
                                      Controls* controls) {
  Daemon* const daemon = controls->daemon();
  const auto grace = GraceOf(request.grace_seconds());
  if (!grace.ok()) return grace.status();
  std::set<std::string> before;
  for (const TargetConfig& target : daemon->config().targets) {
    if (daemon->IsDraining(target.name)) before.insert(target.name);
  }
  const auto targets = daemon->SetDraining(request.target(), !request.end());
  if (!targets.ok()) return targets.status();
  api::DrainReply reply;
  reply.mutable_target()->Add(targets->begin(), targets->end());
  if (request.end()) {
    Log(absl::StrCat("lets initiators in to ", targets->size(), " targets"));
    return reply;
  }
  // Whoever logged in before is seen here.
  const auto sessions = daemon->Sessions();
  if (!sessions.ok()) {
    for (const std::string& name : *targets) {
      if (before.count(name) == 0) {
        daemon->SetDraining(name, /*draining=*/false).IgnoreError();
      }
    }
    return sessions.status();
  }
  const std::set<std::string> names(targets->begin(), targets->end());
  std::vector<uint64_t> found;
  for (const protocol::SessionInfo& session : *sessions) {
    if (!session.discovery && names.count(session.target_name) > 0) {
      found.push_back(session.id);
    }
  }
  daemon->Drop(found, *grace);
  reply.set_sessions(found.size());
  Log(absl::StrCat("drains ", targets->size(), " targets of ", found.size(),
                   " sessions"));
  return reply;
}

absl::StatusOr<api::SetLogLevelReply> SetLogLevel(
    const api::SetLogLevelRequest& request, Controls* controls) {
  const std::optional<protocol::LogLevel> level = LevelOf(request.level());
  if (!level.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", request.level(),
                     "' is no level: say error, warning, info or debug"));
  }
  api::SetLogLevelReply reply;
  reply.set_before(std::string(LevelName(controls->log_level())));
  controls->SetLogLevel(*level);
  Log(absl::StrCat("log level ", LevelName(*level)));
  return reply;
}

absl::StatusOr<api::StartTraceReply> StartTrace(
    const api::StartTraceRequest& request, Controls* controls) {
  if (!absl::StartsWith(request.file(), "/")) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", request.file(),
                     "' is not the whole path of a file, on the machine of "
                     "skiffd"));
  }
  const absl::Status started = controls->StartTrace(request.file());
  if (!started.ok()) return started;
  Log(absl::StrCat("traces to ", request.file()));
  return api::StartTraceReply();
}

absl::StatusOr<api::StopTraceReply> StopTrace(
    const api::StopTraceRequest& /*request*/, Controls* controls) {
  const auto file = controls->trace()->Stop();
  if (!file.ok()) return file.status();
  Log(absl::StrCat("has traced to ", *file));
  api::StopTraceReply reply;
  reply.set_file(ValidUtf8(*file));
  return reply;
}

using Answer = RpcAnswer (*)(const std::string& request, Controls* controls);

template <typename Request, typename Reply,
          absl::StatusOr<Reply> (*call)(const Request&, Controls*)>
RpcAnswer Typed(const std::string& bytes, Controls* controls) {
  RpcAnswer answer;
  Request request;
  absl::StatusOr<Reply> reply =
      absl::InvalidArgumentError("the request is no message of this method");
  if (request.ParseFromString(bytes)) reply = call(request, controls);
  answer.code = static_cast<int>(reply.status().code());
  answer.message = ValidUtf8(reply.status().message());
  if (reply.ok()) reply->SerializeToString(&answer.body);
  return answer;
}

// Null: there is no such method.
Answer Find(absl::string_view name) {
  static const auto& methods = *new std::map<absl::string_view, Answer>{
      {"Apply", Typed<api::ApplyRequest, api::ApplyReply, Apply>},
      {"GetConfig",
       Typed<api::GetConfigRequest, api::GetConfigReply, GetConfig>},
      {"GetStatus",
       Typed<api::GetStatusRequest, api::GetStatusReply, GetStatus>},
      {"ListSessions",
       Typed<api::ListSessionsRequest, api::ListSessionsReply, ListSessions>},
      {"ListTargets",
       Typed<api::ListTargetsRequest, api::ListTargetsReply, ListTargets>},
      {"ListLuns", Typed<api::ListLunsRequest, api::ListLunsReply, ListLuns>},
      {"ListPortals",
       Typed<api::ListPortalsRequest, api::ListPortalsReply, ListPortals>},
      {"ListDevices",
       Typed<api::ListDevicesRequest, api::ListDevicesReply, ListDevices>},
      {"DropSessions",
       Typed<api::DropSessionsRequest, api::DropSessionsReply, DropSessions>},
      {"Drain", Typed<api::DrainRequest, api::DrainReply, Drain>},
      {"SetLogLevel",
       Typed<api::SetLogLevelRequest, api::SetLogLevelReply, SetLogLevel>},
      {"StartTrace",
       Typed<api::StartTraceRequest, api::StartTraceReply, StartTrace>},
      {"StopTrace",
       Typed<api::StopTraceRequest, api::StopTraceReply, StopTrace>},
  };
  const auto found = methods.find(name);
  return found == methods.end() ? nullptr : found->second;
}

}  // namespace

RpcAnswer AnswerCall(const std::string& method, const std::string& request,
                     Controls* controls) {
  absl::string_view name = method;
  const Answer answer =
      absl::ConsumePrefix(&name, kService) ? Find(name) : nullptr;
  if (answer == nullptr) {
    return {static_cast<int>(absl::StatusCode::kUnimplemented),
            ValidUtf8(absl::StrCat("there is no method ", method)), ""};
  }
  if (controls->ending()) {
    return {static_cast<int>(absl::StatusCode::kUnavailable),
            "skiffd is ending", ""};
  }
  return answer(request, controls);
}

}  // namespace skiff::tools::skiffd
