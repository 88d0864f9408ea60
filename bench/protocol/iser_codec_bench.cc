// What iSER adds to an iSCSI PDU between struct and wire, and what comes before
// the first one.

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "protocol/codec/iser_cm_private_data.h"
#include "protocol/codec/iser_header.h"
#include "protocol/codec/pdu.h"

namespace skiff::protocol {
namespace {

IserControlHeader BothBuffers() {
  IserControlHeader header;
  header.write_stag_valid = header.read_stag_valid = true;
  header.write_stag = 0x11223344;
  header.write_base_offset = 0x7f0011223344;
  header.read_stag = 0x55667788;
  header.read_base_offset = 0x7f0055667788;
  return header;
}

template <typename Header>
Header Valid() {
  return Header();
}
template <>
IserControlHeader Valid() {
  return BothBuffers();
}

template <typename Header>
void BmEncode(benchmark::State& state) {
  Header header = Valid<Header>();
  IserHeaderBytes bytes;
  for (auto _ : state) {
    benchmark::DoNotOptimize(header);
    Encode(header, bytes.data());
    benchmark::DoNotOptimize(bytes);
  }
}
BENCHMARK_TEMPLATE(BmEncode, IserControlHeader);
BENCHMARK_TEMPLATE(BmEncode, IserHello);
BENCHMARK_TEMPLATE(BmEncode, IserHelloReply);

void DecodeAgainAndAgain(benchmark::State& state, std::vector<uint8_t> bytes) {
  IserMessage message;
  for (auto _ : state) {
    benchmark::DoNotOptimize(bytes.data());
    benchmark::ClobberMemory();
    const IserDecodeResult result = DecodeIserMessage(bytes, &message);
    if (!result.ok()) state.SkipWithError(result.problem);
    benchmark::DoNotOptimize(message);
  }
}

// Of a header that is the whole message.
template <typename Header>
void BmDecode(benchmark::State& state) {
  std::vector<uint8_t> bytes(kIserHeaderSize);
  Encode(Header(), bytes.data());
  DecodeAgainAndAgain(state, std::move(bytes));
}
BENCHMARK_TEMPLATE(BmDecode, IserHello);
BENCHMARK_TEMPLATE(BmDecode, IserHelloReply);

// Of a SCSI Command with so many bytes of immediate data; the BHS is not looked
// into.
void BmDecodeCommand(benchmark::State& state) {
  const auto data = static_cast<size_t>(state.range(0));
  std::vector<uint8_t> bytes(kIserControlSize + data);
  Encode(BothBuffers(), bytes.data());
  uint8_t* const bhs = bytes.data() + kIserHeaderSize;
  Encode(ScsiCommandPdu(), bhs);
  EncodeLengths(bhs, 0, static_cast<uint32_t>(data));
  DecodeAgainAndAgain(state, std::move(bytes));
}
BENCHMARK(BmDecodeCommand)->Arg(0)->Arg(4096);

void BmEncodeCmPrivateData(benchmark::State& state) {
  IserCmPrivateData data;
  data.send_with_invalidate = true;
  for (auto _ : state) {
    benchmark::DoNotOptimize(data);
    benchmark::DoNotOptimize(Encode(data));
  }
}
BENCHMARK(BmEncodeCmPrivateData);

void BmDecodeCmPrivateData(benchmark::State& state) {
  IserCmPrivateDataBytes bytes = Encode(IserCmPrivateData());
  for (auto _ : state) {
    benchmark::DoNotOptimize(bytes);
    const auto data = DecodeIserCmPrivateData(bytes);
    if (!data.ok()) state.SkipWithError("refused");
    benchmark::DoNotOptimize(data);
  }
}
BENCHMARK(BmDecodeCmPrivateData);

}  // namespace
}  // namespace skiff::protocol
