#include "tools/skiffctl/commands.h"

#include <google/protobuf/util/json_util.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tools/common/read_file.h"
#include "tools/management/management.pb.h"
#include "tools/skiffctl/tables.h"
#include "transport/log/printable.h"

namespace skiff::tools::skiffctl {
namespace {

namespace api = management::v1;

// How often what is in use is tried again.
constexpr absl::Duration kAgain = absl::Milliseconds(500);

int Fail(const absl::Status& status) {
  const bool late = absl::IsDeadlineExceeded(status);
  std::fprintf(stderr, "skiffctl: %s\n",
               late ? "no answer in time; it may be done yet: look with 'get' "
                      "or 'list'"
                    : transport::Printable(status.message()).c_str());
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return kExitUnreachable;
    case absl::StatusCode::kInvalidArgument:
      return kExitUsage;
    default:
      return kExitFailed;
  }
}

void Print(const std::string& text) { std::fputs(text.c_str(), stdout); }

// As protobuf's JSON has it: numbers of 64 bits are strings.
void PrintJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string text;
  const auto status =
      google::protobuf::util::MessageToJsonString(message, &text, options);
  if (!status.ok()) {
    std::fprintf(stderr, "skiffctl: %s\n", status.ToString().c_str());
    return;
  }
  Print(absl::StrCat(transport::PrintableJson(text), "\n"));
}

template <typename Reply>
int Show(const Common& common, const char* method,
         const google::protobuf::Message& request) {
  const auto reply = common.client->Call<Reply>(method, request);
  if (!reply.ok()) return Fail(reply.status());
  if (common.json) {
    PrintJson(*reply);
  } else {
    Print(TableOf(*reply));
  }
  return kExitOk;
}

absl::StatusOr<std::string> ReadConfig(const std::string& file) {
  if (file != "-") return ReadFile(file);
  return ReadDescriptor(STDIN_FILENO, "standard input");
}

// What became of a configuration, or would.
int Tell(const Common& common, const api::ApplyReply& reply, bool dry_run) {
  if (common.json) PrintJson(reply);
  for (const std::string& note : reply.notes()) {
    std::fprintf(stderr, "note: %s\n", transport::Printable(note).c_str());
  }
  for (const std::string& problem : reply.problems()) {
    std::fprintf(stderr, "%s\n", transport::Printable(problem).c_str());
  }
  if (!common.json && (dry_run || reply.problems().empty())) {
    for (const std::string& change : reply.changes()) {
      Print(absl::StrCat(dry_run ? "would change: " : "changed: ",
                         transport::Printable(change), "\n"));
    }
    if (reply.changes().empty() && reply.problems().empty()) {
      Print("nothing changes\n");
    }
  }
  if (!reply.problems().empty()) {
    if (!dry_run) std::fprintf(stderr, "skiffctl: nothing was changed\n");
    if (reply.bad_config()) return kExitUsage;
    return reply.in_use() ? kExitInUse : kExitFailed;
  }
  return dry_run && !reply.changes().empty() ? kExitDiffers : kExitOk;
}

absl::StatusOr<api::ApplyRequest> RequestOf(const std::string& file) {
  absl::StatusOr<std::string> text = ReadConfig(file);
  if (!text.ok()) return absl::InvalidArgumentError(text.status().message());
  api::ApplyRequest request;
  request.set_config(*std::move(text));
  request.set_name(file == "-" ? "standard input" : file);
  return request;
}

}  // namespace

int Apply(const Common& common, const ApplyOptions& options) {
  absl::StatusOr<api::ApplyRequest> request = RequestOf(options.file);
  if (!request.ok()) return Fail(request.status());
  request->set_force(options.force);
  const absl::Time limit = absl::Now() + options.wait;
  while (true) {
    const auto reply = common.client->Call<api::ApplyReply>("Apply", *request);
    if (!reply.ok()) return Fail(reply.status());
    if (!reply->in_use() || absl::Now() >= limit) {
      return Tell(common, *reply, /*dry_run=*/false);
    }
    absl::SleepFor(std::min(kAgain, limit - absl::Now()));
  }
}

int Diff(const Common& common, const ApplyOptions& options) {
  absl::StatusOr<api::ApplyRequest> request = RequestOf(options.file);
  if (!request.ok()) return Fail(request.status());
  request->set_force(options.force);
  request->set_dry_run(true);
  const auto reply = common.client->Call<api::ApplyReply>("Apply", *request);
  if (!reply.ok()) return Fail(reply.status());
  return Tell(common, *reply, /*dry_run=*/true);
}

int Get(const Common& common) {
  const auto reply = common.client->Call<api::GetConfigReply>(
      "GetConfig", api::GetConfigRequest());
  if (!reply.ok()) return Fail(reply.status());
  if (common.json) {
    PrintJson(*reply);
  } else {
    Print(reply->config());
  }
  return kExitOk;
}

