#include "protocol/session/target_session_harness.h"

#include <cstdlib>
#include <iostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "scsi/backend/ram_backend.h"

namespace skiff::protocol {
namespace {

// The harness has no one to report to: what must work here, works.
template <typename T>
T Must(absl::StatusOr<T> value) {
  if (!value.ok()) {
    std::cerr << value.status() << std::endl;
    std::abort();
  }
  return *std::move(value);
}

}  // namespace

TargetSessionHarness::TargetSessionHarness(const Options& options)
    : offer_(options.offer),
      budget_(options.budget),
      reactor_(Must(transport::EpollReactor::Create())),
      target_(scsi::Target::Create(kTargetName, options.access)) {
  scsi::WorkerOptions worker;
  worker.buffer_pool_bytes = 4 << 20;
  worker.data_patience = options.data_patience;
  worker_ = Must(scsi::Worker::Create(reactor_.get(), worker));
  std::shared_ptr<scsi::Backend> backend = options.backend;
  if (backend == nullptr) {
    scsi::RamBackendOptions disk;
    disk.size_bytes = kDiskBytes;
    backend = Must(scsi::MakeRamBackend(disk));
  }
  if (!target_->AddLogicalUnit(std::move(backend), {}).ok()) std::abort();
  datamover_ = MakeTargetStreamDatamover(&buffers_, options.datamover);
  session_ = std::make_unique<TargetSession>(
      static_cast<TargetSessionHost*>(this), datamover_.get(), options.session);
}

TargetSessionHarness::~TargetSessionHarness() {
  session_->Terminate();
  for (int i = 0; i < 1000 && !ended_; ++i) Settle();
  if (!ended_) {
    std::cerr << "the session did not end" << std::endl;
    std::abort();
  }
}

void TargetSessionHarness::Receive(absl::string_view bytes, size_t step) {
  while (!bytes.empty() && !closed_) {
    const absl::Span<const iovec> spans = datamover_->ReceiveSpans();
    if (spans.empty()) return;
    const size_t n = CopyIn(bytes.substr(0, step), spans);
    bytes.remove_prefix(n);
    datamover_->BytesReceived(n);
    Settle();
  }
}

void TargetSessionHarness::Settle() {
  session_->RunDeferred();
  reactor_->Poll();
}

std::string TargetSessionHarness::TakeBytes(size_t limit) {
  std::string wire;
  while (datamover_->has_output() && wire.size() < limit) {
    const std::string out =
        CopyOut(datamover_->SendSpans(), limit - wire.size());
    datamover_->BytesSent(out.size());
    wire += out;
  }
  Settle();
  return wire;
}

std::vector<WirePdu> TargetSessionHarness::TakePdus() {
  return Must(ParseWire(TakeBytes()));
}

std::string TargetSessionHarness::LoginRequest(absl::string_view keys,
                                               bool discovery) {
  LoginRequestPdu login;
  login.transit = true;
  login.csg = LoginStage::kOperational;
  login.nsg = LoginStage::kFullFeature;
  login.isid = {0x80, 1, 2, 3, 4, 5};
  login.initiator_task_tag = 1;
  login.cmd_sn = 1;
  std::string text = absl::StrCat("InitiatorName=", kInitiatorName, "|");
  absl::StrAppend(&text, discovery
                             ? "SessionType=Discovery|"
                             : absl::StrCat("TargetName=", kTargetName, "|"));
  absl::StrAppend(&text, keys);
  return ToWire(login,
                absl::StrReplaceAll(text, {{"|", absl::string_view("\0", 1)}}));
}

bool TargetSessionHarness::Login(absl::string_view keys, bool discovery) {
  Receive(LoginRequest(keys, discovery));
  TakeBytes();
  return session_->phase() == TargetSession::Phase::kFullFeature;
}

LoginStatus TargetSessionHarness::Admit(const LoginRequestPdu&,
                                        LoginIdentity* identity, Offer* offer,
                                        std::string*) {
  *offer = offer_;
  const bool found = identity->session_type == SessionType::kDiscovery ||
                     identity->target_name == kTargetName;
  return found ? LoginStatus::kSuccess : LoginStatus::kNotFound;
}

LoginStatus TargetSessionHarness::Establish(const LoginRequestPdu&,
                                            const LoginIdentity&,
                                            const Parameters&, uint16_t* tsih) {
  *tsih = 1;
  return LoginStatus::kSuccess;
}

std::shared_ptr<scsi::Target> TargetSessionHarness::FindTarget(
    const std::string& name) {
  return name == kTargetName ? target_ : nullptr;
}

std::vector<DiscoveredTarget> TargetSessionHarness::Discover(
    const LoginIdentity&, absl::string_view what) {
  if (!what.empty() && what != kTargetName) return {};
  return {{kTargetName, {"127.0.0.1:3260,1"}}};
}

void TargetSessionHarness::CloseConnection(const absl::Status& why, bool) {
  closed_ = true;
  close_reason_ = std::string(why.message());
}

void TargetSessionHarness::OnWarning(LogLine line, const transport::LogSite&) {
  log_.push_back(line());
}

}  // namespace skiff::protocol
