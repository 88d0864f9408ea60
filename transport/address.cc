#include "transport/address.h"

#include <cctype>
#include <cstdio>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace skiff::transport {
namespace {

absl::Status Bad(absl::string_view uri, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("address \"", uri, "\": ", what));
}

bool IsScheme(absl::string_view s) {
  if (s.empty() || !absl::ascii_islower(s[0])) return false;
  for (char c : s) {
    if (!absl::ascii_islower(c) && !absl::ascii_isdigit(c) && c != '+' &&
        c != '-' && c != '.') {
      return false;
    }
  }
  return true;
}

int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c = absl::ascii_tolower(c);
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// Undoes %XX (RFC 3986 section 2.1). False if an escape is malformed.
bool PercentDecode(absl::string_view in, std::string* out) {
  out->clear();
  for (size_t i = 0; i < in.size(); ++i) {
    if (in[i] != '%') {
      out->push_back(in[i]);
      continue;
    }
    if (i + 2 >= in.size()) return false;
    const int high = HexValue(in[i + 1]);
    const int low = HexValue(in[i + 2]);
    if (high < 0 || low < 0) return false;
    out->push_back(static_cast<char>(high * 16 + low));
    i += 2;
  }
  return true;
}

std::string PercentEncode(absl::string_view in) {
  std::string out;
  for (char c : in) {
    if (absl::ascii_isalnum(c) || absl::StrContains("-._~:/,+@", c)) {
      out.push_back(c);
    } else {
      char escape[4];
      std::snprintf(escape, sizeof(escape), "%%%02X",
                    static_cast<unsigned char>(c));
      out.append(escape);
    }
  }
  return out;
}

absl::Status ParsePort(absl::string_view uri, absl::string_view text,
                       uint16_t* port) {
  uint32_t value = 0;
  for (char c : text) {
    if (!absl::ascii_isdigit(c)) value = 65536;
  }
  if (value != 0 || !absl::SimpleAtoi(text, &value) || value > 65535) {
    return Bad(uri, absl::StrCat("port \"", text,
                                 "\" is not a number from 0 to 65535"));
  }
  *port = static_cast<uint16_t>(value);
  return absl::OkStatus();
}

// Takes `host[:port]` or `[host][:port]` apart.
absl::Status ParseAuthority(absl::string_view uri, absl::string_view authority,
                            Address* address) {
  absl::string_view rest;
  if (absl::StartsWith(authority, "[")) {
    const size_t close = authority.find(']');
    if (close == absl::string_view::npos) {
      return Bad(uri, "the [ before the host has no closing ]");
    }
    address->host = std::string(authority.substr(1, close - 1));
    rest = authority.substr(close + 1);
  } else {
    const size_t colon = authority.find(':');
    if (colon != authority.rfind(':')) {
      return Bad(uri,
                 "the host has more than one colon; write an IPv6 address in "
                 "brackets, as in tcp://[::1]:3260");
    }
    address->host = std::string(authority.substr(0, colon));
    if (colon != absl::string_view::npos) rest = authority.substr(colon);
  }
  if (address->host.empty()) {
    return Bad(uri,
               "the host is missing; to listen on every address write 0.0.0.0 "
               "or [::]");
  }
  if (rest.empty()) return absl::OkStatus();
  if (!absl::ConsumePrefix(&rest, ":")) {
    return Bad(uri, absl::StrCat("\"", rest, "\" follows the host"));
  }
  return ParsePort(uri, rest, &address->port);
}

absl::Status ParseOptions(absl::string_view uri, absl::string_view query,
                          Address* address) {
  for (absl::string_view piece : absl::StrSplit(query, '&')) {
    const size_t equals = piece.find('=');
    if (equals == absl::string_view::npos || equals == 0) {
      return Bad(uri, absl::StrCat("option \"", piece,
                                   "\" is not of the form "
                                   "key=value"));
    }
    std::string key;
    std::string value;
    if (!PercentDecode(piece.substr(0, equals), &key) ||
        !PercentDecode(piece.substr(equals + 1), &value)) {
      return Bad(uri, absl::StrCat("option \"", piece,
                                   "\" has a % that no two hexadecimal digits "
                                   "follow"));
    }
    if (!address->options.emplace(key, std::move(value)).second) {
      return Bad(uri, absl::StrCat("option \"", key, "\" is given twice"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Address> Address::Parse(absl::string_view uri,
                                       uint16_t default_port) {
  const size_t scheme_end = uri.find("://");
  if (scheme_end == absl::string_view::npos) {
    return Bad(uri, "no scheme; write it as in tcp://host:3260");
  }
  Address address;
  address.scheme = std::string(uri.substr(0, scheme_end));
  address.port = default_port;
  if (!IsScheme(address.scheme)) {
    return Bad(uri, absl::StrCat("scheme \"", address.scheme,
                                 "\" is not lower-case letters and digits"));
  }
  absl::string_view authority = uri.substr(scheme_end + 3);
  const size_t question = authority.find('?');
  if (question != absl::string_view::npos) {
    absl::Status status =
        ParseOptions(uri, authority.substr(question + 1), &address);
    if (!status.ok()) return status;
    authority = authority.substr(0, question);
  }
  const size_t bad = authority.find_first_of("/#@ \t\r\n");
  if (bad != absl::string_view::npos) {
    return Bad(uri, absl::StrCat("unexpected \"", authority.substr(bad),
                                 "\" after the scheme; only host, port and "
                                 "options are allowed"));
  }
  absl::Status status = ParseAuthority(uri, authority, &address);
  if (!status.ok()) return status;
  return address;
}

std::string Address::ToString() const {
  std::string out = absl::StrCat(scheme, "://", HostPort());
  char separator = '?';
  for (const auto& [key, value] : options) {
    absl::StrAppend(&out, absl::string_view(&separator, 1), PercentEncode(key),
                    "=", PercentEncode(value));
    separator = '&';
  }
  return out;
}

bool Address::SameTransport(const Address& other) const {
  const auto provider = [](const Address& address) {
    const auto found = address.options.find("provider");
    return found == address.options.end() ? "" : found->second;
  };
  return scheme == other.scheme && provider(*this) == provider(other);
}

std::string Address::HostPort() const {
  if (absl::StrContains(host, ':')) {
    return absl::StrCat("[", host, "]:", port);
  }
  return absl::StrCat(host, ":", port);
}

}  // namespace skiff::transport
