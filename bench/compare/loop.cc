#include "bench/compare/loop.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <string>

#include "absl/flags/flag.h"

ABSL_FLAG(std::string, op, "send", "send, write or read");
ABSL_FLAG(std::string, mode, "latency",
          "latency: one at a time, send and write to and fro; "
          "rate: depth at once, one way");
ABSL_FLAG(std::string, size, "64", "bytes of an operation");
ABSL_FLAG(int, depth, 128, "operations at once, for rate");
ABSL_FLAG(int, read_depth, 16, "READs at once");
ABSL_FLAG(size_t, inline_bytes, 0, "what the post itself may copy");
ABSL_FLAG(int, looks, 1,
          "at memory between two looks at the queue, while a WRITE to and fro "
          "is waited for; what arrives by itself is seen the sooner");
ABSL_FLAG(double, runtime, 2, "seconds to measure");
ABSL_FLAG(uint64_t, operations, 0,
          "operations to do at least, and no longer, for programs that count "
          "instructions: prints how many it were");
ABSL_FLAG(int, server_core, -1, "core of the end that is served");
ABSL_FLAG(int, client_core, -1, "core of the end that measures");

namespace skiff::bench {
namespace {

// Behind what is measured; and, for what counts instructions, in all.
constexpr double kGraceSeconds = 30;
constexpr double kCountingSeconds = 300;
// One byte of a connection's parameters.
constexpr int kMaxReadDepth = 255;

void EndWithServer(int /*signal*/) { _exit(1); }

}  // namespace

void GuardLoop(const LoopPlan& plan) {
  signal(SIGCHLD, EndWithServer);
  alarm(static_cast<unsigned>(
      plan.operations > 0 ? kCountingSeconds
                          : plan.seconds + kLoopWarmupSeconds + kGraceSeconds));
}

void IgnoreServersEnd() { signal(SIGCHLD, SIG_DFL); }

LoopPlan LoopPlan::OfFlags() {
  LoopPlan plan;
  const std::string op = absl::GetFlag(FLAGS_op);
  const std::string mode = absl::GetFlag(FLAGS_mode);
  if (op == "write") {
    plan.op = Op::kWrite;
  } else if (op == "read") {
    plan.op = Op::kRead;
  } else if (op != "send") {
    Die("--op is send, write or read");
  }
  if (mode != "latency" && mode != "rate") Die("--mode is latency or rate");
  plan.ping_pong = mode == "latency" && plan.op != Op::kRead;
  const int read_depth = absl::GetFlag(FLAGS_read_depth);
  int depth = mode == "latency" ? 1 : absl::GetFlag(FLAGS_depth);
  if (plan.op == Op::kRead) depth = std::min(depth, read_depth);
  if (depth < 1) Die("--depth is at least 1");
  if (read_depth < 1 || read_depth > kMaxReadDepth) {
    Die("--read_depth is 1 to 255");
  }
  plan.depth = static_cast<uint64_t>(depth);
  plan.read_depth = static_cast<uint32_t>(read_depth);
  plan.size = ParseSize(absl::GetFlag(FLAGS_size));
  plan.inline_bytes = absl::GetFlag(FLAGS_inline_bytes);
  plan.looks = absl::GetFlag(FLAGS_looks);
  if (plan.looks < 1) Die("--looks is at least 1");
  plan.seconds = absl::GetFlag(FLAGS_runtime);
  if (plan.seconds <= 0) Die("--runtime is more than 0");
  plan.operations = absl::GetFlag(FLAGS_operations);
  plan.server_core = absl::GetFlag(FLAGS_server_core);
  plan.client_core = absl::GetFlag(FLAGS_client_core);
  return plan;
}

void PrintLoop(const LoopPlan& plan, LoopResult* result) {
  const auto count = static_cast<double>(result->operations);
  auto middle = result->samples.begin() +
                static_cast<std::ptrdiff_t>(result->samples.size() / 2);
  std::nth_element(result->samples.begin(), middle, result->samples.end());
  // One way.
  const double share = plan.ping_pong ? 0.5 : 1;
  std::printf(
      "{\"rate\": %.0f, \"mb_per_s\": %.2f, \"latency_us\": %.3f, "
      "\"mean_latency_us\": %.3f}\n",
      count / result->seconds,
      count / result->seconds * static_cast<double>(plan.size) * 1e-6,
      share * static_cast<double>(*middle) * 1e6 * result->seconds /
          static_cast<double>(result->ticks),
      share * 1e6 * result->seconds / count);
}

void PrintOperations(uint64_t operations) {
  std::printf("{\"operations\": %" PRIu64 "}\n", operations);
}

}  // namespace skiff::bench
