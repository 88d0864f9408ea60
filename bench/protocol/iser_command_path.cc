#include "bench/protocol/iser_command_path.h"

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"

namespace skiff::protocol {
namespace {

SessionPair::Options ForIser(SessionPair::Options options) {
  options.offer.iser.enabled = true;
  options.offer.initial_r2t = true;
  options.offer.header_digest = options.offer.data_digest = {Digest::kNone};
  return options;
}

std::unique_ptr<IserMemory> MakeMemory(MemcpyDevice* device,
                                       transport::Access arenas) {
  IserMemoryOptions options;
  options.arena_access = arenas;
  return IserMemory::Create(device, options).value();
}

IserDatamoverOptions MoverOptions() {
  IserDatamoverOptions options;
  options.remote_invalidation = true;
  return options;
}

// True if there was a completion.
bool Complete(IserDatamover* mover) {
  std::array<transport::Completion, 32> completions;
  bool any = false;
  while (mover->endpoint() != nullptr) {
    const int count = mover->endpoint()->completion_queue()->Poll(
        absl::MakeSpan(completions));
    for (int i = 0; i < count; ++i) mover->OnCompletion(completions[i]);
    if (count == 0) break;
    any = true;
  }
  return any;
}

}  // namespace

IserCommandPath::IserCommandPath(const Options& options)
    : SessionPair(ForIser(options)),
      initiator_memory_(MakeMemory(
          &device_,
          transport::Access::kRemoteRead | transport::Access::kRemoteWrite)),
      target_memory_(MakeMemory(&device_, transport::Access::kLocal)),
      target_mover_(
          MakeTargetIserDatamover(target_memory_.get(), MoverOptions())),
      initiator_mover_(
          MakeInitiatorIserDatamover(initiator_memory_.get(), MoverOptions())) {
  absl::Status status = UseMemory();
  status.Update(Connect(initiator_mover_.get(), device_.MakeEnd()));
  status.Update(Connect(target_mover_.get(), device_.MakeEnd()));
  if (status.ok()) {
    Start(initiator_mover_.get(), target_mover_.get());
  } else {
    Fail(std::string(status.message()));
  }
}

IserCommandPath::~IserCommandPath() { End(); }

absl::Status IserCommandPath::UseMemory() {
  const std::shared_ptr<std::vector<char>>& data = batch().memory();
  absl::Status status =
      initiator_memory_->AddArena(data->data(), data->size(), data);
  for (const scsi::DirectMemory& medium : disk()->DirectMemories()) {
    status.Update(
        target_memory_->AddArena(medium.data, medium.size, medium.owner));
  }
  return status;
}

absl::Status IserCommandPath::Connect(
    IserDatamover* mover, std::unique_ptr<transport::RdmaEndpoint> endpoint) {
  absl::Status status = mover->Prepare(endpoint.get());
  mover->Connected(std::move(endpoint));
  return status;
}

bool IserCommandPath::Exchange() {
  bool any = false;
  bool moved = true;
  StartClock();
  while (moved) {
    initiator_mover_->Flush();
    Charge(&times_.initiator);
    RunTarget();
    target_mover_->Flush();
    Charge(&times_.target);
    device_.Carry();
    Charge(&times_.network);
    moved = Complete(initiator_mover_.get());
    RunInitiator();
    Charge(&times_.initiator);
    moved |= Complete(target_mover_.get());
    Charge(&times_.target);
    any |= moved;
  }
  return any;
}

}  // namespace skiff::protocol
