#ifndef SKIFF_TOOLS_MANAGEMENT_RPC_BYTES_H_
#define SKIFF_TOOLS_MANAGEMENT_RPC_BYTES_H_

#include <grpcpp/support/byte_buffer.h>

#include <string>
#include <vector>

namespace skiff::tools {

// What gRPC received, in one piece. Empty where that fails.
inline std::string StringOf(const grpc::ByteBuffer& bytes) {
  std::vector<grpc::Slice> slices;
  std::string all;
  if (!bytes.Dump(&slices).ok()) return all;
  for (const grpc::Slice& slice : slices) {
    all.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return all;
}

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_MANAGEMENT_RPC_BYTES_H_
