#ifndef SKIFF_TESTING_STACK_RAW_STREAM_PEER_H_
#define SKIFF_TESTING_STACK_RAW_STREAM_PEER_H_

#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "protocol/codec/pdu.h"
#include "protocol/codec/wire_test_util.h"
#include "testing/stack/end_to_end_test_util.h"
#include "transport/address.h"
#include "transport/byte_stream.h"
#include "transport/transport.h"

namespace skiff::protocol {

// A peer that sends what it is told to, reads when it wants to, and notes
// when the target hangs up.
class RawPeer : private transport::StreamObserver {
 public:
  explicit RawPeer(SimStack* stack,
                   absl::string_view scheme_host = "sim://server:3260")
      : RawPeer(stack, stack->client_reactor, scheme_host) {}
  // From another host.
  RawPeer(SimStack* stack, transport::Reactor* reactor,
          absl::string_view scheme_host = "sim://server:3260")
      : stack_(stack) {
    const auto address = transport::Address::Parse(scheme_host).value();
    attempt_ =
        stack->registry.Find("sim")
            .value()
            ->Connect(reactor, address, {},
                      [this](absl::StatusOr<transport::Endpoint> endpoint) {
                        Connected(std::move(endpoint));
                      })
            .value();
    stack->RunUntil([this] { return stream_ != nullptr || closed_; });
  }
  ~RawPeer() override {
    if (stream_ != nullptr) stream_->SetObserver(nullptr);
  }

  void Send(absl::string_view bytes) {
    to_send_.append(bytes.data(), bytes.size());
    OnWritable();
  }
  void StopReading() { reading_ = false; }
  bool closed() const { return closed_; }
  const std::string& received() const { return received_; }

  // Logs in to the target of the stack; `isid` tells sessions apart. Without a
  // target, to discover.
  void LogIn(uint8_t isid, absl::string_view target = kTargetName,
             absl::string_view initiator = "iqn.2001-04.com.example:raw") {
    Send(FirstLogin(isid, target, initiator, /*transit=*/true));
    stack_->RunUntil([this] { return received_.size() >= kBhsSize || closed_; },
                     absl::Seconds(5));
  }
  static std::string FirstLogin(uint8_t isid, absl::string_view target,
                                absl::string_view initiator, bool transit) {
    LoginRequestPdu login;
    login.transit = transit;
    login.csg = LoginStage::kOperational;
    if (transit) login.nsg = LoginStage::kFullFeature;
    login.isid = {0x80, 0, 0, 0, 0, isid};
    login.initiator_task_tag = 1;
    login.cmd_sn = 1;
    std::string text = absl::StrCat("InitiatorName=", initiator);
    text += '\0';
    if (target.empty()) {
      text += std::string("SessionType=Discovery") + '\0';
    } else {
      absl::StrAppend(&text, "TargetName=", target);
      text += '\0';
      text += std::string("InitialR2T=No") + '\0';
    }
    return ToWire(login, text);
  }
  // Status-Class and Status-Detail of the first response.
  int LoginStatus() const {
    if (received_.size() < kBhsSize) return -1;
    return static_cast<uint8_t>(received_[36]) << 8 |
           static_cast<uint8_t>(received_[37]);
  }

 private:
  void Connected(absl::StatusOr<transport::Endpoint> endpoint) {
    if (!endpoint.ok()) {
      closed_ = true;
      return;
    }
    stream_ =
        std::get<std::unique_ptr<transport::ByteStream>>(*std::move(endpoint));
    stream_->SetObserver(this);
  }
  void OnReadable() override {
    char buffer[4096];
    const iovec to = {buffer, sizeof(buffer)};
    while (reading_ && !closed_) {
      const transport::IoResult result = stream_->Readv({&to, 1});
      if (result.status == transport::StreamStatus::kWouldBlock) return;
      if (result.status != transport::StreamStatus::kOk) {
        closed_ = true;
        return;
      }
      received_.append(buffer, result.bytes);
    }
  }
  void OnWritable() override {
    while (!to_send_.empty() && !closed_) {
      const iovec from = {to_send_.data(), to_send_.size()};
      const transport::IoResult result = stream_->Writev({&from, 1});
      if (result.status == transport::StreamStatus::kWouldBlock) return;
      if (result.status != transport::StreamStatus::kOk) {
        closed_ = true;
        return;
      }
      to_send_.erase(0, result.bytes);
    }
  }

  SimStack* const stack_;
  std::unique_ptr<transport::ConnectAttempt> attempt_;
  std::unique_ptr<transport::ByteStream> stream_;
  std::string to_send_;
  std::string received_;
  bool reading_ = true;
  bool closed_ = false;
};

}  // namespace skiff::protocol

#endif  // SKIFF_TESTING_STACK_RAW_STREAM_PEER_H_
