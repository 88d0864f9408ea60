#include "protocol/connection/connection_transport.h"

#include <algorithm>
#include <cassert>
#include <type_traits>
#include <variant>

#include "absl/strings/str_cat.h"
#include "protocol/codec/iser_cm_private_data.h"
#include "protocol/connection/capture.h"
#include "protocol/connection/stream_pump.h"

namespace skiff::protocol {

using transport::Access;
using transport::ByteStream;
using transport::RdmaEndpoint;

namespace {

template <typename Role>
class StreamTransport final : public ConnectionTransport<Role> {
 public:
  StreamTransport(std::unique_ptr<ByteStream> stream,
                  std::unique_ptr<StreamDatamoverOf<Role>> datamover)
      : transport_(stream->scheme()),
        local_(stream->local_address()),
        peer_(stream->peer_address()),
        datamover_(std::move(datamover)),
        stream_(std::move(stream)) {}

  Role* datamover() override { return datamover_.get(); }
  std::unique_ptr<ConnectionPump> MakePump(transport::Reactor* reactor,
                                           PumpClient* client) override {
    return std::make_unique<StreamPump>(reactor, std::move(stream_),
                                        datamover_.get(), StreamPumpOptions(),
                                        client);
  }
  void Adjust(Offer* /*offer*/) const override {}
  absl::Status UseMemory(void*, size_t, std::shared_ptr<const void>) override {
    return absl::OkStatus();
  }
  bool rdma() const override { return false; }
  std::string local_address() const override { return local_; }
  std::string peer_address() const override { return peer_; }
  ConnectionInfo Info() const override {
    ConnectionInfo info;
    info.data_model = "iSCSI";
    info.transport = transport_;
    info.counters = datamover_->counters();
    return info;
  }

 private:
  const std::string transport_;
  const std::string local_;
  const std::string peer_;
  const std::unique_ptr<StreamDatamoverOf<Role>> datamover_;
  std::unique_ptr<ByteStream> stream_;  // Until the pump has it.
};

// Whether each unsolicited Data-Out PDU must find a receive. It need not where
// a long message waits for one without harm.
bool NeedsReceives(const transport::Capabilities& device) {
  return !device.receiver_not_ready_retry ||
         device.eager_message_bytes == SIZE_MAX;
}

template <typename Role>
class IserTransport final : public ConnectionTransport<Role> {
 public:
  IserTransport(std::shared_ptr<IserMemories> memories,
                std::shared_ptr<IserMemory> memory,
                std::unique_ptr<IserDatamoverOf<Role>> datamover,
                std::shared_ptr<RdmaLink> link, bool takes_unsolicited,
                ConnectionInfo fixed)
      : local_(datamover->endpoint()->local_address()),
        peer_(datamover->endpoint()->peer_address()),
        memories_(std::move(memories)),
        memory_(std::move(memory)),
        datamover_(std::move(datamover)),
        link_(std::move(link)),
        takes_unsolicited_(takes_unsolicited),
        fixed_(std::move(fixed)) {}
  ~IserTransport() override { memories_->DropRemoved(); }

  Role* datamover() override { return datamover_.get(); }
  std::unique_ptr<ConnectionPump> MakePump(transport::Reactor* reactor,
                                           PumpClient* client) override {
    return std::make_unique<RdmaPump>(reactor, datamover_.get(), link_,
                                      RdmaPumpOptions(), client);
  }
  void Adjust(Offer* offer) const override {
    offer->iser.enabled = true;
    // Unsolicited Data-Out takes a receive for every PDU that the burst lengths
    // allow (docs/iser.md), or a device that holds messages up.
    if (NeedsReceives(memory_->domain()->capabilities()) &&
        !(offer->iser.unsolicited_data_out && takes_unsolicited_)) {
      offer->initial_r2t = true;
    }
  }
  absl::Status UseMemory(void* data, size_t size,
                         std::shared_ptr<const void> owner) override {
    return memory_->AddArena(data, size, std::move(owner));
  }
  bool rdma() const override { return true; }
  std::string local_address() const override { return local_; }
  std::string peer_address() const override { return peer_; }
  ConnectionInfo Info() const override {
    ConnectionInfo info = fixed_;
    info.counters = datamover_->counters();
    return info;
  }

