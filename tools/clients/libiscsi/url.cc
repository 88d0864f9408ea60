// libiscsi's URLs:
//
//   iscsi://[user[%password]@]host[:port]/target-name/lun[?option[=value]&...]
//   iscsi://[user[%password]@]host[:port][?...]
//
// The options target_user and target_password let the target show who it is,
// too. As in libiscsi, passwords are taken as they are, and those that the URL
// does not have are the environment's: LIBISCSI_CHAP_USERNAME and others.
//
// iser:// or the option "iser" mean iSER. Options that are Skiff's stay with
// the portal, which programs hand on as it is.
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "tools/clients/libiscsi/context.h"
#include "tools/clients/libiscsi/export.h"

namespace skiff::libiscsi {
namespace {

constexpr long kMaxLun = 16383;

// Cuts `text` at the first `separator`: what precedes it is returned, what
// follows it stays.
std::string_view Cut(std::string_view* text, char separator) {
  const size_t at = text->find(separator);
  const std::string_view head = text->substr(0, at);
  text->remove_prefix(at == std::string_view::npos ? text->size() : at + 1);
  return head;
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// False: a "%" without two digits, or more than there is room for.
bool CopyDecoded(std::string_view text, char (&to)[kUrlText]) {
  size_t length = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (length == kUrlText - 1) return false;
    char c = text[i];
    if (c == '%') {
      if (text.size() - i < 3) return false;
      const int high = HexDigit(text[i + 1]);
      const int low = HexDigit(text[i + 2]);
      if (high < 0 || low < 0) return false;
      c = static_cast<char>(high << 4 | low);
      i += 2;
    }
    to[length++] = c;
  }
  to[length] = '\0';
  return true;
}

class Parser {
 public:
  Parser(std::string_view text, iscsi_url* url) : text_(text), url_(url) {}

  bool Parse(bool with_target) {
    if (!ParseScheme() || !ParseOptions()) return false;
    std::string_view authority = Cut(&text_, '/');
    if (!ParseUser(&authority)) return false;
    if (authority.empty()) return Bad("there is no host");
    if (!ParsePortal(authority)) return false;
    if (with_target) return ParseTarget();
    return text_.empty() || Bad("a portal has no target");
  }

  const std::string& error() const { return error_; }
  // Programs rely on it that a URL tells the context, too. Credentials that it
  // does not have stay as the program set them.
  void Tell(Settings* settings) const {
    settings->transport = url_->transport;
    if (*url_->target != '\0') settings->target_name = url_->target;
    if (!initiator_.empty()) settings->initiator = initiator_;
    if (!target_.empty()) settings->target = target_;
  }

 private:
  bool Bad(const std::string& why) {
    error_ = why;
    return false;
  }

  bool ParseScheme() {
    for (const auto& [scheme, transport] :
         {std::pair(std::string_view("iscsi://"), kTcpTransport),
          std::pair(std::string_view("iser://"), kIserTransport)}) {
      if (!text_.starts_with(scheme)) continue;
      text_.remove_prefix(scheme.size());
      url_->transport = transport;
      return true;
    }
    return Bad("it begins neither with iscsi:// nor with iser://");
  }

  bool ParseOptions() {
    std::string_view options = text_;
    text_ = Cut(&options, '?');
    while (!options.empty()) {
      const std::string_view option = Cut(&options, '&');
      const std::string_view key = option.substr(0, option.find('='));
      if (option == "iser") {
        url_->transport = kIserTransport;
      } else if (key == "target_user") {
        if (!Copy(Value(option), url_->target_user)) return false;
      } else if (key == "target_password") {
        if (!Copy(Value(option), url_->target_passwd)) return false;
      } else {
        options_ += options_.empty() ? '?' : '&';
        options_ += option;
      }
    }
    return true;
  }

  static std::string_view Value(std::string_view option) {
    Cut(&option, '=');
    return option;
  }

