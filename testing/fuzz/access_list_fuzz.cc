#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "scsi/target/access_list.h"
#include "testing/fuzz/check.h"

// Any lines as ranges of addresses, and as addresses: a range is the same after
// it was written and read, and one that covers another has what that has. A
// rule that covers another fits whoever fits the other.

namespace skiff::scsi {
namespace {

constexpr size_t kMaxLines = 16;

NexusIdentity From(absl::string_view address) {
  NexusIdentity nexus;
  nexus.address = std::string(address);
  return nexus;
}

AccessRule RuleOf(const AddressRange& range) {
  AccessRule rule;
  rule.addresses.push_back(range);
  return rule;
}

void TryPair(const AddressRange& one, const AddressRange& other,
             const std::vector<absl::string_view>& addresses) {
  const AccessRule wide = RuleOf(one);
  const AccessRule narrow = RuleOf(other);
  SKIFF_FUZZ_CHECK(wide.Covers(narrow) == one.Covers(other));
  AccessList of_wide({wide});
  AccessList of_narrow({narrow});
  for (const absl::string_view address : addresses) {
    const bool fits = of_narrow.Admit(From(address)).ok();
    SKIFF_FUZZ_CHECK(fits == other.Contains(address));
    if (fits && one.Covers(other)) {
      SKIFF_FUZZ_CHECK(of_wide.Admit(From(address)).ok());
    }
  }
}

void TryLines(absl::string_view text) {
  std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  if (lines.size() > kMaxLines) lines.resize(kMaxLines);
  std::vector<AddressRange> ranges;
  for (const absl::string_view line : lines) {
    const auto range = AddressRange::Parse(line);
    if (!range.ok()) continue;
    const auto again = AddressRange::Parse(range->ToString());
    SKIFF_FUZZ_CHECK(again.ok());
    SKIFF_FUZZ_CHECK(again->Covers(*range) && range->Covers(*again));
    ranges.push_back(*range);
  }
  for (const AddressRange& one : ranges) {
    for (const AddressRange& other : ranges) TryPair(one, other, lines);
  }
}

}  // namespace
}  // namespace skiff::scsi

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  skiff::scsi::TryLines({reinterpret_cast<const char*>(data), size});
  return 0;
}