 private:
  const std::string local_;
  const std::string peer_;
  const std::shared_ptr<IserMemories> memories_;
  const std::shared_ptr<IserMemory> memory_;
  const std::unique_ptr<IserDatamoverOf<Role>> datamover_;
  const std::shared_ptr<RdmaLink> link_;
  const bool takes_unsolicited_;  // Has the receives that it takes.
  const ConnectionInfo fixed_;    // Without counters.
};

template <typename Role>
constexpr bool kInitiates = std::is_same_v<Role, InitiatorDatamover>;

template <typename Role>
std::unique_ptr<IserDatamoverOf<Role>> MakeIserDatamover(
    IserMemory* memory, const IserDatamoverOptions& options) {
  if constexpr (kInitiates<Role>) {
    return MakeInitiatorIserDatamover(memory, options);
  } else {
    return MakeTargetIserDatamover(memory, options);
  }
}

// What an initiator does instead of using memory windows, for people.
std::string WithoutWindows(const IserMemoryOptions& options) {
  const char* instead = "memory is registered for each command";
  if (options.rdma.lasting_keys) {
    instead = options.keep_registrations
                  ? "keys outlive their commands"
                  : "keys of lasting memory outlive their commands, and other "
                    "memory is registered for each";
  }
  return absl::StrCat(instead, ": the device has no memory windows");
}

}  // namespace

template <typename Role>
std::unique_ptr<ConnectionTransport<Role>> MakeStreamTransport(
    std::unique_ptr<ByteStream> stream,
    std::unique_ptr<StreamDatamoverOf<Role>> datamover,
    const transport::CaptureSink& capture) {
  if (capture != nullptr) stream = Captured(std::move(stream), capture);
  return std::make_unique<StreamTransport<Role>>(std::move(stream),
                                                 std::move(datamover));
}

template std::unique_ptr<ConnectionTransport<InitiatorDatamover>>
MakeStreamTransport(std::unique_ptr<ByteStream>,
                    std::unique_ptr<StreamDatamoverOf<InitiatorDatamover>>,
                    const transport::CaptureSink&);
template std::unique_ptr<ConnectionTransport<TargetDatamover>>
MakeStreamTransport(std::unique_ptr<ByteStream>,
                    std::unique_ptr<StreamDatamoverOf<TargetDatamover>>,
                    const transport::CaptureSink&);

uint32_t UnexpectedReceives(const IserOffer& offer) {
  constexpr uint32_t kWithoutLimit = 32;
  return offer.rfc7145_keys && offer.max_outstanding_unexpected_pdus != 0
             ? offer.max_outstanding_unexpected_pdus
             : kWithoutLimit;
}

absl::StatusOr<std::shared_ptr<IserMemory>> IserMemories::For(
    transport::MemoryDomain* domain) {
  DropRemoved();
  std::shared_ptr<IserMemory>& memory = memories_[domain];
  if (memory == nullptr) {
    IserMemoryOptions options = options_;
    if (role_ == Role::kInitiator) {
      options.arena_access = Access::kRemoteRead | Access::kRemoteWrite;
    } else if (options.rdma.lasting_keys &&
               domain->capabilities().read_sink_needs_remote_write) {
      // Otherwise what a Read fills is registered for the Read alone: its
      // Request shows the key to the peer (RFC 5040 section 4.4).
      options.arena_access = Access::kRemoteWrite;
    }
    auto created = IserMemory::Create(domain, options);
    if (!created.ok()) return created.status();
    memory = *std::move(created);
  }
  return memory;
}

void IserMemories::DropRemoved() {
  std::erase_if(removed_, [](const auto& memory) { return memory.expired(); });
  std::erase_if(memories_, [this](const auto& memory) {
    if (memory.second == nullptr) return true;
    if (!memory.second->domain()->removed()) return false;
    removed_.push_back(memory.second);
    return true;
  });
}

void IserMemories::Forget(const void* data, size_t size) {
  for (const auto& [domain, memory] : memories_) {
    if (memory != nullptr) memory->Forget(data, size);
  }
  for (const std::weak_ptr<IserMemory>& memory : removed_) {
    const std::shared_ptr<IserMemory> alive = memory.lock();
    if (alive != nullptr) alive->Forget(data, size);
  }
}

template <typename Role>
IserSetup<Role>::IserSetup(const std::shared_ptr<IserMemories>& memories,
                           const IserDatamoverOptions& options,
                           const transport::CaptureSink& capture)
    : state_(std::make_shared<State>()) {
  assert((memories->role() == IserMemories::Role::kInitiator) ==
         kInitiates<Role>);
  state_->memories = memories;
  state_->options = options;
  state_->capture = capture;
}

template <typename Role>
void IserSetup<Role>::Answers(const IserCmPrivateData& request) {
  state_->options.remote_invalidation = request.send_with_invalidate;
  state_->counted = request.counted;
}

template <typename Role>
void IserSetup<Role>::FillIn(transport::ConnectOptions* options) const {
  options->receive_queue = state_->options.receives;
  options->resources = [state = state_](transport::MemoryDomain& domain)
      -> absl::StatusOr<transport::EndpointResources> {
    return state->ResourcesOn(domain);
  };
  options->prepare = [state = state_](RdmaEndpoint& endpoint) {
    return state->Prepare(&endpoint);
  };
  options->private_data_of = [state = state_](RdmaEndpoint& endpoint) {
    return state->PrivateDataOf(endpoint);
  };
  options->on_disconnect = [state = state_](RdmaEndpoint& endpoint) {
    state->OnDisconnect(&endpoint);
  };
}

template <typename Role>
bool IserSetup<Role>::State::HoldsUnsolicited(
    const transport::Capabilities& device) const {
  return uint64_t{options.receives} + options.unsolicited_receives <=
         device.max_receive_queue;
}

template <typename Role>
transport::EndpointResources IserSetup<Role>::State::ResourcesOn(
    const transport::MemoryDomain& domain) const {
  transport::EndpointResources resources;
  resources.receive_queue = options.receives;
  if (HoldsUnsolicited(domain.capabilities())) {
    resources.receive_queue += options.unsolicited_receives;
  }
  return resources;
}

template <typename Role>
absl::Status IserSetup<Role>::State::Prepare(RdmaEndpoint* endpoint) {
  auto memory = memories->For(endpoint->domain());
  if (!memory.ok()) return memory.status();
  Prepared fresh;
  fresh.memory = *std::move(memory);
  // An address may lead to any device of a transport: only now it is known.
  const transport::Capabilities& device = endpoint->domain()->capabilities();
  IserDatamoverOptions mine = options;
  mine.remote_invalidation =
      options.remote_invalidation &&
      (kInitiates<Role> ? device.memory_windows : device.send_with_invalidate);
  fresh.remote_invalidation = mine.remote_invalidation;
  if (!HoldsUnsolicited(device)) {
    if (NeedsReceives(device)) {
      fresh.no_unsolicited_receives = absl::StrCat(
          "no unsolicited Data-Out: it takes a receive queue of ",
          uint64_t{options.receives} + options.unsolicited_receives,
          " entries, and the device has ", device.max_receive_queue,
          "; a smaller queue depth or FirstBurstLength takes fewer");
    }
    mine.unsolicited_receives = 0;
  }
  fresh.datamover = MakeIserDatamover<Role>(fresh.memory.get(), mine);
  absl::Status status = fresh.datamover->Prepare(endpoint);
  // What was prepared for an attempt that failed, whose endpoint had the same
  // address: its datamover goes before its memory.
  prepared.erase(endpoint);
  if (status.ok()) prepared.emplace(endpoint, std::move(fresh));
  return status;
}

template <typename Role>
std::vector<uint8_t> IserSetup<Role>::State::PrivateDataOf(
    const RdmaEndpoint& endpoint) {
  const auto found = prepared.find(&endpoint);
  assert(found != prepared.end());
  IserCmPrivateData said;
  said.send_with_invalidate = found->second.remote_invalidation;
  said.counted = counted;
  const IserCmPrivateDataBytes bytes = Encode(said);
  return {bytes.begin(), bytes.end()};
}

template <typename Role>
std::string IserSetup<Role>::State::NoInvalidation(
    const Prepared& prepared, bool peer_invalidates) const {
  const char* why = nullptr;
  if (!kInitiates<Role> && !options.remote_invalidation) {
    why = "the initiator does not want it";
  } else if (!prepared.remote_invalidation) {
    why = kInitiates<Role> ? "the device has no memory windows"
                           : "the device has no Send with Invalidate";
  } else if (kInitiates<Role> && !peer_invalidates) {
    why = "the target does not do it";
  }
  return why == nullptr
             ? ""
             : absl::StrCat("keys are not invalidated remotely: ", why);
}

template <typename Role>
absl::StatusOr<IserCmPrivateData> IserSetup<Role>::State::SaidBy(
    const RdmaEndpoint& endpoint, const Prepared& prepared) const {
  auto said = DecodeIserCmPrivateData(endpoint.peer_private_data());
  if (!said.ok() || !kInitiates<Role> || prepared.remote_invalidation)
    return said;
  // One who says nothing, where the network fills messages with zeros, seems to
  // allow everything; a bit that is set was meant.
  const bool meant = !said->zero_based_virtual_address;
  if (!meant || !said->send_with_invalidate) return said;
  return absl::UnimplementedError(absl::StrCat(
      prepared.memory->domain()->name(),
      ": the target is about to invalidate keys remotely, which this device "
      "cannot have. It has not understood what it was told while connecting, "
      "which libfabric's verbs provider puts a byte in front of; where that is "
      "in use, take verbs:// instead (iser://...?transport=verbs)"));
}

template <typename Role>
void IserSetup<Role>::State::OnDisconnect(RdmaEndpoint* endpoint) {
  const auto found = prepared.find(endpoint);
  if (found != prepared.end()) found->second.link->OnDisconnect();
}

template <typename Role>
void IserSetup<Role>::Settle(
    const absl::StatusOr<transport::Endpoint>& outcome) {
  const auto* rdma = outcome.ok()
                         ? std::get_if<std::unique_ptr<RdmaEndpoint>>(&*outcome)
                         : nullptr;
  const RdmaEndpoint* const taken = rdma != nullptr ? rdma->get() : nullptr;
  std::erase_if(state_->prepared, [taken](const auto& prepared) {
    return prepared.first != taken;
  });
  state_->memories->DropRemoved();
}

template <typename Role>
absl::Status IserSetup<Role>::Check(const RdmaEndpoint& endpoint) const {
  const auto found = state_->prepared.find(&endpoint);
  assert(found != state_->prepared.end());
  return state_->SaidBy(endpoint, found->second).status();
}

template <typename Role>
absl::StatusOr<std::unique_ptr<ConnectionTransport<Role>>>
IserSetup<Role>::Take(std::unique_ptr<RdmaEndpoint> endpoint) {
  const auto found = state_->prepared.find(endpoint.get());
  assert(found != state_->prepared.end());
  Prepared& mine = found->second;
  const auto said = state_->SaidBy(*endpoint, mine);
  if (!said.ok()) {
    endpoint.reset();  // Before what was prepared for it.
    state_->prepared.erase(found);
    return said.status();
  }
  if (state_->capture != nullptr) {
    mine.datamover->SetTrace(MakeIserCapture(
        endpoint->local_address(), endpoint->peer_address(), state_->capture));
  }
  ConnectionInfo info;
  info.data_model = "iSER";
  info.transport = std::string(endpoint->scheme());
  info.device = endpoint->domain()->name();
  std::string not_invalidated =
      state_->NoInvalidation(mine, said->send_with_invalidate);
  info.remote_invalidation = not_invalidated.empty();
  if (!info.remote_invalidation) {
    info.fallbacks.push_back(std::move(not_invalidated));
  }
  // Initiators post none.
  std::string slow_reads = kInitiates<Role> ? "" : endpoint->slow_reads();
  if (!slow_reads.empty()) info.fallbacks.push_back(std::move(slow_reads));
  if (kInitiates<Role> && !endpoint->domain()->capabilities().memory_windows) {
    info.fallbacks.push_back(WithoutWindows(mine.memory->options()));
  }
  const bool takes_unsolicited = mine.no_unsolicited_receives.empty();
  if (!takes_unsolicited) {
    info.fallbacks.push_back(std::move(mine.no_unsolicited_receives));
  }
  mine.datamover->Connected(std::move(endpoint));
  // The link stays, for on_disconnect.
  return std::unique_ptr<ConnectionTransport<Role>>(
      std::make_unique<IserTransport<Role>>(
          state_->memories, std::move(mine.memory), std::move(mine.datamover),
          mine.link, takes_unsolicited, std::move(info)));
}

template class IserSetup<InitiatorDatamover>;
template class IserSetup<TargetDatamover>;

}  // namespace skiff::protocol
