#include "tools/skiffd/rule_index.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstdint>
#include <tuple>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace skiff::tools::skiffd {
namespace {

using scsi::AccessRule;
using scsi::AddressRange;

// What AddressRange::ToString() says.
struct Prefix {
  explicit Prefix(const AddressRange& range) {
    const std::string text = range.ToString();
    const size_t slash = text.find('/');
    const std::string address = text.substr(0, slash);
    v6 = address.find(':') != std::string::npos;
    inet_pton(v6 ? AF_INET6 : AF_INET, address.c_str(), bytes.data());
    std::ignore = absl::SimpleAtoi(text.substr(slash + 1), &length);
  }

  // Its beginning, as a key.
  std::string Key(int bits) const {
    std::array<uint8_t, 16> first = bytes;
    for (int bit = bits; bit < 128; ++bit) {
      first[bit / 8] &= static_cast<uint8_t>(~(0x80u >> (bit % 8)));
    }
    return absl::StrCat(
        v6 ? "6" : "4", bits, "/",
        absl::string_view(reinterpret_cast<const char*>(first.data()),
                          first.size()));
  }

  bool v6 = false;
  std::array<uint8_t, 16> bytes = {};  // Of IPv4, the first four.
  int length = 0;
};

}  // namespace

void AddressIndex::Add(const AddressRange& range, size_t owner) {
  const Prefix prefix(range);
  lengths_.at(prefix.v6 ? 1 : 0).insert(prefix.length);
  owners_[prefix.Key(prefix.length)].push_back(owner);
}

void AddressIndex::ForEachList(
    const AddressRange& range,
    const std::function<void(const Owners&)>& visit) const {
  const Prefix prefix(range);
  for (const int length : lengths_.at(prefix.v6 ? 1 : 0)) {
    if (length > prefix.length) return;
    const auto found = owners_.find(prefix.Key(length));
    if (found != owners_.end()) visit(found->second);
  }
}

size_t AddressIndex::CountCovering(const AddressRange& range) const {
  size_t count = 0;
  ForEachList(range,
              [&count](const Owners& owners) { count += owners.size(); });
  return count;
}

void AddressIndex::ForEachCovering(
    const AddressRange& range,
    const std::function<void(size_t owner)>& visit) const {
  ForEachList(range, [&visit](const Owners& owners) {
    std::for_each(owners.begin(), owners.end(), visit);
  });
}

void RuleIndex::Add(size_t number) {
  const AccessRule& rule = rules_->at(number);
  Alike& alike = alike_[{rule.initiator, rule.authenticated_as}];
  if (rule.addresses.empty() && !alike.anywhere.has_value()) {
    alike.anywhere = number;
  }
  for (const AddressRange& range : rule.addresses) {
    alike.somewhere.Add(range, number);
  }
}

std::optional<size_t> RuleIndex::FirstIn(const Alike& alike,
                                         const AccessRule& rule) const {
  std::optional<size_t> first = alike.anywhere;
  if (rule.addresses.empty()) return first;
  // A rule that covers it covers each of its addresses: also the one that the
  // fewest do.
  const AddressRange* rarest = nullptr;
  size_t fewest = 0;
  for (const AddressRange& range : rule.addresses) {
    const size_t count = alike.somewhere.CountCovering(range);
    if (rarest == nullptr || count < fewest) {
      rarest = &range;
      fewest = count;
    }
  }
  alike.somewhere.ForEachCovering(*rarest, [&](size_t number) {
    if (first.has_value() && *first <= number) return;
    if (rules_->at(number).Covers(rule)) first = number;
  });
  return first;
}

std::optional<size_t> RuleIndex::FirstCovering(const AccessRule& rule) const {
  std::set<std::pair<std::string, std::string>> keys;
  for (const std::string& name : {std::string(), rule.initiator}) {
    for (const std::string& account : {std::string(), rule.authenticated_as}) {
      keys.emplace(name, account);
    }
  }
  std::optional<size_t> first;
  for (const auto& key : keys) {
    const auto alike = alike_.find(key);
    if (alike == alike_.end()) continue;
    const std::optional<size_t> found = FirstIn(alike->second, rule);
    if (found.has_value()) first = std::min(first.value_or(*found), *found);
  }
  return first;
}

}  // namespace skiff::tools::skiffd
