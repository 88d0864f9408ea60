// A load on an iSCSI target that costs itself next to nothing, so that the
// target is what is measured: logs in, then only sends prepared SCSI READ(16)
// or WRITE(16) PDUs, many a call, and counts the answers. Of what comes back
// it looks at headers and lengths (RFC 7143 section 11) and at nothing else.
//
//   pump --portal=127.0.0.1:3260 --target=iqn.x:y --lun=0 --rw=randread
//
// Prints one line of JSON. Shares no code with Skiff's own initiator.
// With --idle_connections=N it logs N sessions in instead, prints "ready" and
// holds them until its standard input ends.

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "bench/compare/pump_session.h"
#include "bench/compare/util.h"

ABSL_FLAG(std::string, portal, "127.0.0.1:3260", "host:port of the target");
ABSL_FLAG(std::string, target, "", "name of the target");
ABSL_FLAG(int, lun, 0, "logical unit, 0 to 255");
ABSL_FLAG(std::string, rw, "randread", "read, write, randread or randwrite");
ABSL_FLAG(std::string, bs, "4k", "bytes of a command");
ABSL_FLAG(int, depth, 32, "commands outstanding at once");
ABSL_FLAG(double, runtime, 2, "seconds to measure");
ABSL_FLAG(bool, spin, false, "poll the socket instead of sleeping");
ABSL_FLAG(int, core, -1, "core to run on");
ABSL_FLAG(int, idle_connections, 0, "hold this many idle sessions instead");

namespace skiff::bench {
namespace {

constexpr double kWarmupSeconds = 0.2;

struct Counts {
  uint64_t completed = 0;
  uint64_t errors = 0;
};

// Keeps `depth` commands on the way.
class Pump {
 public:
  explicit Pump(Session* session)
      : session_(session),
        spin_(absl::GetFlag(FLAGS_spin)),
        bs_(ParseSize(absl::GetFlag(FLAGS_bs))) {
    const std::string rw = absl::GetFlag(FLAGS_rw);
    random_ = rw.rfind("rand", 0) == 0;
    const std::string direction = random_ ? rw.substr(4) : rw;
    write_ = direction == "write";
    if (!write_ && direction != "read") {
      Die("pump: --rw is read, write, randread or randwrite");
    }
    uint64_t blocks;
    uint32_t block_size;
    session_->ReadCapacity(&blocks, &block_size);
    slots_ = blocks * block_size / bs_;
    blocks_per_io_ = static_cast<uint32_t>(bs_ / block_size);
    if (slots_ == 0 || bs_ % block_size != 0) {
      Die("pump: --bs does not fit the logical unit");
    }
    const int depth = absl::GetFlag(FLAGS_depth);
    for (int i = 0; i < depth; ++i) free_tags_.push_back(i);
    commands_.assign(depth, Template());
    payload_.assign(bs_, 0x5a);
    // Big enough to take all that a batch of small reads brings, and, for big
    // ones, memory to place them in that is as large as a caller's would be.
    received_.resize(std::max<size_t>(1u << 20, depth * (bs_ + kBhsSize)));
  }

  Counts Run(double* seconds, double* cpu) {
    const double warm = Now() + kWarmupSeconds;
    const double runtime = absl::GetFlag(FLAGS_runtime);
    double begin = 0;
    double cpu_begin = 0;
    while (true) {
      SendCommands();
      Receive();
      const double now = Now();
      if (begin == 0 && now >= warm) {
        begin = now;
        cpu_begin = CpuSeconds();
        counts_ = Counts();
      } else if (begin != 0 && now - begin >= runtime) {
        *seconds = now - begin;
        *cpu = CpuSeconds() - cpu_begin;
        return counts_;
      }
    }
  }

 private:
  Bhs Template() const {
    Bhs bhs = session_->MakeCommand(static_cast<uint32_t>(bs_), write_);
    bhs.bytes[32] = write_ ? 0x8a : 0x88;  // WRITE(16), READ(16).
    bhs.Put32(42, blocks_per_io_);
    if (write_ && session_->immediate_data()) {
      bhs.PutDataLength(
          std::min({static_cast<uint32_t>(bs_), session_->first_burst(),
                    session_->max_send_segment()}));
    }
    return bhs;
  }

