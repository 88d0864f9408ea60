#include "transport/libfabric/fabric/libfabric_library.h"

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <mutex>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "transport/system/system_library.h"

namespace skiff::transport {
namespace {

// fi_info has other members from there on, and these functions other versions.
static_assert(FI_MAJOR_VERSION == 1 && FI_MINOR_VERSION < 20,
              "look up in libfabric.map which versions of its functions these "
              "headers are about");

// Much of what the headers have are inline functions that call a provider.
// These are the others.
#define SKIFF_LIBFABRIC(X)                                               \
  X(fi_info*, fi_dupinfo, "FABRIC_1.3", (const fi_info* info), (info))   \
  X(int, fi_fabric, "FABRIC_1.1",                                        \
    (fi_fabric_attr * attr, fid_fabric * *fabric, void* context),        \
    (attr, fabric, context))                                             \
  X(void, fi_freeinfo, "FABRIC_1.3", (fi_info * info), (info))           \
  X(const char*, fi_strerror, "FABRIC_1.0", (int errnum), (errnum))      \
  X(char*, fi_tostr, "FABRIC_1.0", (const void* data, fi_type datatype), \
    (data, datatype))

// Where it is called first, providers are looked for and initialized.
#define SKIFF_FI_GETINFO(X)                                                   \
  X(int, fi_getinfo, "FABRIC_1.3",                                            \
    (uint32_t version, const char* node, const char* service, uint64_t flags, \
     const fi_info* hints, fi_info** info),                                   \
    (version, node, service, flags, hints, info))

SKIFF_LIBFABRIC(SKIFF_LIBRARY_POINTER)
SKIFF_FI_GETINFO(SKIFF_LIBRARY_POINTER)

const SystemLibrary::Function kFunctions[] = {SKIFF_LIBFABRIC(
    SKIFF_LIBRARY_FUNCTION) SKIFF_FI_GETINFO(SKIFF_LIBRARY_FUNCTION)};

constinit SystemLibrary libfabric("libfabric.so.1", "libfabric1", kFunctions);
std::once_flag first_getinfo;

// FabricDomain::CheckNoCache says why. libfabric knows no other way to be told.
// There may be threads that read the environment, so it is not changed, as
// setenv(3) would: it gets a new block, and the old one stays as it is.
void TurnOffRegistrationCache() {
  constexpr char kSetting[] = "FI_MR_CACHE_MAX_COUNT=0";
  constexpr absl::string_view kName = "FI_MR_CACHE_MAX_COUNT=";
  size_t count = 0;
  while (environ != nullptr && environ[count] != nullptr) ++count;
  // Never freed: others may keep pointers into them. Nor are they of this
  // library, as the environment is still read when it has been unloaded.
  char* const setting = new char[sizeof(kSetting)];
  std::memcpy(setting, kSetting, sizeof(kSetting));
  char** const block = new char*[count + 2];
  size_t size = 0;
  for (size_t i = 0; i < count; ++i) {
    if (!absl::StartsWith(environ[i], kName)) block[size++] = environ[i];
  }
  block[size++] = setting;
  block[size] = nullptr;
  environ = block;
}

}  // namespace

absl::Status LoadLibfabric() {
  static std::once_flag once;
  std::call_once(once, TurnOffRegistrationCache);
  return libfabric.Load();
}

#define SKIFF_LIBFABRIC_FORWARDER(result, name, version, parameters, \
                                  arguments)                         \
  SKIFF_LIBRARY_FORWARDER(libfabric, result, name, parameters, arguments)

SKIFF_LIBFABRIC(SKIFF_LIBFABRIC_FORWARDER)

// Providers take signals to themselves, too.
extern "C" __attribute__((visibility("hidden"))) int fi_getinfo(
    uint32_t version, const char* node, const char* service, uint64_t flags,
    const fi_info* hints, fi_info** info) {
  LoadLibfabric().IgnoreError();  // Before it looks at the environment.
  libfabric.Require();
  int result = -FI_ENODATA;
  bool called = false;
  std::call_once(first_getinfo, [&] {
    const KeptSignals kept;
    result = real_fi_getinfo(version, node, service, flags, hints, info);
    called = true;
  });
  return called ? result
                : real_fi_getinfo(version, node, service, flags, hints, info);
}

}  // namespace skiff::transport
