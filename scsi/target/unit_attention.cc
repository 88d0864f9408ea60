#include "scsi/target/unit_attention.h"

#include <algorithm>
#include <cassert>

namespace skiff::scsi {
namespace {

// SAM-5 table 48: lower goes first.
int Precedence(AdditionalSense code) {
  switch (code) {
    case AdditionalSense::kPowerOnResetOrBusDeviceReset:
    case AdditionalSense::kPowerOn:
      return 0;
    case AdditionalSense::kScsiBusReset:
      return 1;
    case AdditionalSense::kBusDeviceResetFunctionOccurred:
      return 2;
    case AdditionalSense::kITNexusLoss:
      return 3;
    case AdditionalSense::kCommandsClearedByAnotherInitiator:
      return 4;
    default:
      return 5;
  }
}

// From here down, conditions that a reset includes.
constexpr int kLastImpliedByReset = 4;

}  // namespace

void UnitAttentions::RemoveAt(size_t index) {
  std::copy(codes_.begin() + index + 1, codes_.begin() + count_,
            codes_.begin() + index);
  --count_;
}

void UnitAttentions::Establish(AdditionalSense code) {
  const int precedence = Precedence(code);
  for (size_t i = 0; i < count_;) {
    const int other = Precedence(codes_[i]);
    if (codes_[i] == code) return;
    if (precedence <= kLastImpliedByReset && other <= precedence) return;
    if (precedence < other && other <= kLastImpliedByReset) {
      RemoveAt(i);
    } else {
      ++i;
    }
  }
  size_t at = count_;
  while (at > 0 && Precedence(codes_[at - 1]) > precedence) --at;
  if (count_ == kMax) {
    if (at == kMax) return;
    --count_;
  }
  std::copy_backward(codes_.begin() + at, codes_.begin() + count_,
                     codes_.begin() + count_ + 1);
  codes_[at] = code;
  ++count_;
}

AdditionalSense UnitAttentions::Take() {
  assert(count_ > 0);
  const AdditionalSense code = codes_[0];
  RemoveAt(0);
  return code;
}

void UnitAttentions::Clear(AdditionalSense code) {
  for (size_t i = 0; i < count_; ++i) {
    if (codes_[i] == code) return RemoveAt(i);
  }
}

std::vector<uint16_t> UnitAttentions::Codes() const {
  std::vector<uint16_t> codes;
  for (size_t i = 0; i < count_; ++i) {
    codes.push_back(static_cast<uint16_t>(codes_[i]));
  }
  return codes;
}

}  // namespace skiff::scsi
