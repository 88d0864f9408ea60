#include "transport/trace/pcapng_reader.h"

#include <arpa/inet.h>

#include <array>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/trace/pcapng_format.h"

namespace skiff::transport {
namespace {

constexpr size_t kIpv4Header = 20;
constexpr size_t kIpv6Header = 40;
constexpr uint64_t kMicrosecondsPerSecond = 1000000;
constexpr uint8_t kMaxDecimals = 9;

uint16_t Big16(absl::string_view bytes, size_t at) {
  return static_cast<uint16_t>((static_cast<uint8_t>(bytes[at]) << 8) |
                               static_cast<uint8_t>(bytes[at + 1]));
}
uint32_t Big32(absl::string_view bytes, size_t at) {
  return (uint32_t{Big16(bytes, at)} << 16) | Big16(bytes, at + 2);
}

class Reader {
 public:
  explicit Reader(absl::string_view file) : file_(file) {}

  absl::StatusOr<std::vector<CapturedSegment>> Read() {
    while (position_ < file_.size()) {
      absl::Status status = ReadBlock();
      if (!status.ok()) return status;
    }
    if (!in_section_) return Bad("it is empty");
    return std::move(segments_);
  }

 private:
  absl::Status Bad(absl::string_view what) const {
    return absl::DataLossError(
        absl::StrCat("not a capture of ours: at byte ", position_, ", ", what));
  }

  uint16_t Native16(absl::string_view bytes, size_t at) const {
    uint16_t value;
    std::memcpy(&value, bytes.data() + at, sizeof(value));
    return swapped_ ? __builtin_bswap16(value) : value;
  }
  uint32_t Native32(absl::string_view bytes, size_t at) const {
    uint32_t value;
    std::memcpy(&value, bytes.data() + at, sizeof(value));
    return swapped_ ? __builtin_bswap32(value) : value;
  }

  absl::Status ReadBlock() {
    const absl::string_view rest = file_.substr(position_);
    if (rest.size() < kBlockFrame) return Bad("a block is cut off");
    const uint32_t type = Native32(rest, 0);
    if (type == kSectionHeaderBlock) {
      absl::Status status = BeginSection(rest);
      if (!status.ok()) return status;
    } else if (!in_section_) {
      return Bad("there is no Section Header Block");
    }
    const uint32_t length = Native32(rest, 4);
    if (length < kBlockFrame || length % 4 != 0) {
      return Bad("the length of a block is wrong");
    }
    if (length > rest.size()) return Bad("a block is cut off");
    if (Native32(rest, length - 4) != length) {
      return Bad("the two lengths of a block differ");
    }
    const absl::string_view body = rest.substr(8, length - kBlockFrame);
    absl::Status status;
    if (type == kInterfaceDescriptionBlock) status = OnInterface(body);
    if (type == kEnhancedPacketBlock) status = OnPacket(body);
    if (status.ok()) position_ += length;
    return status;
  }

  absl::Status BeginSection(absl::string_view block) {
    if (block.size() < kBlockFrame + 4) return Bad("a block is cut off");
    uint32_t magic;
    std::memcpy(&magic, block.data() + 8, sizeof(magic));
    if (magic != kByteOrderMagic &&
        magic != __builtin_bswap32(kByteOrderMagic)) {
      return Bad("the byte-order magic is wrong");
    }
    swapped_ = magic != kByteOrderMagic;
    in_section_ = true;
    units_per_second_.clear();
    return absl::OkStatus();
  }

  // The value of the first option of a kind; empty if there is none.
  absl::string_view Option(absl::string_view options, uint16_t wanted) const {
    while (options.size() >= 4) {
      const uint16_t code = Native16(options, 0);
      const uint16_t length = Native16(options, 2);
      if (code == kOptionEnd || options.size() - 4 < length) break;
      if (code == wanted) return options.substr(4, length);
      const size_t padded = 4 + ((size_t{length} + 3) & ~size_t{3});
      if (padded > options.size()) break;
      options.remove_prefix(padded);
    }
    return {};
  }

