#ifndef SKIFF_TESTING_TRANSPORT_CONFORMANCE_EXPECTED_CAPABILITIES_H_
#define SKIFF_TESTING_TRANSPORT_CONFORMANCE_EXPECTED_CAPABILITIES_H_

#include "absl/strings/string_view.h"
#include "testing/transport_conformance/transport_factory.h"

namespace skiff::testing {

// The table of what each transport is expected to have on each kind of device,
// by the name of its factory. Dies on a name that is not in it: whoever adds a
// transport writes down what it has.
ExpectedCapabilities ExpectedCapabilitiesOf(absl::string_view name);

}  // namespace skiff::testing

#endif  // SKIFF_TESTING_TRANSPORT_CONFORMANCE_EXPECTED_CAPABILITIES_H_
