#include <benchmark/benchmark.h>

#include <string>
#include <utility>
#include <vector>

#include "protocol/codec/text.h"
#include "protocol/negotiation/keys.h"
#include "protocol/negotiation/login_test_util.h"
#include "protocol/negotiation/negotiator.h"

// The login without its network: how many a second one core could do.

namespace skiff::protocol {
namespace {

std::string Proposals() {
  Negotiator::Options options;
  options.role = Role::kInitiator;
  Negotiator initiator(options, Offer());
  std::vector<KeyValue> keys;
  initiator.ProposeAll(&keys);
  TextWriter writer;
  for (const KeyValue& key : keys) writer.Add(key.first, key.second);
  bool more = false;
  return writer.Next(8192, &more);
}

void BmParseText(benchmark::State& state) {
  const std::string text = Proposals();
  std::vector<TextPair> pairs;
  for (auto _ : state) {
    benchmark::DoNotOptimize(ParseText(text, &pairs).ok());
  }
  state.SetItemsProcessed(state.iterations() *
                          static_cast<int64_t>(pairs.size()));
}
BENCHMARK(BmParseText);

void BmFindKey(benchmark::State& state) {
  for (auto _ : state) {
    for (const KeySpec& key : AllKeys()) {
      benchmark::DoNotOptimize(FindKey(key.name));
    }
  }
  state.SetItemsProcessed(state.iterations() *
                          static_cast<int64_t>(AllKeys().size()));
}
BENCHMARK(BmFindKey);

void BmNegotiate(benchmark::State& state) {
  const std::string text = Proposals();
  std::vector<TextPair> pairs;
  if (!ParseText(text, &pairs).ok()) state.SkipWithError("bad text");
  std::vector<KeyValue> answers;
  for (auto _ : state) {
    Negotiator target({}, Offer());
    answers.clear();
    if (!target.OnKeys(kInOperational, pairs, &answers).ok()) {
      state.SkipWithError("the negotiation failed");
    }
    benchmark::DoNotOptimize(answers);
  }
}
BENCHMARK(BmNegotiate);

// Both sides of a login, the PDUs through the codec.
void RunLogins(benchmark::State& state, const InitiatorLoginOptions& options,
               std::vector<std::string> methods) {
  FakePolicy policy;
  policy.auth_methods = std::move(methods);
  for (auto _ : state) {
    Login login(&policy, options);
    login.Run();
    if (!login.Succeeded()) state.SkipWithError("the login failed");
  }
  state.SetItemsProcessed(state.iterations());
}

void BmLogin(benchmark::State& state) {
  RunLogins(state, DefaultOptions(), {"None"});
}
BENCHMARK(BmLogin);

void BmLoginWithAuthentication(benchmark::State& state) {
  InitiatorLoginOptions options = DefaultOptions();
  UseAuth({"Fake"}, "secret", true, &options);
  RunLogins(state, options, {"Fake"});
}
BENCHMARK(BmLoginWithAuthentication);

void BmDiscoveryLogin(benchmark::State& state) {
  InitiatorLoginOptions options = DefaultOptions();
  options.identity.session_type = SessionType::kDiscovery;
  options.identity.target_name.clear();
  RunLogins(state, options, {"None"});
}
BENCHMARK(BmDiscoveryLogin);

}  // namespace
}  // namespace skiff::protocol
