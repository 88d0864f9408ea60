#include "transport/annotate.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace skiff::transport {

absl::Status Annotate(const absl::Status& why, absl::string_view where) {
  absl::Status out(why.code(), absl::StrCat(where, ": ", why.message()));
  why.ForEachPayload([&](absl::string_view name, const absl::Cord& payload) {
    out.SetPayload(name, payload);
  });
  return out;
}

}  // namespace skiff::transport
