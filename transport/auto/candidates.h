#ifndef SKIFF_TRANSPORT_AUTO_CANDIDATES_H_
#define SKIFF_TRANSPORT_AUTO_CANDIDATES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "transport/address.h"
#include "transport/auto/auto_options.h"
#include "transport/auto/choice_report.h"
#include "transport/backend.h"
#include "transport/registry.h"

namespace skiff::transport {

// The scheme of addresses that leave the choice to us.
inline constexpr char kAutoScheme[] = "auto";

// Kinds of transports, the better one first.
enum class TransportGrade : uint8_t { kRdma, kEmulatedRdma, kByteStream };

// One way to reach a peer: a backend, and the options that select devices of
// one kind of it.
struct Candidate {
  Backend* backend = nullptr;
  Address address;
  TransportGrade grade = TransportGrade::kByteStream;
  size_t entry = 0;  // Of the report.
};

// Looks at the machine, and ranks what can be used for `address`: by grade,
// then in the order of the registry and of the backends' own reports. Fills
// `report->entries`: those of the candidates first, then what is skipped and
// why.
std::vector<Candidate> RankCandidates(const Registry& registry,
                                      const Address& address,
                                      const AutoOptions& options,
                                      ChoiceReport* report);

// Why nothing succeeded, for the caller, with the code of the best candidate's
// failure. `failure` is that, or OK if nothing could be tried.
absl::Status NothingSucceeded(const ChoiceReport& report,
                              const absl::Status& failure);

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_AUTO_CANDIDATES_H_
