#include "transport/net/connector.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/annotate.h"

namespace skiff::transport {

Connector::Connector(Reactor* reactor, Address address, ConnectOptions options,
                     ConnectCallback done)
    : reactor_(reactor),
      address_(std::move(address)),
      options_(std::move(options)),
      deadline_(reactor->Now() + options_.timeout),
      timer_(reactor, [this] { OnTimer(); }),
      done_(std::move(done)) {}

void Connector::Finish(absl::StatusOr<Endpoint> result) {
  timer_.Cancel();
  ConnectCallback done = std::move(done_);
  done(std::move(result));
}

void Connector::Fail(const absl::Status& why) {
  Finish(Annotate(why, absl::StrCat("connect ", address_.ToString())));
}

}  // namespace skiff::transport