  uint64_t NextLba() {
    uint64_t slot;
    if (random_) {
      random_state_ ^= random_state_ << 13;
      random_state_ ^= random_state_ >> 7;
      random_state_ ^= random_state_ << 17;
      slot = random_state_ % slots_;
    } else {
      slot = next_slot_++ % slots_;
    }
    return slot * blocks_per_io_;
  }

  void SendCommands() {
    while (!free_tags_.empty() && session_->WindowOpen()) {
      const uint32_t tag = free_tags_.back();
      free_tags_.pop_back();
      Bhs& bhs = commands_[tag];
      bhs.Put32(16, tag);
      bhs.Put32(24, session_->TakeCmdSn());
      bhs.Put32(28, session_->exp_stat_sn());
      bhs.Put64(34, NextLba());
      pieces_.push_back({bhs.bytes, kBhsSize});
      const size_t immediate = bhs.DataLength();
      if (immediate > 0) pieces_.push_back({payload_.data(), immediate});
    }
    if (!SendAll(session_->fd(), &pieces_, spin_)) Gone();
  }

  void Receive() {
    size_t more;
    if (!ReceiveSome(session_->fd(), received_.data() + have_,
                     received_.size() - have_, spin_, &more)) {
      Gone();
    }
    have_ += more;
    // [at_, have_) is unread; payload that has not arrived is `skip_`.
    while (true) {
      const size_t skipped = std::min(skip_, have_ - at_);
      skip_ -= skipped;
      at_ += skipped;
      if (have_ - at_ < kBhsSize) break;
      Bhs bhs;
      std::memcpy(bhs.bytes, received_.data() + at_, kBhsSize);
      at_ += kBhsSize;
      skip_ = bhs.Tail();
      Handle(bhs);
    }
    if (at_ == have_) {
      // Walks on through the buffer, and starts again near its end.
      if (received_.size() - have_ < received_.size() / 2) at_ = have_ = 0;
    } else {
      std::memmove(received_.data(), received_.data() + at_, have_ - at_);
      have_ -= at_;
      at_ = 0;
    }
  }

  void Handle(const Bhs& bhs) {
    switch (bhs.opcode()) {
      case kDataIn:
        session_->Note(bhs, bhs.flag(kStatusPresent));
        if (bhs.flag(kStatusPresent)) Complete(bhs, bhs.bytes[3] == 0);
        return;
      case kScsiResponse:
        session_->Note(bhs, true);
        Complete(bhs, bhs.bytes[2] == 0 && bhs.bytes[3] == 0);
        return;
      case kR2t:
        session_->Note(bhs, false);
        SendData(bhs);
        return;
      case kNopIn:
        session_->Note(bhs, bhs.Get32(16) != kReservedTag);
        if (bhs.Get32(20) != kReservedTag) AnswerPing(bhs);
        return;
      case kAsyncMessage:
        session_->Note(bhs, true);
        return;
      default:
        Die("pump: unexpected PDU, opcode " + std::to_string(bhs.opcode()));
    }
  }

  void Complete(const Bhs& bhs, bool good) {
    const uint32_t tag = bhs.Get32(16);
    if (tag >= commands_.size()) Die("pump: answer with an unknown task tag");
    free_tags_.push_back(tag);
    ++counts_.completed;
    if (!good) ++counts_.errors;
  }

