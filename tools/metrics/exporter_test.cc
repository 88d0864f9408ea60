#include "tools/metrics/exporter.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace skiff::tools::metrics {
namespace {

using ::testing::HasSubstr;

// As a process does that serves metrics.
StartExporter Load() {
  const std::string path = absl::StrCat("tools/metrics/", kExporterModule);
  void* const module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) {
    ADD_FAILURE() << dlerror();
    return nullptr;
  }
  return reinterpret_cast<StartExporter>(dlsym(module, kStartExporter));
}

class ExporterTest : public ::testing::Test {
 protected:
  void Start() {
    const StartExporter start = Load();
    ASSERT_NE(start, nullptr);
    std::string error;
    exporter_.reset(start(
        "127.0.0.1:0",
        [this] {
          ++collected_;
          return families_;
        },
        &error));
    ASSERT_NE(exporter_, nullptr) << error;
    ASSERT_GT(exporter_->port(), 0);
  }
  int Connect() const {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(exporter_->port()));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
    return fd;
  }
  // What comes back for these bytes, until the other side closes.
  std::string Ask(const std::string& request) const {
    const int fd = Connect();
    EXPECT_EQ(send(fd, request.data(), request.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(request.size()));
    std::string answer;
    char buffer[4096];
    for (ssize_t got; (got = recv(fd, buffer, sizeof(buffer), 0)) > 0;) {
      answer.append(buffer, static_cast<size_t>(got));
    }
    close(fd);
    return answer;
  }
  std::string Get(const std::string& path) const {
    return Ask(absl::StrCat("GET ", path, " HTTP/1.0\r\n\r\n"));
  }

  std::vector<Family> families_;
  std::atomic<int> collected_{0};
  std::unique_ptr<Exporter> exporter_;
};

TEST_F(ExporterTest, ServesWhatIsCollected) {
  Family counter;
  counter.name = "skiff_things_total";
  counter.help = "Things";
  counter.type = Family::Type::kCounter;
  counter.samples.push_back({{{"target", "a\"b\nc"}}, 7, {}});
  Family histogram;
  histogram.name = "skiff_time_seconds";
  histogram.help = "Time";
  histogram.type = Family::Type::kHistogram;
  histogram.samples.push_back({{}, 0, {{0.5, 1}, {2, 3, 4}, 9.5}});
  families_ = {counter, histogram};
  Start();
  const std::string answer = Get("/metrics");
  EXPECT_THAT(answer, HasSubstr("200 OK"));
  EXPECT_THAT(answer, HasSubstr("# TYPE skiff_things_total counter"));
  EXPECT_THAT(answer, HasSubstr("skiff_things_total{target=\"a\\\"b\\nc\"} 7"));
  EXPECT_THAT(answer, HasSubstr("skiff_time_seconds_bucket{le=\"0.5\"} 2"));
  EXPECT_THAT(answer, HasSubstr("skiff_time_seconds_bucket{le=\"1\"} 5"));
  EXPECT_THAT(answer, HasSubstr("skiff_time_seconds_bucket{le=\"+Inf\"} 9"));
  EXPECT_THAT(answer, HasSubstr("skiff_time_seconds_sum 9.5"));
  EXPECT_THAT(answer, HasSubstr("skiff_time_seconds_count 9"));
}

TEST_F(ExporterTest, NothingElseIsThere) {
  Start();
  EXPECT_THAT(Get("/"), HasSubstr("404"));
  EXPECT_THAT(Get("/../etc/passwd"), ::testing::Not(HasSubstr("root:")));
  EXPECT_EQ(collected_, 0);
}

TEST_F(ExporterTest, AnswersHeadAsGetWithoutTheContent) {
  families_.push_back({});
  families_.back().name = "skiff_things_total";
  Start();
  const std::string answer = Ask("HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(answer, HasSubstr("200 OK"));
  EXPECT_THAT(answer, HasSubstr("Content-Type: text/plain"));
  EXPECT_THAT(answer, ::testing::EndsWith("\r\n\r\n"));
  EXPECT_EQ(collected_, 0);
  EXPECT_THAT(Ask("HEAD / HTTP/1.1\r\nHost: x\r\n\r\n"), HasSubstr("404"));
}

// More than there are threads; whoever asks waits for them, and no longer.
TEST_F(ExporterTest, SilentClientsAreDropped) {
  Start();
  std::vector<int> silent;
  for (int i = 0; i < 200; ++i) {
    silent.push_back(Connect());
    if (i % 2 == 0) {
      EXPECT_EQ(send(silent.back(), "GET /met", 8, 0), 8);
    }
  }
  EXPECT_THAT(Get("/metrics"), HasSubstr("200 OK"));
  for (const int fd : silent) close(fd);
}

TEST_F(ExporterTest, SurvivesRubbish) {
  Start();
  Ask(std::string(100000, 'x') + "\r\n\r\n");
  Ask(std::string("\0\r\n\xff\xfe\r\n\r\n", 9));
  Ask("POST /metrics HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n");
  EXPECT_THAT(Get("/metrics"), HasSubstr("200 OK"));
}

TEST_F(ExporterTest, SaysWhyItCannotListen) {
  Start();
  std::string error;
  const std::unique_ptr<Exporter> other(
      Load()(absl::StrCat("127.0.0.1:", exporter_->port()), nullptr, &error));
  EXPECT_EQ(other, nullptr);
  EXPECT_THAT(error, HasSubstr("cannot serve metrics at 127.0.0.1:"));
}

}  // namespace
}  // namespace skiff::tools::metrics
