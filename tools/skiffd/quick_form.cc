#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "tools/skiffd/config.pb.h"
#include "tools/skiffd/parsed_config.h"

namespace skiff::tools::skiffd {
namespace {

constexpr absl::string_view kLunSyntax =
    "write ram:SIZE or file:PATH, then perhaps ,size=SIZE ,block_size=512|4096 "
    ",read_only ,direct ,huge_pages=on|off ,thin=on|off ,lun=N "
    ",serial=TEXT ,vendor=TEXT ,product=TEXT ,revision=TEXT";

// Fills `lun` from what follows --lun. Returns what is wrong, or nothing.
class LunParser {
 public:
  explicit LunParser(Lun* lun) : lun_(lun) {}

  std::string Parse(const std::string& value) {
    const std::vector<std::string> parts = absl::StrSplit(value, ',');
    const std::pair<std::string, std::string> medium =
        absl::StrSplit(parts[0], absl::MaxSplits(':', 1));
    if (medium.second.empty()) return std::string(kLunSyntax);
    if (medium.first == "ram") {
      lun_->mutable_ram()->set_size(medium.second);
    } else if (medium.first == "file") {
      lun_->mutable_file()->set_path(medium.second);
    } else {
      return absl::StrCat("'", medium.first, "' is no kind of medium; ",
                          kLunSyntax);
    }
    for (size_t i = 1; i < parts.size(); ++i) {
      std::string problem = Option(parts[i]);
      if (!problem.empty()) return problem;
    }
    return "";
  }

 private:
  std::string Option(const std::string& text) {
    if (text == "read_only") {
      lun_->set_read_only(true);
      return "";
    }
    if (text == "direct") {
      if (!lun_->has_file()) return "direct is for file: only";
      lun_->mutable_file()->set_direct(true);
      return "";
    }
    const std::pair<std::string, std::string> option =
        absl::StrSplit(text, absl::MaxSplits('=', 1));
    const auto& [key, value] = option;
    if (value.empty()) {
      return absl::StrCat("'", text, "' is no option; ", kLunSyntax);
    }
    if (key == "size") {
      if (!lun_->has_file()) return "size= is for file: only; write ram:SIZE";
      lun_->mutable_file()->set_size(value);
      return "";
    }
    if (key == "block_size" || key == "lun") {
      uint32_t number = 0;
      if (!absl::SimpleAtoi(value, &number)) {
        return absl::StrCat(key, "=", value, " is not a number");
      }
      key == "lun" ? lun_->set_lun(number) : lun_->set_block_size(number);
      return "";
    }
    if (key == "huge_pages" || key == "thin") {
      if (!lun_->has_ram()) return absl::StrCat(key, "= is for ram: only");
      if (value != "on" && value != "off") {
        return absl::StrCat(text, "; it can be on or off");
      }
      Ram* ram = lun_->mutable_ram();
      key == "thin" ? ram->set_thin(value == "on")
                    : ram->set_huge_pages(value == "on");
      return "";
    }
    return TextOption(key, value);
  }

  std::string TextOption(const std::string& key, const std::string& value) {
    if (key == "serial") {
      lun_->set_serial(value);
    } else if (key == "vendor") {
      lun_->set_vendor(value);
    } else if (key == "product") {
      lun_->set_product(value);
    } else if (key == "revision") {
      lun_->set_revision(value);
    } else {
      return absl::StrCat("'", key, "' is no option; ", kLunSyntax);
    }
    return "";
  }

  Lun* lun_;
};

}  // namespace

ParsedConfig ParseQuickForm(const std::vector<QuickFlag>& flags,
                            std::vector<std::string>* problems) {
  ParsedConfig parsed;
  parsed.config = std::make_shared<Config>();
  parsed.locations.SetDefault("command line");
  Config* config = parsed.config.get();
  Target* target = nullptr;
  bool open = false;
  for (const QuickFlag& flag : flags) {
    switch (flag.kind) {
      case QuickFlag::Kind::kListen:
        config->add_portal(flag.value);
        parsed.locations.Set(*config, Config::kPortalFieldNumber,
                             config->portal_size() - 1,
                             absl::StrCat("--listen '", flag.value, "'"));
        break;
      case QuickFlag::Kind::kOpen:
        open = true;
        break;
      case QuickFlag::Kind::kTarget:
        target = config->add_target();
        target->set_name(flag.value);
        parsed.locations.Set(*target, 0, -1,
                             absl::StrCat("--target '", flag.value, "'"));
        break;
      case QuickFlag::Kind::kLun: {
        const std::string where = absl::StrCat("--lun '", flag.value, "'");
        if (target == nullptr) {
          problems->push_back(absl::StrCat(
              where,
              ": comes before any --target; a --lun belongs to the "
              "--target before it"));
          break;
        }
        Lun* lun = target->add_lun();
        // The medium's own fields were written in the same place.
        const std::string problem = LunParser(lun).Parse(flag.value);
        parsed.locations.Set(*lun, 0, -1, where);
        if (lun->has_ram()) parsed.locations.Set(lun->ram(), 0, -1, where);
        if (lun->has_file()) parsed.locations.Set(lun->file(), 0, -1, where);
        if (!problem.empty()) {
          problems->push_back(absl::StrCat(where, ": ", problem));
        }
        break;
      }
    }
  }
  if (open) {
    for (Target& one : *config->mutable_target()) one.set_access(OPEN);
  }
  return parsed;
}

}  // namespace skiff::tools::skiffd
