// Rules of the C interface in the words of scsi::AccessList.

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "protocol/negotiation/names.h"
#include "tools/library/access.h"
#include "tools/library/error.h"
#include "tools/library/options.h"

namespace skiff::library {
namespace {

using scsi::AccessRule;
using scsi::AddressRange;

// All are looked at for each login.
constexpr size_t kMaxRules = 65536;
constexpr size_t kMaxAddresses = 4096;
// In flat addressing, SAM-5 section 4.7.7.3.
constexpr uint64_t kMaxLun = 16383;

int Bad(absl::string_view rule, absl::string_view why) {
  return Fail(EINVAL, absl::StrCat(rule, ": ", why));
}

int ReadAddresses(const skiff_access_rule& given, absl::string_view where,
                  AccessRule* rule) {
  if (given.address_count == 0) return 0;
  if (given.addresses == nullptr) {
    return Bad(where, "addresses is NULL, but address_count is not 0");
  }
  if (given.address_count > kMaxAddresses) {
    return Bad(where, absl::StrCat("address_count is ", given.address_count,
                                   ", more than ", kMaxAddresses));
  }
  for (size_t i = 0; i < given.address_count; ++i) {
    if (given.addresses[i] == nullptr) {
      return Bad(where, absl::StrCat("address ", i, " is NULL"));
    }
    absl::StatusOr<AddressRange> range =
        AddressRange::Parse(given.addresses[i]);
    if (!range.ok()) return Bad(where, range.status().message());
    rule->addresses.push_back(*std::move(range));
  }
  return 0;
}

int ReadLuns(const skiff_access_rule& given, absl::string_view where,
             AccessRule* rule) {
  if (given.luns == nullptr) {
    return given.lun_count == 0
               ? 0
               : Bad(where, "luns is NULL, but lun_count is not 0");
  }
  if (given.lun_count > kMaxLun + 1) {
    return Bad(where, absl::StrCat("lun_count is ", given.lun_count,
                                   ", more than there are LUNs"));
  }
  auto& luns = rule->luns.emplace();
  std::vector<bool> taken(kMaxLun + 1);
  std::vector<bool> seen(kMaxLun + 1);
  for (size_t i = 0; i < given.lun_count; ++i) {
    const skiff_access_lun& one = given.luns[i];
    if (one.reserved != 0) {
      return Bad(where, absl::StrCat("reserved of LUN ", one.lun, " is not 0"));
    }
    if (one.lun > kMaxLun || one.seen_as > kMaxLun) {
      return Bad(where, absl::StrCat("LUN ", std::max(one.lun, one.seen_as),
                                     " is beyond ", kMaxLun, ", the last one"));
    }
    if (taken[one.lun]) {
      return Bad(where, absl::StrCat("LUN ", one.lun, " is mapped twice"));
    }
    if (seen[one.seen_as]) {
      return Bad(where, absl::StrCat("two LUNs are seen as ", one.seen_as));
    }
    taken[one.lun] = true;
    seen[one.seen_as] = true;
    luns.push_back({one.lun, one.seen_as, one.read_only != 0});
  }
  return 0;
}

int ReadRule(const skiff_access_rule* rule, absl::string_view where,
             AccessRule* out) {
  if (rule == nullptr) return Bad(where, "it is NULL");
  skiff_access_rule given;
  if (const int error = ReadOptions(rule, "skiff_access_rule", &given)) {
    return error;
  }
  if (given.reserved != 0) return Bad(where, "reserved is not 0");
  if (given.initiator != nullptr) {
    absl::StatusOr<std::string> name = protocol::NormalizeName(given.initiator);
    if (!name.ok()) return Bad(where, name.status().message());
    out->initiator = *std::move(name);
  }
  out->authenticated_as = StringOf(given.authenticated_as, "");
  if (given.authenticated_as != nullptr && out->authenticated_as.empty()) {
    return Bad(where, "authenticated_as is empty: NULL stands for everybody");
  }
  out->read_only = given.read_only != 0;
  if (const int error = ReadAddresses(given, where, out)) return error;
  return ReadLuns(given, where, out);
}

}  // namespace

int ReadAccessRules(const skiff_access_rule* const* rules, size_t count,
                    std::vector<AccessRule>* out) {
  if (rules == nullptr && count != 0) {
    return Fail(EINVAL, "rules is NULL, but their count is not 0");
  }
  if (count > kMaxRules) {
    return Fail(EINVAL, absl::StrCat("there are ", count, " rules, more than ",
                                     kMaxRules));
  }
  out->resize(count);
  for (size_t i = 0; i < count; ++i) {
    const std::string where = absl::StrCat("rule ", i);
    if (const int error = ReadRule(rules[i], where, &(*out)[i])) return error;
  }
  return 0;
}

}  // namespace skiff::library
