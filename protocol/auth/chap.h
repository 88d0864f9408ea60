#ifndef SKIFF_PROTOCOL_AUTH_CHAP_H_
#define SKIFF_PROTOCOL_AUTH_CHAP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "protocol/auth/chap_algorithm.h"
#include "protocol/auth/chap_secret.h"
#include "protocol/negotiation/auth.h"

// CHAP (RFC 7143 section 12.1.3, RFC 1994), one-way and mutual: the exchanges
// of both roles. Sans-IO.

namespace skiff::protocol {

// What AuthMethod calls it.
inline constexpr absl::string_view kChapMethod = "CHAP";

// What an initiator logs in with.
struct ChapInitiatorOptions {
  ChapCredential self;
  // With this the target has to authenticate itself as well. An empty name
  // takes every one that knows the secret.
  absl::optional<ChapCredential> target;
  // Offered, in order of preference.
  std::vector<ChapAlgorithm> algorithms = {AllChapAlgorithms().begin(),
                                           AllChapAlgorithms().end()};
};

// InvalidArgument: what is wrong with them.
absl::Status Validate(const ChapInitiatorOptions& options);

// `options` are valid.
std::unique_ptr<AuthExchange> StartChapInitiator(ChapInitiatorOptions options);

// What is configured for one initiator's name.
struct ChapAccount {
  ChapSecret secret;
  // Who the target is to this initiator, where that one asks.
  absl::optional<ChapCredential> target;
};

// How a target finds out who logs in.
struct ChapTargetOptions {
  // Allowed, in order of preference: the first that the initiator offers is
  // used.
  std::vector<ChapAlgorithm> algorithms = {AllChapAlgorithms().begin(),
                                           AllChapAlgorithms().end()};
  // Asks who is called `name`. `answer` is called once, within the call or
  // later, on the thread that the exchange is used on; after the exchange is
  // gone, it does nothing. NotFound: nobody is.
  using Answer = std::function<void(absl::StatusOr<ChapAccount>)>;
  std::function<void(const std::string& name, Answer answer)> find;
};

// `options.find` is set, and the algorithms are not empty.
std::unique_ptr<AuthExchange> StartChapTarget(ChapTargetOptions options);

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_AUTH_CHAP_H_
