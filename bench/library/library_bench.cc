// What the interface for C costs: the same I/O by scsi::Disk, by the library as
// it is linked into this program, and by shared ones, in turns. All ends poll:
// the target in memory on core 0, the loads on core 1, over TCP between them.
//
//   library_bench [--library=libskiff.so.0] [--json=FILE]
//
// A ratio is the median over the rounds. FILE is one that skiff-bench draws.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "bench/compare/util.h"
#include "bench/library/disk_load.h"
#include "nlohmann/json.hpp"
#include "protocol/target/target_server.h"
#include "scsi/backend/ram_backend.h"
#include "scsi/target/target.h"
#include "transport/reactor/reactor_threads.h"
#include "transport/registry.h"
#include "transport/tcp/tcp_transport.h"

ABSL_FLAG(std::vector<std::string>, library, {},
          "shared libraries to measure, too");
ABSL_FLAG(int, rounds, 15, "of each work, by each load in turn");
ABSL_FLAG(double, seconds, 0.2, "of each round");
ABSL_FLAG(std::string, json, "", "where to write all samples");

namespace skiff::bench {
namespace {

constexpr int kTargetCore = 0;
constexpr int kLoadCore = 1;
// A library may take so much of the rate of scsi::Disk.
constexpr double kGoal = 0.97;

template <typename T>
T Must(absl::StatusOr<T> value) {
  if (!value.ok()) Die("library_bench: " + value.status().ToString());
  return *std::move(value);
}

class RamServer {
 public:
  RamServer() {
    if (!registry_.Add(transport::MakeTcpTransport()).ok()) Die("no TCP");
    transport::ReactorThreadsOptions options;
    options.reactor.spin = absl::InfiniteDuration();
    options.cpus = {kTargetCore};
    threads_ = Must(transport::ReactorThreads::Start(options));
    auto target = Must(MakeTarget());
    server_ = Must(
        protocol::TargetServer::Create(&registry_, threads_->reactors(), {}));
    if (!server_->AddTarget(std::move(target)).ok()) Die("no target");
    threads_->RunOn(0, [this] {
      portal_ = Must(server_->Listen({"tcp", "127.0.0.1", 0, {}}));
    });
  }
  ~RamServer() {
    std::promise<void> down;
    server_->Shutdown(absl::ZeroDuration(), [&down] { down.set_value(); });
    down.get_future().wait();
    threads_->Stop();
    server_.reset();
  }
  RamServer(const RamServer&) = delete;
  RamServer& operator=(const RamServer&) = delete;
  const transport::Address& portal() const { return portal_; }

 private:
  static absl::StatusOr<std::shared_ptr<scsi::Target>> MakeTarget() {
    scsi::RamBackendOptions disk;
    disk.size_bytes = kDiskBytes;
    disk.thin = false;
    auto backend = scsi::MakeRamBackend(disk);
    if (!backend.ok()) return backend.status();
    std::shared_ptr<scsi::Target> target = scsi::Target::Create(kTargetName);
    const auto added = target->AddLogicalUnit(*std::move(backend), {});
    if (!added.ok()) return added;
    return target;
  }

  transport::Registry registry_;
  std::unique_ptr<transport::ReactorThreads> threads_;
  std::unique_ptr<protocol::TargetServer> server_;
  transport::Address portal_;
};

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<int>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

struct Side {
  std::string name;
  std::unique_ptr<DiskLoad> load;
};

// Samples of each side, in the order of the rounds.
using Samples = std::map<std::string, std::vector<double>>;

// What all samples and goals are written as: bench/compare has the same.
struct Report {
  nlohmann::ordered_json samples = nlohmann::ordered_json::object();
  nlohmann::ordered_json goals = nlohmann::ordered_json::array();
  bool met = true;

  // Prints a side beside the first one, and adds it.
  void Add(const DiskWork& work, const std::string& side,
           const std::vector<double>& rates,
           const std::vector<double>& reference) {
    std::vector<double> ratios;
    for (size_t i = 0; i < rates.size(); ++i) {
      ratios.push_back(rates[i] / reference[i]);
    }
    const double ratio = Median(ratios);
    const auto [least, most] = std::minmax_element(rates.begin(), rates.end());
    std::printf("%-24s %-24s %10.0f/s  %10.0f .. %10.0f  %.3f\n",
                work.name.c_str(), side.c_str(), Median(rates), *least, *most,
                ratio);
    std::fflush(stdout);
    samples[absl::StrCat(work.name, ": ", side)] = rates;
    if (&rates == &reference) return;
    met = met && ratio >= kGoal;
    goals.push_back({{"goal", absl::StrCat(work.name, ": ", side)},
                     {"value", ratio},
                     {"limit", kGoal},
                     {"met", ratio >= kGoal}});
  }
};

std::vector<DiskWork> Works() {
  std::vector<DiskWork> works;
  for (const bool write : {false, true}) {
    const std::string verb = write ? "write" : "read";
    works.push_back({verb + " 4 KiB, 1 at once", write, 4096, 1});
    works.push_back({verb + " 4 KiB, 32 at once", write, 4096, 32});
    works.push_back({verb + " 128 KiB, 16 at once", write, 128 << 10, 16});
  }
  return works;
}

int Run() {
  const double seconds = absl::GetFlag(FLAGS_seconds);
  const RamServer server;
  PinToCore(kLoadCore);
  std::vector<Side> sides;
  sides.push_back({"scsi::Disk", MakeInternalLoad(server.portal())});
  sides.push_back({"C, linked", MakeLibraryLoad(server.portal(), "")});
  for (const std::string& path : absl::GetFlag(FLAGS_library)) {
    sides.push_back({absl::StrCat("C, ", path.substr(path.rfind('/') + 1)),
                     MakeLibraryLoad(server.portal(), path)});
  }
  // So that reads meet memory that was written.
  const DiskWork fill = {"fill", true, kMaxBytes, 16};
  sides[0].load->Measure(fill, 0.5);
  Report report;
  for (const DiskWork& work : Works()) {
    Samples samples;
    for (const Side& side : sides) side.load->Measure(work, 0.05);
    for (int round = 0; round < absl::GetFlag(FLAGS_rounds); ++round) {
      // The first one changes: none always comes behind the same other.
      for (size_t i = 0; i < sides.size(); ++i) {
        const Side& side = sides[(round + i) % sides.size()];
        samples[side.name].push_back(side.load->Measure(work, seconds));
      }
    }
    for (const Side& side : sides) {
      report.Add(work, side.name, samples[side.name], samples[sides[0].name]);
    }
  }
  if (const std::string path = absl::GetFlag(FLAGS_json); !path.empty()) {
    std::ofstream file(path);
    file << nlohmann::ordered_json(
                {{"samples", report.samples}, {"goals", report.goals}})
                .dump(1)
         << "\n";
    if (!file.flush()) Die("library_bench: cannot write " + path);
  }
  return report.met ? 0 : 1;
}

}  // namespace
}  // namespace skiff::bench

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  return skiff::bench::Run();
}
