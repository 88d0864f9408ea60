#include "tools/skiff/pdu_dump.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "protocol/codec/digest.h"
#include "protocol/codec/pdu.h"
#include "tools/skiff/pdu_text.h"
#include "transport/trace/pcapng_reader.h"

namespace skiff::tools {
namespace {

using protocol::kBhsSize;
using protocol::kDigestSize;
using protocol::Opcode;
using transport::CapturedSegment;

// What both directions of a connection have in common.
struct Connection {
  bool header_digest = false;  // Agreed on ...
  bool data_digest = false;
  bool full_feature = false;  // ... and in use.
};

struct Direction {
  Connection* connection = nullptr;
  bool began = false;
  uint32_t next_sequence = 0;
  std::string waiting;  // What is no whole PDU yet,
  std::string comment;  // and was said beside it.
  bool broken = false;
};

// The answer to an offer of digests is a single value.
void NoteKeys(absl::string_view data, Connection* connection) {
  for (absl::string_view pair : absl::StrSplit(data, '\0')) {
    if (absl::ConsumePrefix(&pair, "HeaderDigest=")) {
      connection->header_digest = pair == "CRC32C";
    } else if (absl::ConsumePrefix(&pair, "DataDigest=")) {
      connection->data_digest = pair == "CRC32C";
    }
  }
}

class Dump {
 public:
  explicit Dump(const std::vector<CapturedSegment>& segments) {
    for (const CapturedSegment& segment : segments) Add(segment);
    for (const auto& [ends, direction] : directions_) {
      if (!direction.broken && !direction.waiting.empty()) {
        absl::StrAppend(&text_, ends.first, " > ", ends.second, " ends with ",
                        direction.waiting.size(), " bytes of a PDU\n");
      }
    }
  }

  std::string text() && { return std::move(text_); }

 private:
  void Add(const CapturedSegment& segment) {
    if (first_ == absl::InfinitePast()) first_ = segment.when;
    Direction& direction = directions_[{segment.from, segment.to}];
    if (direction.connection == nullptr) {
      direction.connection = &connections_[std::minmax(
          std::string(segment.from), std::string(segment.to))];
    }
    if (!direction.began) {
      direction.began = true;
      direction.next_sequence = segment.sequence;
    }
    // The other end's record of what is known already. The difference wraps.
    const auto known =
        static_cast<int32_t>(direction.next_sequence - segment.sequence);
    const auto size = static_cast<int32_t>(segment.bytes.size());
    if (direction.broken || known >= size) return;
    if (known < 0) return Break(segment, "bytes are missing", &direction);
    direction.next_sequence += static_cast<uint32_t>(size - known);
    absl::StrAppend(&direction.waiting,
                    segment.bytes.substr(static_cast<size_t>(known)));
    if (!segment.comment.empty()) direction.comment = segment.comment;
    size_t cut = 0;
    while (const size_t whole =
               Cut(segment, absl::string_view(direction.waiting).substr(cut),
                   &direction)) {
      cut += whole;
    }
    direction.waiting.erase(0, cut);
  }

  // Prints the PDU that `bytes` begin with. Returns its length; 0 if it is not
  // whole.
  size_t Cut(const CapturedSegment& segment, absl::string_view bytes,
             Direction* direction) {
    if (bytes.size() < kBhsSize || direction->broken) return 0;
    const auto* bhs = reinterpret_cast<const uint8_t*>(bytes.data());
    const protocol::BhsFrame frame = protocol::DecodeFrame(bhs);
    Connection* connection = direction->connection;
    const bool login =
        frame.opcode == static_cast<uint8_t>(Opcode::kLoginRequest) ||
        frame.opcode == static_cast<uint8_t>(Opcode::kLoginResponse);
    if (!connection->full_feature && !login) {
      Break(segment, "there is no login before", direction);
      return 0;
    }
    const bool digests = connection->full_feature && !login;
    size_t data_at = kBhsSize + frame.ahs_bytes;
    if (digests && connection->header_digest) data_at += kDigestSize;
    size_t length = data_at + frame.data_segment_length +
                    protocol::PaddingFor(frame.data_segment_length);
    if (digests && connection->data_digest && frame.data_segment_length != 0) {
      length += kDigestSize;
    }
    if (bytes.size() < length) return 0;
    const absl::string_view data =
        bytes.substr(data_at, frame.data_segment_length);
    absl::StrAppend(&text_, Prefix(segment), PduText(bhs, data));
    if (!direction->comment.empty()) {
      absl::StrAppend(&text_, "  # ", direction->comment);
      direction->comment.clear();
    }
    absl::StrAppend(&text_, "\n");
    if (login) OnLogin(bhs, data, connection);
    return length;
  }

  static void OnLogin(const uint8_t* bhs, absl::string_view data,
                      Connection* connection) {
    NoteKeys(data, connection);
    protocol::LoginResponsePdu response;
    if (protocol::Decode(bhs, &response).ok() && response.transit &&
        response.nsg == protocol::LoginStage::kFullFeature) {
      connection->full_feature = true;
    }
  }

  std::string Prefix(const CapturedSegment& segment) const {
    return absl::StrFormat("%.6f %s > %s ",
                           absl::ToDoubleSeconds(segment.when - first_),
                           segment.from, segment.to);
  }

  void Break(const CapturedSegment& segment, absl::string_view why,
             Direction* direction) {
    direction->broken = true;
    absl::StrAppend(&text_, Prefix(segment), "no PDUs from here on: ", why,
                    "\n");
  }

  absl::Time first_ = absl::InfinitePast();
  std::map<std::pair<std::string, std::string>, Connection> connections_;
  std::map<std::pair<std::string, std::string>, Direction> directions_;
  std::string text_;
};

}  // namespace

absl::StatusOr<std::string> DumpPdus(absl::string_view capture) {
  const auto segments = transport::ReadPcapng(capture);
  if (!segments.ok()) return segments.status();
  return Dump(*segments).text();
}

}  // namespace skiff::tools
