// Discovery by the interface of skiff/disk.h.
#include <skiff/disk.h>

#include <cerrno>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "protocol/negotiation/send_targets.h"
#include "protocol/negotiation/url.h"
#include "tools/library/context.h"
#include "tools/library/error.h"
#include "tools/library/handle.h"
#include "tools/library/options.h"
#include "tools/library/session.h"

namespace skiff::library {
namespace {

using Each = void (*)(void* user, const skiff_found_target* target);

// One question to a portal. Lives on a reactor, and keeps itself until it has
// told the answer.
class Discovery : public Session::Listener,
                  public std::enable_shared_from_this<Discovery> {
 public:
  Discovery(const std::shared_ptr<Context>& context, uint32_t reactor,
            Each each, void* user, Ending::Done done)
      : use_(std::make_unique<Context::Use>(context, Kind::kDisk)),
        session_(context.get(), reactor),
        each_(each),
        user_(user),
        done_(done) {}

  void Start(protocol::InitiatorOptions options) {
    session_.Join(this);
    session_.Connect(std::move(options),
                     [self = shared_from_this()](const absl::Status& status) {
                       self->OnLoggedIn(status);
                     });
  }

 private:
  void OnChange(protocol::SessionChange /*change*/,
                const absl::Status& /*why*/) override {}

  void OnLoggedIn(const absl::Status& status) {
    if (!status.ok()) return Finish(status);
    session_.initiator()->SendTargets(
        "All", [self = shared_from_this()](const auto& targets) {
          if (targets.ok()) self->Tell(*targets);
          self->Finish(targets.status());
        });
  }

  void Tell(const std::vector<protocol::DiscoveredTarget>& targets) const {
    for (const protocol::DiscoveredTarget& target : targets) {
      std::vector<const char*> portals;
      portals.reserve(target.portals.size());
      for (const std::string& portal : target.portals) {
        portals.push_back(portal.c_str());
      }
      const skiff_found_target found = {target.name.c_str(), portals.data(),
                                        portals.size()};
      each_(user_, &found);
    }
  }

  void Finish(const absl::Status& status) {
    session_.Leave(this, [self = shared_from_this(), status] {
      self->use_.reset();
      self->done_(status);
    });
  }

  std::unique_ptr<Context::Use> use_;
  Session session_;
  const Each each_;
  void* const user_;
  const Ending::Done done_;
};

}  // namespace
}  // namespace skiff::library

using namespace skiff::library;  // NOLINT(google-build-using-namespace)

int skiff_discover(skiff_context* context, const char* url,
                   const skiff_disk_options* options,
                   void (*each)(void* user, const skiff_found_target* target),
                   skiff_done_fn done, void* user) {
  std::shared_ptr<Context> shared;
  {
    const Pinned<Context> pinned(context);
    if (pinned.error() != 0) return pinned.error();
    shared = pinned.Share();
  }
  if (url == nullptr) return Fail(EINVAL, "url is NULL");
  if (each == nullptr) return Fail(EINVAL, "each is NULL");
  skiff_disk_options known;
  if (const int error = ReadDiskOptions(*shared, options, &known)) return error;
  auto endpoint = ParseUrl(*shared, url);
  if (!endpoint.ok()) return FailUrl(endpoint.status());
  if (!endpoint->target.empty()) {
    return Fail(EINVAL, absl::StrCat(skiff::protocol::WithoutPasswords(url),
                                     " names a target, but a portal is "
                                     "asked for all of its targets"));
  }
  Ending ending(shared.get(), done, user);
  if (ending.error() != 0) return ending.error();
  const uint32_t reactor = ReactorOf(shared.get(), known);
  const auto discovery =
      std::make_shared<Discovery>(shared, reactor, each, user, ending.done());
  shared->Run(reactor,
              [discovery, options = MakeInitiatorOptions(*endpoint, known)] {
                discovery->Start(options);
              });
  return ending.Finish();
}
