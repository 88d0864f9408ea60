#ifndef SKIFF_TOOLS_SKIFFD_RULE_INDEX_H_
#define SKIFF_TOOLS_SKIFFD_RULE_INDEX_H_

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "scsi/target/access_list.h"
#include "scsi/target/address_range.h"

namespace skiff::tools::skiffd {

// Finds ranges of addresses that have others in them. What it takes grows with
// the lengths of prefixes that are in use, and not with the ranges.
class AddressIndex {
 public:
  void Add(const scsi::AddressRange& range, size_t owner);
  // Of the ranges that cover this one.
  size_t CountCovering(const scsi::AddressRange& range) const;
  void ForEachCovering(const scsi::AddressRange& range,
                       const std::function<void(size_t owner)>& visit) const;

 private:
  using Owners = std::vector<size_t>;

  void ForEachList(const scsi::AddressRange& range,
                   const std::function<void(const Owners&)>& visit) const;

  absl::flat_hash_map<std::string, Owners> owners_;  // By family and prefix.
  std::array<std::set<int>, 2> lengths_;             // Of IPv4, and of IPv6.
};

// Finds access rules that cover others. A rule that covers another has the same
// name or none, and the same account or none.
class RuleIndex {
 public:
  // `rules` must outlive it; they may grow, and stay as they are otherwise.
  explicit RuleIndex(const std::vector<scsi::AccessRule>* rules)
      : rules_(rules) {}

  // One of the rules.
  void Add(size_t number);
  // The first one that was added and covers it; nothing: none does.
  std::optional<size_t> FirstCovering(const scsi::AccessRule& rule) const;

 private:
  // Of one name and one account.
  struct Alike {
    std::optional<size_t> anywhere;  // The first one without addresses.
    AddressIndex somewhere;
  };

  std::optional<size_t> FirstIn(const Alike& alike,
                                const scsi::AccessRule& rule) const;

  const std::vector<scsi::AccessRule>* rules_;
  absl::flat_hash_map<std::pair<std::string, std::string>, Alike> alike_;
};

}  // namespace skiff::tools::skiffd

#endif  // SKIFF_TOOLS_SKIFFD_RULE_INDEX_H_
