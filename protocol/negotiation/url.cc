#include "protocol/negotiation/url.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "absl/types/optional.h"
#include "protocol/codec/text.h"
#include "protocol/codec/text_value.h"
#include "protocol/negotiation/names.h"

namespace skiff::protocol {
namespace {

constexpr absl::string_view kForm =
    "iscsi://host[:port][/target-name[/lun]][?key=value]";

absl::Status Bad(absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("not a URL of the form ", kForm, ": ", why));
}

// Cuts `text` at the first `separator`: what precedes it is returned, what
// follows it stays. Without one, everything is returned.
absl::string_view Cut(char separator, absl::string_view* text) {
  const size_t at = text->find(separator);
  const absl::string_view head = text->substr(0, at);
  text->remove_prefix(at == absl::string_view::npos ? text->size() : at + 1);
  return head;
}

absl::optional<std::string> PercentDecoded(absl::string_view text) {
  std::string decoded;
  decoded.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded.push_back(text[i]);
      continue;
    }
    if (text.size() - i < 3) return absl::nullopt;
    const absl::optional<uint64_t> byte =
        ParseNumber(absl::StrCat("0x", text.substr(i + 1, 2)));
    if (!byte) return absl::nullopt;
    decoded.push_back(static_cast<char>(*byte));
    i += 2;
  }
  return decoded;
}

absl::Status ParseUserInfo(absl::string_view text, Url* url) {
  url->user = std::string(Cut('%', &text));
  if (url->user.empty()) return Bad("there is no user name before \"@\"");
  absl::optional<std::string> password = PercentDecoded(text);
  if (!password) {
    return Bad(
        "the password has a \"%\" without two hexadecimal digits; write "
        "\"%25\" for a \"%\" in it");
  }
  url->password = *std::move(password);
  return absl::OkStatus();
}

absl::Status ParseTarget(absl::string_view text, Url* url) {
  const absl::optional<std::string> decoded = PercentDecoded(text);
  if (!decoded) {
    return Bad("the target name has a \"%\" without two hexadecimal digits");
  }
  absl::StatusOr<std::string> name = NormalizeName(*decoded);
  if (!name.ok()) return Bad(name.status().message());
  url->target = *std::move(name);
  return absl::OkStatus();
}

// What people write in decimal, "00" among it; "0x1f" as in text keys.
absl::optional<uint64_t> ParseLunNumber(absl::string_view text) {
  uint64_t number = 0;
  const bool decimal = absl::c_all_of(text, [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c));
  });
  if (decimal && absl::SimpleAtoi(text, &number)) return number;
  return ParseNumber(text);
}

absl::Status ParseLun(absl::string_view text, Url* url) {
  const absl::optional<uint64_t> lun =
      ParseLunNumber(absl::StripSuffix(text, "/"));
  if (!lun || *lun > kMaxLunNumber) {
    return Bad(absl::StrCat("the LUN ", Quoted(text),
                            " is not a number from 0 to ", kMaxLunNumber));
  }
  url->lun = static_cast<uint32_t>(*lun);
  url->has_lun = true;
  return absl::OkStatus();
}

// RFC 6874: the "%" before the zone of a link-local address is written "%25" in
// a URL. A bare one, which people write as well, stays.
std::string ZoneDecoded(absl::string_view authority) {
  const size_t zone = authority.find("%25");
  const size_t close = authority.find(']');
  const bool encoded = !authority.empty() && authority[0] == '[' &&
                       zone != absl::string_view::npos &&
                       close != absl::string_view::npos && zone + 3 < close &&
                       authority.find('%') == zone;
  if (!encoded) return std::string(authority);
  return absl::StrCat(authority.substr(0, zone + 1),
                      authority.substr(zone + 3));
}

// The other way.
std::string ZoneEncoded(absl::string_view portal) {
  const size_t zone = portal.find('%');
  if (zone == absl::string_view::npos || portal[zone + 1] == ']') {
    return std::string(portal);
  }
  return absl::StrCat(portal.substr(0, zone), "%25", portal.substr(zone + 1));
}

absl::Status ParseOptions(absl::string_view text, Url* url) {
  while (!text.empty()) {
    absl::string_view value = Cut('&', &text);
    const absl::string_view key = Cut('=', &value);
    const absl::optional<std::string> decoded_key = PercentDecoded(key);
    const absl::optional<std::string> decoded_value = PercentDecoded(value);
    if (!decoded_key || !decoded_value) {
      return Bad("an option has a \"%\" without two hexadecimal digits");
    }
    if (decoded_key->empty() || decoded_value->empty()) {
      return Bad(absl::StrCat("the option ", Quoted(key),
                              " is not of the form key=value"));
    }
    if (!url->options.emplace(*decoded_key, *decoded_value).second) {
      return Bad(absl::StrCat("the option ", Quoted(key), " is there twice"));
    }
  }
  return absl::OkStatus();
}

