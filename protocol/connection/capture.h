#ifndef SKIFF_PROTOCOL_CONNECTION_CAPTURE_H_
#define SKIFF_PROTOCOL_CONNECTION_CAPTURE_H_

#include <memory>
#include <string>

#include "protocol/datamover/iser/iser_trace.h"
#include "transport/byte_stream.h"
#include "transport/trace/pcapng.h"

namespace skiff::protocol {

// What a connection carries, between the addresses that its endpoint has. Where
// these are no numbers, as those of simulated networks, addresses for
// documentation (RFC 5737) stand for them. It is copied, which costs time.

// `stream`, with everything that the calls of its user move given to `sink`.
std::unique_ptr<transport::ByteStream> Captured(
    std::unique_ptr<transport::ByteStream> stream, transport::CaptureSink sink);

// An iSER connection, as if its PDUs had gone over TCP.
std::unique_ptr<IserTrace> MakeIserCapture(const std::string& local,
                                           const std::string& peer,
                                           transport::CaptureSink sink);

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_CONNECTION_CAPTURE_H_
