#ifndef SKIFF_TRANSPORT_AUTO_CANDIDATES_H_
#define SKIFF_TRANSPORT_AUTO_CANDIDATES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "transport/address.h"
#include "transport/auto/auto_options.h"
#include "transport/auto/choice_report.h"
#include "transport/auto/device_survey.h"
#include "transport/transport.h"

namespace skiff::transport {

// Kinds of transports, the better one first.
enum class TransportGrade : uint8_t { kRdma, kEmulatedRdma, kByteStream };

// One way to reach a peer: a transport, and the options that select devices of
// one kind of it.
struct Candidate {
  Transport* transport = nullptr;
  Address address;
  TransportGrade grade = TransportGrade::kByteStream;
  size_t entry = 0;  // Of the report.
};

// Ranks what can be used for `address`: by grade, then in the order of
// `machine`. Fills `report->entries`: those of the candidates first, then what
// is skipped and why.
std::vector<Candidate> RankCandidates(const MachineDevices& machine,
                                      const Address& address,
                                      const AutoOptions& options,
                                      ChoiceReport* report);

// Why nothing succeeded, for the caller, with the code of the best candidate's
// failure. `failure` is that, or OK if nothing could be tried.
absl::Status NothingSucceeded(const ChoiceReport& report,
                              const absl::Status& failure);

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_AUTO_CANDIDATES_H_
