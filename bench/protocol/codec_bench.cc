// What a header costs: PDUs to bytes and back, and digests.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "protocol/codec/digest.h"
#include "protocol/codec/pdu.h"

namespace skiff::protocol {
namespace {

// Some value for each field that most PDUs of a kind have.
ScsiCommandPdu Sample(ScsiCommandPdu pdu) {
  pdu.read = true;
  pdu.initiator_task_tag = 17;
  pdu.expected_data_transfer_length = 4096;
  pdu.cmd_sn = 1000;
  pdu.cdb[0] = 0x28;  // READ(10), SBC-3 section 5.11.
  return pdu;
}
ScsiDataInPdu Sample(ScsiDataInPdu pdu) {
  pdu.initiator_task_tag = 17;
  return pdu;
}
R2tPdu Sample(R2tPdu pdu) {
  pdu.initiator_task_tag = 17;
  pdu.target_transfer_tag = 18;
  pdu.desired_data_transfer_length = 4096;
  return pdu;
}

template <typename Pdu>
void Encoding(benchmark::State& state) {
  const Pdu pdu = Sample(Pdu());
  uint8_t bhs[kBhsSize] = {};
  for (auto _ : state) {
    Encode(pdu, bhs);
    benchmark::DoNotOptimize(bhs);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()));
}

template <typename Pdu>
void Decoding(benchmark::State& state) {
  uint8_t bhs[kBhsSize] = {};
  Encode(Sample(Pdu()), bhs);
  Pdu pdu;
  for (auto _ : state) {
    benchmark::DoNotOptimize(bhs);
    benchmark::DoNotOptimize(Decode(bhs, &pdu));
    benchmark::DoNotOptimize(pdu);
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()));
}

void Digesting(benchmark::State& state) {
  const std::vector<char> data(static_cast<size_t>(state.range(0)), 'x');
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        ExtendDigest(kDigestInit, data.data(), data.size()));
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()));
  state.SetBytesProcessed(state.range(0) *
                          static_cast<int64_t>(state.iterations()));
}

BENCHMARK(Encoding<ScsiCommandPdu>)->Name("codec/Encode/ScsiCommand");
BENCHMARK(Decoding<ScsiCommandPdu>)->Name("codec/Decode/ScsiCommand");
BENCHMARK(Encoding<ScsiDataInPdu>)->Name("codec/Encode/ScsiDataIn");
BENCHMARK(Decoding<ScsiDataInPdu>)->Name("codec/Decode/ScsiDataIn");
BENCHMARK(Encoding<R2tPdu>)->Name("codec/Encode/R2t");
BENCHMARK(Decoding<R2tPdu>)->Name("codec/Decode/R2t");
BENCHMARK(Digesting)->Name("codec/Crc32c")->Arg(48)->Arg(4096)->Arg(65536);

}  // namespace
}  // namespace skiff::protocol
