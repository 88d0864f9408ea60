#ifndef SKIFF_TOOLS_SKIFFD_CONFIG_TEST_UTIL_H_
#define SKIFF_TOOLS_SKIFFD_CONFIG_TEST_UTIL_H_

#include <stdlib.h>

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "tools/skiffd/config.h"
#include "tools/skiffd/flags.h"
#include "transport/tcp/tcp_transport.h"

// What a configuration, or a command line, comes to.

namespace skiff::tools::skiffd {

class ConfigTest : public ::testing::Test {
 protected:
  ConfigTest() {
    EXPECT_TRUE(registry_.Add(transport::MakeTcpTransport()).ok());
    directory_ = ::testing::TempDir() + "/config_test.XXXXXX";
    EXPECT_NE(mkdtemp(directory_.data()), nullptr);
  }

  std::string MakeFile(const std::string& name, size_t size) const {
    std::string path = directory_ + "/" + name;
    std::ofstream(path) << std::string(size, '\0');
    return path;
  }

  // The problems of a file that is called "f", with the test's directory
  // written as "DIR".
  std::vector<std::string> Problems(const std::string& text) {
    std::vector<std::string> problems;
    const ParsedConfig parsed = ParseConfigText(
        absl::StrReplaceAll(text, {{"DIR", directory_}}), "f", &problems);
    if (problems.empty()) config_ = CheckConfig(parsed, registry_, &problems);
    return Tidy(std::move(problems));
  }

  std::vector<std::string> QuickProblems(const std::vector<QuickFlag>& quick) {
    Flags flags;
    flags.quick = quick;
    for (QuickFlag& flag : flags.quick) {
      flag.value = absl::StrReplaceAll(flag.value, {{"DIR", directory_}});
    }
    return FlagProblems(flags);
  }

  std::vector<std::string> FlagProblems(const Flags& flags) {
    std::vector<std::string> problems;
    const ParsedConfig parsed = ReadConfig(flags, &problems);
    if (problems.empty()) config_ = CheckConfig(parsed, registry_, &problems);
    return Tidy(std::move(problems));
  }

  std::vector<std::string> Tidy(std::vector<std::string> problems) const {
    for (std::string& problem : problems) {
      problem = absl::StrReplaceAll(problem, {{directory_, "DIR"}});
    }
    return problems;
  }

  transport::Registry registry_;
  std::string directory_;
  DaemonConfig config_;
};

inline constexpr char kGoodTarget[] =
    "target { name: \"iqn.2026-11.com.example:a\" lun { ram { size: \"1MiB\" } "
    "} }\n";

}  // namespace skiff::tools::skiffd

#endif  // SKIFF_TOOLS_SKIFFD_CONFIG_TEST_UTIL_H_
