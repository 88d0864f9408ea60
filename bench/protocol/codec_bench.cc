#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "protocol/codec/digest.h"
#include "protocol/codec/pdu.h"

// What a PDU costs between struct and wire, and what its digests cost.

namespace skiff::protocol {
namespace {

template <typename Pdu>
Pdu Valid() {
  return Pdu();
}
template <>
R2tPdu Valid() {
  R2tPdu pdu;
  pdu.target_transfer_tag = 1;
  pdu.desired_data_transfer_length = 65536;
  return pdu;
}
template <>
NopOutPdu Valid() {
  NopOutPdu pdu;
  pdu.immediate = true;
  return pdu;
}

template <typename Pdu>
void BmEncode(benchmark::State& state) {
  Pdu pdu = Valid<Pdu>();
  Bhs bhs;
  for (auto _ : state) {
    benchmark::DoNotOptimize(pdu);
    Encode(pdu, bhs.data());
    benchmark::DoNotOptimize(bhs);
  }
}

template <typename Pdu>
void BmDecode(benchmark::State& state) {
  Bhs bhs;
  Encode(Valid<Pdu>(), bhs.data());
  Pdu pdu;
  for (auto _ : state) {
    benchmark::DoNotOptimize(bhs);
    const DecodeResult result = Decode(bhs.data(), &pdu);
    if (!result.ok()) state.SkipWithError(result.field);
    benchmark::DoNotOptimize(pdu);
  }
}

#define SKIFF_BENCH_PDU(Pdu)         \
  BENCHMARK_TEMPLATE(BmEncode, Pdu); \
  BENCHMARK_TEMPLATE(BmDecode, Pdu)
SKIFF_BENCH_PDU(ScsiCommandPdu);
SKIFF_BENCH_PDU(ScsiResponsePdu);
SKIFF_BENCH_PDU(TaskManagementRequestPdu);
SKIFF_BENCH_PDU(TaskManagementResponsePdu);
SKIFF_BENCH_PDU(ScsiDataOutPdu);
SKIFF_BENCH_PDU(ScsiDataInPdu);
SKIFF_BENCH_PDU(R2tPdu);
SKIFF_BENCH_PDU(AsyncMessagePdu);
SKIFF_BENCH_PDU(TextRequestPdu);
SKIFF_BENCH_PDU(TextResponsePdu);
SKIFF_BENCH_PDU(LoginRequestPdu);
SKIFF_BENCH_PDU(LoginResponsePdu);
SKIFF_BENCH_PDU(LogoutRequestPdu);
SKIFF_BENCH_PDU(LogoutResponsePdu);
SKIFF_BENCH_PDU(SnackRequestPdu);
SKIFF_BENCH_PDU(RejectPdu);
SKIFF_BENCH_PDU(NopOutPdu);
SKIFF_BENCH_PDU(NopInPdu);

void BmDigest(benchmark::State& state) {
  const std::vector<uint8_t> data(static_cast<size_t>(state.range(0)), 0x5a);
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        FinishDigest(ExtendDigest(kDigestInit, data.data(), data.size())));
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BmDigest)
    ->Arg(48)
    ->Arg(512)
    ->Arg(4096)
    ->Arg(8192)
    ->Arg(65536)
    ->Arg(262144)
    ->Arg(1 << 20);

void BmDecodeAhs(benchmark::State& state) {
  const std::vector<uint8_t> cdb(16, 0x7f);
  AhsView view;
  view.extended_cdb = cdb;
  view.has_bidi_read_length = true;
  std::vector<uint8_t> ahs(kMaxAhsBytes);
  ahs.resize(EncodeAhs(view, ahs.data()));
  for (auto _ : state) {
    benchmark::DoNotOptimize(DecodeAhs(ahs, &view).ok());
  }
}
BENCHMARK(BmDecodeAhs);

}  // namespace
}  // namespace skiff::protocol