// What is not a character of option keys and values, in FormatUrl().
std::string PercentEncoded(absl::string_view text) {
  std::string encoded;
  for (const char c : text) {
    if (absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
        absl::string_view("-._~:,").find(c) != absl::string_view::npos) {
      encoded.push_back(c);
    } else {
      absl::StrAppendFormat(&encoded, "%%%02X", static_cast<unsigned char>(c));
    }
  }
  return encoded;
}

// An error without what it quotes of a URL.
std::string WithoutQuotes(absl::string_view message) {
  std::string shown;
  while (!message.empty()) {
    const size_t begin = std::min(message.find('"'), message.size());
    absl::StrAppend(&shown, message.substr(0, begin));
    message.remove_prefix(begin);
    if (message.empty()) break;
    size_t end = 1;
    while (end < message.size() && message[end] != '"') {
      end += message[end] == '\\' ? 2 : 1;
    }
    const absl::string_view quoted = message.substr(0, end + 1);
    const bool own =
        quoted == "\"%\"" || quoted == "\"@\"" || quoted == "\"%25\"";
    absl::StrAppend(&shown, own ? quoted : "\"...\"");
    message.remove_prefix(quoted.size());
  }
  return shown;
}

absl::StatusOr<Url> Parse(absl::string_view text) {
  Url url;
  const size_t scheme_end = text.find("://");
  if (scheme_end == absl::string_view::npos) return Bad("there is no scheme");
  url.scheme = absl::AsciiStrToLower(text.substr(0, scheme_end));
  if (url.scheme != "iscsi" && url.scheme != "iser" && url.scheme != "auto") {
    return Bad(absl::StrCat("the scheme is ", Quoted(url.scheme),
                            ", not iscsi, iser or auto"));
  }
  text.remove_prefix(scheme_end + 3);
  absl::string_view options = text;
  text = Cut('?', &options);
  absl::Status status = ParseOptions(options, &url);
  if (!status.ok()) return status;
  absl::string_view authority = Cut('/', &text);
  // The last one: people forget to encode it in a password.
  if (const size_t at = authority.rfind('@'); at != absl::string_view::npos) {
    status = ParseUserInfo(authority.substr(0, at), &url);
    if (!status.ok()) return status;
    authority.remove_prefix(at + 1);
  }
  absl::StatusOr<Portal> portal = ParsePortal(ZoneDecoded(authority));
  if (!portal.ok()) return Bad(portal.status().message());
  url.portal = *std::move(portal);
  if (text.empty()) return url;

  status = ParseTarget(Cut('/', &text), &url);
  if (!status.ok()) return status;
  if (text.empty()) return url;
  status = ParseLun(text, &url);
  if (!status.ok()) return status;
  return url;
}

}  // namespace

absl::StatusOr<Url> ParseUrl(absl::string_view text) {
  absl::StatusOr<Url> url = Parse(text);
  if (url.ok() || WithoutPasswords(text) == text) return url;
  return absl::InvalidArgumentError(
      absl::StrCat(WithoutQuotes(url.status().message()),
                   "; in a password, write %2F for /, %3F for ?, %26 for &, "
                   "%40 for @ and %25 for %"));
}

std::string WithoutPasswords(absl::string_view text) {
  std::string shown(text);
  const size_t begin = shown.find("://");
  const size_t at = shown.rfind('@');
  if (begin != std::string::npos && at != std::string::npos && at > begin) {
    const size_t secret = shown.find('%', begin);
    if (secret < at) shown.erase(secret, at - secret);
  }
  const size_t option = shown.find("password=");
  if (option != std::string::npos) shown.erase(option + 9);
  return shown;
}

std::string FormatUrl(const Url& url) {
  std::string text =
      absl::StrCat(url.scheme, "://", url.user, url.user.empty() ? "" : "@",
                   ZoneEncoded(FormatPortal(url.portal)));
  if (!url.target.empty()) absl::StrAppend(&text, "/", url.target);
  if (url.has_lun) absl::StrAppend(&text, "/", url.lun);
  char separator = '?';
  for (const auto& [key, value] : url.options) {
    if (absl::StrContains(key, "password")) continue;
    absl::StrAppend(&text, std::string(1, separator), PercentEncoded(key), "=",
                    PercentEncoded(value));
    separator = '&';
  }
  return text;
}

}  // namespace skiff::protocol
