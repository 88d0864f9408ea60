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

// A range, and a bit for each line that is an address in it.
struct Known {
  AddressRange range;
  uint32_t has = 0;
};

Known Try(const AddressRange& range,
          const std::vector<absl::string_view>& addresses) {
  Known known = {range};
  AccessList list({RuleOf(range)});
  for (size_t i = 0; i < addresses.size(); ++i) {
    const bool fits = list.Admit(From(addresses[i])).ok();
    SKIFF_FUZZ_CHECK(fits == range.Contains(addresses[i]));
    if (fits) known.has |= 1u << i;
  }
  return known;
}

void TryPair(const Known& one, const Known& other) {
  const bool covers = one.range.Covers(other.range);
  SKIFF_FUZZ_CHECK(covers == RuleOf(one.range).Covers(RuleOf(other.range)));
  if (covers) SKIFF_FUZZ_CHECK((other.has & ~one.has) == 0);
}

void TryLines(absl::string_view text) {
  std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  if (lines.size() > kMaxLines) lines.resize(kMaxLines);
  std::vector<Known> ranges;
  for (const absl::string_view line : lines) {
    const auto range = AddressRange::Parse(line);
    if (!range.ok()) continue;
    const auto again = AddressRange::Parse(range->ToString());
    SKIFF_FUZZ_CHECK(again.ok());
    SKIFF_FUZZ_CHECK(again->Covers(*range) && range->Covers(*again));
    ranges.push_back(Try(*range, lines));
  }
  for (const Known& one : ranges) {
    for (const Known& other : ranges) TryPair(one, other);
  }
}

}  // namespace
}  // namespace skiff::scsi

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  skiff::scsi::TryLines({reinterpret_cast<const char*>(data), size});
  return 0;
}