int Status(const Common& common) {
  return Show<api::GetStatusReply>(common, "GetStatus",
                                   api::GetStatusRequest());
}

int List(const Common& common, const std::string& what) {
  if (what == "sessions") {
    return Show<api::ListSessionsReply>(common, "ListSessions",
                                        api::ListSessionsRequest());
  }
  if (what == "targets") {
    return Show<api::ListTargetsReply>(common, "ListTargets",
                                       api::ListTargetsRequest());
  }
  if (what == "luns") {
    return Show<api::ListLunsReply>(common, "ListLuns", api::ListLunsRequest());
  }
  if (what == "portals") {
    return Show<api::ListPortalsReply>(common, "ListPortals",
                                       api::ListPortalsRequest());
  }
  return Show<api::ListDevicesReply>(common, "ListDevices",
                                     api::ListDevicesRequest());
}

int Drop(const Common& common, const DropOptions& options) {
  api::DropSessionsRequest request;
  request.mutable_id()->Add(options.ids.begin(), options.ids.end());
  request.set_initiator(options.initiator);
  request.set_target(options.target);
  request.set_all(options.all);
  request.set_grace_seconds(absl::ToDoubleSeconds(options.grace));
  const auto reply =
      common.client->Call<api::DropSessionsReply>("DropSessions", request);
  if (!reply.ok()) return Fail(reply.status());
  if (common.json) {
    PrintJson(*reply);
  } else {
    Print(absl::StrCat(reply->id_size(), " sessions are told to end\n"));
  }
  return kExitOk;
}

int Drain(const Common& common, const DrainOptions& options) {
  api::DrainRequest request;
  request.set_target(options.target);
  request.set_end(options.end);
  request.set_grace_seconds(absl::ToDoubleSeconds(options.grace));
  const auto reply = common.client->Call<api::DrainReply>("Drain", request);
  if (!reply.ok()) return Fail(reply.status());
  if (common.json) {
    PrintJson(*reply);
    return kExitOk;
  }
  for (const std::string& target : reply->target()) {
    Print(absl::StrCat(
        target, options.end ? " lets initiators in\n" : " admits nobody\n"));
  }
  if (!options.end) {
    Print(absl::StrCat(reply->sessions(), " sessions are told to end\n"));
  }
  return kExitOk;
}

int SetLogLevel(const Common& common, const std::string& level) {
  api::SetLogLevelRequest request;
  request.set_level(level);
  const auto reply =
      common.client->Call<api::SetLogLevelReply>("SetLogLevel", request);
  if (!reply.ok()) return Fail(reply.status());
  if (common.json) {
    PrintJson(*reply);
  } else {
    Print(absl::StrCat("the log level was ", reply->before(), ", and is ",
                       level, "\n"));
  }
  return kExitOk;
}

int StartTrace(const Common& common, const std::string& file) {
  api::StartTraceRequest request;
  request.set_file(file);
  const auto reply =
      common.client->Call<api::StartTraceReply>("StartTrace", request);
  if (!reply.ok()) return Fail(reply.status());
  if (common.json) PrintJson(*reply);
  return kExitOk;
}

int StopTrace(const Common& common) {
  const auto reply = common.client->Call<api::StopTraceReply>(
      "StopTrace", api::StopTraceRequest());
  if (!reply.ok()) return Fail(reply.status());
  if (common.json) {
    PrintJson(*reply);
  } else {
    Print(absl::StrCat("the trace is in ", reply->file(), "\n"));
  }
  return kExitOk;
}

int Top(const Common& common, const TopOptions& options) {
  const bool terminal = isatty(STDOUT_FILENO) != 0 && !common.json;
  const auto look = [&common] {
    return common.client->Call<api::ListLunsReply>("ListLuns",
                                                   api::ListLunsRequest());
  };
  absl::Time then = absl::Now();
  auto before = look();
  if (!before.ok()) return Fail(before.status());
  for (uint64_t i = 0; options.count == 0 || i < options.count; ++i) {
    absl::SleepFor(options.interval);
    const absl::Time now = absl::Now();
    auto after = look();
    if (!after.ok()) return Fail(after.status());
    if (common.json) {
      PrintJson(*after);
    } else {
      // To the upper left, and nothing below.
      if (terminal) Print("\x1b[H\x1b[2J");
      Print(TopTable(*before, *after, now - then, options.rows));
      if (!terminal) Print("\n");
    }
    if (std::fflush(stdout) != 0) return kExitFailed;
    before = std::move(after);
    then = now;
  }
  return kExitOk;
}

}  // namespace skiff::tools::skiffctl
