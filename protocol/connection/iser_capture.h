#ifndef SKIFF_PROTOCOL_CONNECTION_ISER_CAPTURE_H_
#define SKIFF_PROTOCOL_CONNECTION_ISER_CAPTURE_H_

#include <memory>
#include <string>

#include "protocol/datamover/iser/iser_trace.h"
#include "transport/trace/pcapng.h"

namespace skiff::protocol {

// Captures an iSER connection as if its PDUs had gone over TCP, between the
// addresses that its endpoint has. Where these are no numbers, as those of
// simulated networks, addresses for documentation (RFC 5737) stand for them.
std::unique_ptr<IserTrace> MakeIserCapture(const std::string& local,
                                           const std::string& peer,
                                           transport::CaptureSink sink);

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_CONNECTION_ISER_CAPTURE_H_
