// A server or a client that speaks rping's protocol, over Skiff's verbs
// transport: the other one is rping itself, which knows nothing of Skiff.
//
//   rping_peer serve URL             serves, until it is killed
//   rping_peer read URL              the same, but only reads, without an end
//   rping_peer connect URL [ROUNDS]  a client; without ROUNDS it goes on
//
// Prints a line for each thing that happens.

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "testing/verbs/rping_end.h"
#include "transport/reactor/epoll_reactor.h"
#include "transport/verbs/verbs_transport.h"

namespace skiff::testing {
namespace {

using transport::Address;
using transport::EpollReactor;
using transport::RdmaEndpoint;

constexpr size_t kMaxBytes = 64 << 10;  // rping's own limit.

void Say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

// Now and then.
void SayRound(int round) {
  constexpr int kRoundsPerLine = 10;
  if (round % kRoundsPerLine == 0) Say(absl::StrCat("round ", round));
}

std::unique_ptr<RdmaEndpoint> Rdma(transport::Endpoint made) {
  return std::get<std::unique_ptr<RdmaEndpoint>>(std::move(made));
}

std::string Describe(const RpingEnd& end, const absl::Status& status) {
  std::string text =
      absl::StrCat("ended after ", end.rounds(),
                   " rounds: ", status.ok() ? "ok" : status.ToString());
  for (const transport::Completion& failure : end.failures()) {
    // Those that wait for messages always end so.
    if (failure.kind == transport::OperationKind::kReceive &&
        failure.status == transport::CompletionStatus::kFlushed) {
      continue;
    }
    absl::StrAppend(&text, "; operation ", static_cast<int>(failure.kind),
                    " status ", static_cast<int>(failure.status), " code ",
                    failure.provider_code);
  }
  return text;
}

class Server {
 public:
  Server(EpollReactor* reactor, bool keep_reading)
      : reactor_(reactor), keep_reading_(keep_reading) {}

  int Run(const Address& address) {
    const auto transport = transport::MakeVerbsTransport();
    auto listener = transport->Listen(
        reactor_, address, {},
        [this](std::unique_ptr<transport::ConnectionRequest> request) {
          Accept(*request);
        });
    if (!listener.ok()) {
      Say(listener.status().ToString());
      return 1;
    }
    Say(absl::StrCat("listening on ", (*listener)->address().ToString()));
    reactor_->Run();
    return 0;
  }

 private:
  void Accept(transport::ConnectionRequest& request) {
    RpingEnd::Settings settings;
    settings.bytes = kMaxBytes;
    settings.keep_reading = keep_reading_;
    if (keep_reading_) settings.on_round = SayRound;
    auto slot = std::make_shared<std::unique_ptr<RpingEnd>>();
    *slot = std::make_unique<RpingEnd>(
        reactor_, settings, [this, slot](const absl::Status& status) {
          Say(Describe(**slot, status));
          // Not from inside its own call.
          reactor_->Post([slot] { slot->reset(); });
        });
    transport::AcceptOptions options;
    (*slot)->FillOptions(&options);
    Say(absl::StrCat("a client at ", request.peer_address()));
    request.Accept(reactor_, options,
                   [slot](absl::StatusOr<transport::Endpoint> made) {
                     if (made.ok()) {
                       (*slot)->Start(Rdma(*std::move(made)));
                       return;
                     }
                     Say(made.status().ToString());
                     slot->reset();
                   });
  }

  EpollReactor* const reactor_;
  const bool keep_reading_;
};

int Connect(EpollReactor* reactor, const Address& address, int rounds) {
  int status = 1;
  std::unique_ptr<RpingEnd> end;
  RpingEnd::Settings settings;
  settings.client = true;
  settings.rounds = rounds;
  if (rounds == 0) settings.on_round = SayRound;
  end = std::make_unique<RpingEnd>(reactor, settings,
                                   [&](const absl::Status& why) {
                                     Say(Describe(*end, why));
                                     status = why.ok() ? 0 : 1;
                                     reactor->Stop();
                                   });
  transport::ConnectOptions options;
  end->FillOptions(&options);
  const auto transport = transport::MakeVerbsTransport();
  auto attempt = transport->Connect(
      reactor, address, options, [&](absl::StatusOr<transport::Endpoint> made) {
        if (made.ok()) {
          auto endpoint = Rdma(*std::move(made));
          Say(absl::StrCat("connected by ", endpoint->path()));
          end->Start(std::move(endpoint));
          return;
        }
        Say(made.status().ToString());
        reactor->Stop();
      });
  if (!attempt.ok()) {
    Say(attempt.status().ToString());
    return 1;
  }
  reactor->Run();
  end.reset();
  return status;
}

int Main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() < 2) {
    std::fprintf(stderr, "usage: rping_peer serve|read|connect URL [ROUNDS]\n");
    return 2;
  }
  const auto address = Address::Parse(arguments[1], 7174);
  auto reactor = EpollReactor::Create();
  if (!address.ok() || !reactor.ok()) {
    Say((address.ok() ? reactor.status() : address.status()).ToString());
    return 2;
  }
  if (arguments[0] != "connect") {
    return Server(reactor->get(), arguments[0] == "read").Run(*address);
  }
  const int rounds = arguments.size() > 2 ? std::atoi(arguments[2].c_str()) : 0;
  return Connect(reactor->get(), *address, rounds);
}

}  // namespace
}  // namespace skiff::testing

int main(int argc, char** argv) { return skiff::testing::Main(argc, argv); }
