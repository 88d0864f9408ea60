#ifndef SKIFF_PROTOCOL_DATAMOVER_ISER_ISER_TRACE_H_
#define SKIFF_PROTOCOL_DATAMOVER_ISER_ISER_TRACE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "protocol/codec/iser_header.h"
#include "protocol/codec/pdu.h"

namespace skiff::protocol {

// What an iSER connection carries, told as the PDUs of an iSCSI connection over
// a byte stream without digests, for a capture.
//
// PDUs that are sent as messages are told as they were, without the iSER header
// (what that says is in the comment). Hello and HelloReply are none, and are
// not told. Data that RDMA moves have no PDUs; they are told as those that the
// operations stand for (RFC 7145 section 7.3): Data-In for an RDMA Write; R2T,
// then Data-Out, for an RDMA Read. Such a PDU is made up, and its comment
// begins with kReconstructed.
//
// A connection without a trace pays for one comparison per message. One with it
// copies everything.
class IserTrace {
 public:
  // A whole PDU with its padding. `comment` is for people, and may be empty.
  using Sink = std::function<void(bool sent, absl::string_view pdu,
                                  absl::string_view comment)>;
  static constexpr absl::string_view kReconstructed = "reconstructed";
  // More data than this become several PDUs. Wireshark takes a header with a
  // longer data segment for something else (iscsi.bogus_pdu_max_data_len).
  static constexpr size_t kMaxData = 262144;

  // `wanted`: whether it is to be told at present; null: always. What it was
  // not told of stays unknown: PDUs that are made up may lack a LUN.
  explicit IserTrace(Sink sink, std::function<bool()> wanted = nullptr)
      : sink_(std::move(sink)), wanted_(std::move(wanted)) {}
  IserTrace(const IserTrace&) = delete;
  IserTrace& operator=(const IserTrace&) = delete;

  // To be asked before each of the following. What was not told makes what is
  // known of tasks worthless.
  bool wanted() {
    if (wanted_ == nullptr || wanted_()) return true;
    if (!tasks_.empty()) tasks_.clear();
    return false;
  }

  // A message: its bytes may be in pieces, of which the first has at least the
  // two headers, and the AHSs. `invalidated`: the STag that it takes out of
  // use, or null.
  void Message(bool sent, absl::Span<const absl::string_view> pieces,
               const uint32_t* invalidated);

  // Data of a task that its initiator knows by this tag. Who did not see the
  // operations themselves says so in `how`, which ends the comment.
  //
  // The target's data, to the initiator.
  void DataIn(bool sent, uint32_t tag, uint32_t offset, absl::string_view data,
              absl::string_view how);
  // What the target asks for,
  void R2t(bool sent, uint32_t tag, uint32_t offset, uint32_t length,
           absl::string_view how);
  // and gets.
  void DataOut(bool sent, uint32_t tag, uint32_t offset, absl::string_view data,
               absl::string_view how);

 private:
  // What PDUs that are made up take from those that were not.
  struct Task {
    Lun lun = 0;
    uint32_t data_sn = 0;
    uint32_t r2t_sn = 0;
  };
  // Tasks that end without a response are forgotten when there are so many.
  static constexpr size_t kMaxTasks = 0x8000;

  void Note(const uint8_t* bhs);
  Task& At(uint32_t tag);
  void Emit(bool sent, const Bhs& bhs, absl::string_view data,
            absl::string_view how);

  const Sink sink_;
  const std::function<bool()> wanted_;
  std::unordered_map<uint32_t, Task> tasks_;
  // As the last PDU of either said.
  uint32_t stat_sn_ = 0;
  uint32_t exp_cmd_sn_ = 0;
  uint32_t max_cmd_sn_ = 0;
  uint32_t exp_stat_sn_ = 0;
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_DATAMOVER_ISER_ISER_TRACE_H_
