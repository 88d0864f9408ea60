#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "tools/clients/libiscsi/context.h"
#include "tools/clients/libiscsi/entry.h"
#include "tools/clients/libiscsi/export.h"
#include "tools/clients/libiscsi/found.h"

namespace skiff::libiscsi {
namespace {

bool AddPortal(iscsi_discovery_address* address, const char* text) {
  auto* const portal =
      static_cast<iscsi_target_portal*>(calloc(1, sizeof(iscsi_target_portal)));
  if (portal == nullptr) return false;
  portal->portal = strdup(text);
  portal->next = address->portals;
  address->portals = portal;
  return portal->portal != nullptr;
}

}  // namespace

void Found::Add(const skiff_found_target& target, const std::string& portal) {
  auto* const address = static_cast<iscsi_discovery_address*>(
      calloc(1, sizeof(iscsi_discovery_address)));
  if (address == nullptr) return;
  address->next = first_;
  first_ = address;
  address->target_name = strdup(target.name);
  bool complete = address->target_name != nullptr;
  for (size_t i = 0; i < target.portal_count; ++i) {
    complete = complete && AddPortal(address, target.portals[i]);
  }
  if (target.portal_count == 0) {
    complete = complete && AddPortal(address, portal.c_str());
  }
  if (complete) return;
  // Without memory there is one less.
  first_ = address->next;
  address->next = nullptr;
  Free(address);
}

void Found::Free(iscsi_discovery_address* first) {
  while (first != nullptr) {
    iscsi_discovery_address* const address = first;
    first = address->next;
    while (address->portals != nullptr) {
      iscsi_target_portal* const portal = address->portals;
      address->portals = portal->next;
      free(const_cast<char*>(portal->portal));
      free(portal);
    }
    free(const_cast<char*>(address->target_name));
    free(address);
  }
}

int iscsi_context::FindTargets(std::function<void(int status)> done) {
  if (discovered_ != nullptr) return Fail("the portal is being asked already");
  skiff_disk_options options;
  FillOptions(&options, nullptr);
  options.on_event = nullptr;
  found_ = std::make_unique<Found>();
  discovered_ = std::move(done);
  if (skiff_discover(loop_->skiff(), Url("", 0).c_str(), &options, OnTarget,
                     OnFound, this) == 0) {
    return 0;
  }
  discovered_ = nullptr;
  found_.reset();
  return Fail(skiff_last_error());
}

void iscsi_context::OnTarget(void* user, const skiff_found_target* target) {
  auto* const self = static_cast<iscsi_context*>(user);
  self->found_->Add(*target, self->portal_);
}

void iscsi_context::OnFound(void* user, int result, const char* message) {
  auto* const self = static_cast<iscsi_context*>(user);
  if (result != 0) {
    self->found_.reset();
    self->SetError(message);
  }
  self->Later([done = std::exchange(self->discovered_, nullptr),
               status = result == 0 ? kGood : kError] { done(status); });
}

int iscsi_context::Discover(std::function<void(int status)> done) {
  if (state_ != State::kDiscovery) {
    return Fail(
        "targets are asked for in a discovery session, after its login");
  }
  if (found_ == nullptr) return FindTargets(std::move(done));
  Later([done = std::move(done)] { done(kGood); });
  return 0;
}

FACE int iscsi_discovery_async(iscsi_context* iscsi, iscsi_command_cb cb,
                               void* private_data) {
  if (!Enter(iscsi)) return -1;
  return iscsi->Discover([iscsi, cb, private_data](int status) {
    // The program has them as long as its callback runs.
    const std::unique_ptr<Found> found = iscsi->TakeFound();
    if (cb == nullptr) return;
    cb(iscsi, status, found == nullptr ? nullptr : found->first(),
       private_data);
  });
}

FACE iscsi_discovery_address* iscsi_discovery_sync(iscsi_context* iscsi) {
  if (!Enter(iscsi)) return nullptr;
  bool finished = false;
  iscsi_discovery_address* first = nullptr;
  const auto done = [iscsi, &finished, &first](int /*status*/) {
    const std::unique_ptr<Found> found = iscsi->TakeFound();
    if (found != nullptr) first = found->release();
    finished = true;
  };
  if (iscsi->Discover(done) != 0) return nullptr;
  iscsi->TurnUntil(&finished);
  return first;
}

FACE void iscsi_free_discovery_data(iscsi_context* /*iscsi*/,
                                    iscsi_discovery_address* first) {
  Found::Free(first);
}

}  // namespace skiff::libiscsi
