#include "tools/common/usage.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace skiff::tools {
namespace {

const std::vector<std::string>& Words() {
  static const auto* const kWords = new std::vector<std::string>{
      "discover", "ls", "capacity", "copy", "perf", "ping"};
  return *kWords;
}

TEST(UsageTest, FindsTheNearestWord) {
  EXPECT_EQ(Nearest("capcity", Words()), "capacity");    // Missing.
  EXPECT_EQ(Nearest("capaccity", Words()), "capacity");  // Too many.
  EXPECT_EQ(Nearest("capasity", Words()), "capacity");   // Wrong.
  EXPECT_EQ(Nearest("capaicty", Words()), "capacity");   // Swapped.
  EXPECT_EQ(Nearest("sl", Words()), "ls");
  EXPECT_EQ(Nearest("prnig", Words()), "ping");
}

TEST(UsageTest, GuessesNothingFarFetched) {
  EXPECT_EQ(Nearest("format", Words()), "");
  EXPECT_EQ(Nearest("", Words()), "");
  EXPECT_EQ(Nearest("xy", Words()), "");
  EXPECT_EQ(Nearest("copy", {}), "");
}

TEST(UsageTest, NamesWhatIsUnknown) {
  EXPECT_EQ(Unknown("subcommand", "capcity", Words()),
            "unknown subcommand 'capcity'; did you mean 'capacity'?");
  EXPECT_EQ(Unknown("flag", "--bogus", Words()), "unknown flag '--bogus'");
}

}  // namespace
}  // namespace skiff::tools
