// An Abseil of the host's own, linked into plain.c: each of these functions
// ends the program, so that nothing of the library may come here.
// ABSEIL_VERSION is the inline namespace by which builds of Abseil differ;
// debian3 is Debian's.

#include <cstdlib>
#include <string>

#ifndef ABSEIL_VERSION
#define ABSEIL_VERSION lts_20240116
#endif

namespace absl {
inline namespace ABSEIL_VERSION {

class AlphaNum;
std::string StrCat(const AlphaNum& left, const AlphaNum& right);
std::string StrCat(const AlphaNum& /*left*/, const AlphaNum& /*right*/) {
  abort();
}

enum class StatusToStringMode : int;
class Status {
 public:
  static std::string EmptyString();
  std::string ToStringSlow(StatusToStringMode mode) const;
};
std::string Status::EmptyString() { abort(); }
std::string Status::ToStringSlow(StatusToStringMode /*mode*/) const { abort(); }

namespace base_internal {
int GetTID();
int GetTID() { abort(); }
}  // namespace base_internal

}  // namespace ABSEIL_VERSION
}  // namespace absl