  absl::Status OnInterface(absl::string_view body) {
    if (body.size() < 8) return Bad("an interface is cut off");
    const uint16_t link_type = Native16(body, 0);
    if (link_type != kLinkTypeRaw) {
      return Bad(absl::StrCat("the link type is ", link_type,
                              ", and not raw IP (", kLinkTypeRaw, ")"));
    }
    uint64_t units = kMicrosecondsPerSecond;
    const absl::string_view resolution =
        Option(body.substr(8), kOptionTimestampResolution);
    if (!resolution.empty()) {
      const auto decimals = static_cast<uint8_t>(resolution[0]);
      if (decimals > kMaxDecimals) return Bad("its time stamps are too fine");
      units = 1;
      for (int i = 0; i < decimals; ++i) units *= 10;
    }
    units_per_second_.push_back(units);
    return absl::OkStatus();
  }

  absl::Status OnPacket(absl::string_view body) {
    constexpr size_t kFixed = 20;
    if (body.size() < kFixed) return Bad("a packet is cut off");
    const uint32_t interface = Native32(body, 0);
    if (interface >= units_per_second_.size()) {
      return Bad("a packet of an interface that there is not");
    }
    const uint64_t stamp =
        (uint64_t{Native32(body, 4)} << 32) | Native32(body, 8);
    const uint32_t captured = Native32(body, 12);
    if (captured > body.size() - kFixed) return Bad("a packet is cut off");
    CapturedSegment segment;
    const uint64_t units = units_per_second_[interface];
    segment.when = absl::FromUnixSeconds(static_cast<int64_t>(stamp / units)) +
                   absl::Nanoseconds(static_cast<int64_t>(
                       stamp % units * (1000000000 / units)));
    if (!CutPacket(body.substr(kFixed, captured), &segment)) {
      return absl::OkStatus();
    }
    const size_t options = kFixed + ((size_t{captured} + 3) & ~size_t{3});
    if (options < body.size()) {
      segment.comment =
          std::string(Option(body.substr(options), kOptionComment));
    }
    segments_.push_back(std::move(segment));
    return absl::OkStatus();
  }

  // False for what is not TCP over IP with payload.
  static bool CutPacket(absl::string_view packet, CapturedSegment* segment) {
    if (packet.empty()) return false;
    const int version = static_cast<uint8_t>(packet[0]) >> 4;
    const bool v6 = version == 6;
    if (!v6 && version != 4) return false;
    size_t header = kIpv6Header;
    if (!v6)
      header = static_cast<size_t>(static_cast<uint8_t>(packet[0]) & 0x0f) * 4;
    if (header < kIpv4Header || packet.size() < header + kTcpHeader) {
      return false;
    }
    const auto protocol = static_cast<uint8_t>(packet[v6 ? 6 : 9]);
    if (protocol != kIpProtocolTcp) return false;
    const size_t total = v6 ? kIpv6Header + Big16(packet, 4) : Big16(packet, 2);
    if (total < header + kTcpHeader || total > packet.size()) return false;
    const absl::string_view tcp = packet.substr(header, total - header);
    const size_t tcp_header =
        static_cast<size_t>(static_cast<uint8_t>(tcp[12]) >> 4) * 4;
    if (tcp_header < kTcpHeader || tcp_header >= tcp.size()) return false;
    segment->from = HostPort(packet.substr(v6 ? 8 : 12), v6, Big16(tcp, 0));
    segment->to = HostPort(packet.substr(v6 ? 24 : 16), v6, Big16(tcp, 2));
    segment->sequence = Big32(tcp, 4);
    segment->bytes = tcp.substr(tcp_header);
    return true;
  }

  static std::string HostPort(absl::string_view address, bool v6,
                              uint16_t port) {
    std::array<char, INET6_ADDRSTRLEN> text = {};
    inet_ntop(v6 ? AF_INET6 : AF_INET, address.data(), text.data(),
              text.size());
    return v6 ? absl::StrCat("[", text.data(), "]:", port)
              : absl::StrCat(text.data(), ":", port);
  }

  const absl::string_view file_;
  size_t position_ = 0;
  bool in_section_ = false;
  bool swapped_ = false;
  std::vector<uint64_t> units_per_second_;  // Of each interface.
  std::vector<CapturedSegment> segments_;
};

}  // namespace

absl::StatusOr<std::vector<CapturedSegment>> ReadPcapng(
    absl::string_view file) {
  return Reader(file).Read();
}

}  // namespace skiff::transport