  // The data that an R2T asks for, in segments of what the target takes.
  void SendData(const Bhs& r2t) {
    uint32_t offset = r2t.Get32(40);
    uint32_t left = r2t.Get32(44);
    if (offset > bs_ || left > bs_ - offset) Die("pump: R2T out of bounds");
    std::vector<Bhs> headers(left / session_->max_send_segment() + 1);
    for (uint32_t sn = 0; left > 0; ++sn) {
      const uint32_t length = std::min(left, session_->max_send_segment());
      left -= length;
      Bhs& bhs = headers[sn];
      bhs.bytes[0] = kDataOut;
      bhs.bytes[1] = left == 0 ? kFinal : 0;
      bhs.PutDataLength(length);
      std::memcpy(bhs.bytes + 8, r2t.bytes + 8, 8);    // LUN
      std::memcpy(bhs.bytes + 16, r2t.bytes + 16, 8);  // Both tags.
      bhs.Put32(28, session_->exp_stat_sn());
      bhs.Put32(36, sn);
      bhs.Put32(40, offset);
      pieces_.push_back({bhs.bytes, kBhsSize});
      pieces_.push_back({payload_.data() + offset, length});
      offset += length;
    }
    if (!SendAll(session_->fd(), &pieces_, spin_)) Gone();
  }

  void AnswerPing(const Bhs& ping) {
    Bhs pong;
    pong.bytes[0] = kImmediate | kNopOut;
    pong.bytes[1] = kFinal;
    std::memcpy(pong.bytes + 8, ping.bytes + 8, 8);  // LUN
    pong.Put32(16, kReservedTag);
    pong.Put32(20, ping.Get32(20));
    pong.Put32(24, session_->cmd_sn());
    pong.Put32(28, session_->exp_stat_sn());
    std::vector<iovec> pieces = {{pong.bytes, kBhsSize}};
    if (!SendAll(session_->fd(), &pieces, spin_)) Gone();
  }

  [[noreturn]] void Gone() { Die("pump: the target closed the connection"); }

  Session* const session_;
  const bool spin_;
  const size_t bs_;
  bool random_;
  bool write_;
  uint64_t slots_;  // Places of `bs_` bytes on the logical unit.
  uint32_t blocks_per_io_;
  uint64_t next_slot_ = 0;
  uint64_t random_state_ = 0x9e3779b97f4a7c15;
  std::vector<uint32_t> free_tags_;
  std::vector<Bhs> commands_;  // By task tag.
  std::vector<iovec> pieces_;
  std::vector<char> payload_;
  std::vector<char> received_;
  size_t at_ = 0;
  size_t have_ = 0;
  size_t skip_ = 0;
  Counts counts_;
};

SessionTarget TargetOfFlags() {
  return {absl::GetFlag(FLAGS_portal), absl::GetFlag(FLAGS_target),
          absl::GetFlag(FLAGS_lun)};
}

int HoldIdle(int count) {
  std::vector<std::unique_ptr<Session>> sessions;
  for (int i = 0; i < count; ++i) {
    sessions.push_back(
        std::make_unique<Session>(TargetOfFlags(), static_cast<uint16_t>(i)));
  }
  std::printf("ready\n");
  std::fflush(stdout);
  char ignored;
  while (read(STDIN_FILENO, &ignored, 1) > 0) {
  }
  return 0;
}

int Run() {
  PinToCore(absl::GetFlag(FLAGS_core));
  if (absl::GetFlag(FLAGS_depth) < 1) Die("pump: --depth is at least 1");
  const int idle = absl::GetFlag(FLAGS_idle_connections);
  if (idle > 0) return HoldIdle(idle);

  Session session(TargetOfFlags(), 0);
  Pump pump(&session);
  double seconds;
  double cpu;
  const Counts counts = pump.Run(&seconds, &cpu);
  const double count = static_cast<double>(counts.completed);
  const double iops = count / seconds;
  std::printf(
      "{\"iops\": %.0f, \"mb_per_s\": %.1f, \"cpu_us_per_io\": %.3f, "
      "\"completed\": %llu, \"errors\": %llu}\n",
      iops,
      iops * static_cast<double>(ParseSize(absl::GetFlag(FLAGS_bs))) * 1e-6,
      1e6 * cpu / count, static_cast<unsigned long long>(counts.completed),
      static_cast<unsigned long long>(counts.errors));
  return counts.errors == 0 ? 0 : 1;
}

}  // namespace
}  // namespace skiff::bench

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "pump --portal=host:port --target=iqn --rw=randread --bs=4k --depth=32");
  absl::ParseCommandLine(argc, argv);
  return skiff::bench::Run();
}