  bool Copy(std::string_view text, char (&to)[kUrlText]) {
    if (text.size() >= kUrlText) {
      return Bad("a user name or a password is too long: at most 255 bytes");
    }
    memcpy(to, text.data(), text.size());
    to[text.size()] = '\0';
    return true;
  }

  // What the URL does not say, the environment may.
  bool Default(const char* name, char (&to)[kUrlText]) {
    const char* const value = getenv(name);
    return *to != '\0' || value == nullptr || Copy(value, to);
  }

  bool ParseUser(std::string_view* authority) {
    if (authority->find('@') != std::string_view::npos) {
      std::string_view password = Cut(authority, '@');
      if (!Copy(Cut(&password, '%'), url_->user)) return false;
      if (!Copy(password, url_->passwd)) return false;
      if (*url_->user == '\0') return Bad("there is no user before the \"@\"");
    }
    if (authority->find('@') != std::string_view::npos) {
      return Bad("a password in a URL cannot have an \"@\"");
    }
    if (!Default("LIBISCSI_CHAP_USERNAME", url_->user) ||
        !Default("LIBISCSI_CHAP_PASSWORD", url_->passwd) ||
        !Default("LIBISCSI_CHAP_TARGET_USERNAME", url_->target_user) ||
        !Default("LIBISCSI_CHAP_TARGET_PASSWORD", url_->target_passwd)) {
      return false;
    }
    for (const char* const wrong :
         {initiator_.Set(url_->user, url_->passwd),
          target_.Set(url_->target_user, url_->target_passwd)}) {
      if (wrong != nullptr) return Bad(wrong);
    }
    if (!initiator_.empty() || target_.empty()) return true;
    return Bad(
        "a target that has to show who it is wants to know who asks: write "
        "user%password@ before the host");
  }

  bool ParsePortal(std::string_view authority) {
    const std::string portal = std::string(authority) + options_;
    if (portal.size() >= kUrlText) return Bad("its host is too long");
    memcpy(url_->portal, portal.c_str(), portal.size() + 1);
    return true;
  }

  bool ParseTarget() {
    const std::string_view target = Cut(&text_, '/');
    if (target.empty()) return Bad("there is no target name");
    if (!CopyDecoded(target, url_->target)) {
      return Bad(
          "its target name is too long, or has a \"%\" without two "
          "hexadecimal digits");
    }
    const std::string lun(text_);
    char* end = nullptr;
    const long number = strtol(lun.c_str(), &end, 10);
    if (lun.empty() || *end != '\0' || number < 0 || number > kMaxLun) {
      return Bad("its LUN is no number from 0 to 16383");
    }
    url_->lun = static_cast<int>(number);
    return true;
  }

  std::string_view text_;
  iscsi_url* const url_;
  Credentials initiator_;
  Credentials target_;
  std::string options_;
  std::string error_;
};

std::string WithoutPasswords(const char* text) {
  char shown[1024];
  skiff_url_without_passwords(text, shown, sizeof(shown));
  return shown;
}

iscsi_url* Parse(iscsi_context* iscsi, const char* text, bool with_target) {
  if (text == nullptr) return nullptr;
  auto* const url = static_cast<iscsi_url*>(calloc(1, sizeof(iscsi_url)));
  if (url == nullptr) return nullptr;
  url->iscsi = iscsi;
  Parser parser(text, url);
  if (parser.Parse(with_target)) {
    if (iscsi != nullptr) parser.Tell(&iscsi->settings());
    return url;
  }
  free(url);
  if (iscsi != nullptr) {
    iscsi->SetError("Invalid URL " + WithoutPasswords(text) + ": " +
                    parser.error());
  }
  return nullptr;
}

}  // namespace

FACE iscsi_url* iscsi_parse_full_url(iscsi_context* iscsi, const char* url) {
  return Parse(iscsi, url, true);
}

FACE iscsi_url* iscsi_parse_portal_url(iscsi_context* iscsi, const char* url) {
  return Parse(iscsi, url, false);
}

FACE void iscsi_destroy_url(iscsi_url* url) { free(url); }

}  // namespace skiff::libiscsi
