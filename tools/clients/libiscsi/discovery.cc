#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
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

// One question to a portal, and its answer. A program may disconnect before it
// comes, and ask another one.
struct iscsi_context::Discovery {
  iscsi_context* iscsi;
  std::string portal;
  FoundFn done;
  std::shared_ptr<Found> found = std::make_shared<Found>();
};

int iscsi_context::FindTargets(FoundFn done) {
  if (discoveries_ == kMaxDiscoveries) {
    return Fail("too many portals are being asked");
  }
  skiff_disk_options options;
  FillOptions(&options, nullptr);
  options.on_event = nullptr;
  auto discovery =
      std::make_unique<Discovery>(Discovery{this, portal_, std::move(done)});
  if (skiff_discover(loop_->skiff(), Url("", 0).c_str(), &options, OnTarget,
                     OnFound, discovery.get()) != 0) {
    return Fail(skiff_last_error());
  }
  static_cast<void>(discovery.release());  // OnFound() has it.
  ++discoveries_;
  return 0;
}

void iscsi_context::OnTarget(void* user, const skiff_found_target* target) {
  const auto* const discovery = static_cast<Discovery*>(user);
  discovery->found->Add(*target, discovery->portal);
}

void iscsi_context::OnFound(void* user, int result, const char* message) {
  const std::unique_ptr<Discovery> discovery(static_cast<Discovery*>(user));
  iscsi_context* const self = discovery->iscsi;
  --self->discoveries_;
  if (result != 0) {
    discovery->found = nullptr;
    self->SetError(message);
  }
  self->Later(
      [done = std::move(discovery->done), found = std::move(discovery->found)] {
        done(found == nullptr ? kError : kGood, found);
      });
}

int iscsi_context::Discover(FoundFn done) {
  if (state_ != State::kDiscovery) {
    return Fail(
        "targets are asked for in a discovery session, after its login");
  }
  if (found_ == nullptr) return FindTargets(std::move(done));
  // The program has them once; then the portal is asked anew.
  Later([done = std::move(done), found = std::exchange(found_, nullptr)] {
    done(kGood, found);
  });
  return 0;
}

FACE int iscsi_discovery_async(iscsi_context* iscsi, iscsi_command_cb cb,
                               void* private_data) {
  if (!Enter(iscsi)) return -1;
  // The program has them as long as its callback runs.
  return iscsi->Discover([iscsi, cb, private_data](
                             int status, const std::shared_ptr<Found>& found) {
    if (cb == nullptr) return;
    cb(iscsi, status, found == nullptr ? nullptr : found->first(),
       private_data);
  });
}

FACE iscsi_discovery_address* iscsi_discovery_sync(iscsi_context* iscsi) {
  if (!Enter(iscsi)) return nullptr;
  bool finished = false;
  iscsi_discovery_address* first = nullptr;
  const auto done = [&finished, &first](int /*status*/,
                                        const std::shared_ptr<Found>& found) {
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
