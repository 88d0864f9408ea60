#ifndef SKIFF_TRANSPORT_VERBS_OPEN_DOMAINS_H_
#define SKIFF_TRANSPORT_VERBS_OPEN_DOMAINS_H_

#include <infiniband/verbs.h>

#include <memory>

#include "absl/status/statusor.h"
#include "transport/verbs/verbs_domain.h"

namespace skiff::transport {

// The process' domains, one for each device. Thread-safe.

// The domain of the device, opened if need be. Not of another one that has the
// same name, as one that came back has: where `device` is not the one that is
// there, it was removed.
absl::StatusOr<std::shared_ptr<VerbsDomain>> DomainOf(ibv_device* device);

// As VerbsDomain::SetRemoved(), for whoever has no domain: of the device, if
// the process uses it.
void SetDomainRemoved(ibv_device* device);

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_VERBS_OPEN_DOMAINS_H_
