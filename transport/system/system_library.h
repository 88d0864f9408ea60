#ifndef SKIFF_TRANSPORT_SYSTEM_SYSTEM_LIBRARY_H_
#define SKIFF_TRANSPORT_SYSTEM_SYSTEM_LIBRARY_H_

#include <signal.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace skiff::transport {

// The dispositions of all signals, which the destructor puts back where
// something else changed them meanwhile. For calls of code that takes signals
// to itself, as constructors of libpsm2 and libpsm_infinipath do.
class KeptSignals {
 public:
  KeptSignals();
  KeptSignals(const KeptSignals&) = delete;
  KeptSignals& operator=(const KeptSignals&) = delete;
  ~KeptSignals();

 private:
  struct Disposition {
    struct sigaction action = {};
    bool known = false;
  };
  std::array<Disposition, _NSIG> dispositions_;
};

// A shared library of the system that is loaded by whoever needs it first, so
// that it costs nothing, and need not be there, where nobody does. Its
// functions are called by their own names: for each there is a forwarder
// (SKIFF_LIBRARY_FORWARDER) in the program, which is bound when the library is
// loaded. Never unloaded. Thread-safe.
class SystemLibrary {
 public:
  struct Function {
    const char* name;
    const char* version;  // Of the symbol, which the headers are about.
    void** address;       // Where the forwarder finds it.
  };

  // `file` is what the dynamic linker looks for, `package` what Debian has it
  // in. All of it must outlive the library.
  constexpr SystemLibrary(const char* file, const char* package,
                          absl::Span<const Function> functions)
      : file_(file), package_(package), functions_(functions) {}

  // Loads it, when called first, which may take long (libfabric: 0.2 s), and
  // leaves the dispositions of signals as they are. Unimplemented where it is
  // missing, too old or broken; the message says what to install.
  absl::Status Load();

  // For forwarders. Whoever has not asked Load() and is refused ends here.
  void Require() {
    if (!loaded_.load(std::memory_order_acquire)) LoadOrDie();
  }

 private:
  absl::Status Bind();
  void LoadOrDie();

  const char* const file_;
  const char* const package_;
  const absl::Span<const Function> functions_;
  std::once_flag once_;
  // Set once, and never freed: there may be threads when the process ends.
  const absl::Status* status_ = nullptr;
  std::atomic<bool> loaded_{false};
};

}  // namespace skiff::transport

// For lists of functions, of which each is
//   X(result, name, "VERSION", (type parameter, ...), (parameter, ...))
// The names may be those of function-like macros, too, hence the parentheses.
// A type or a list of parameters cannot have any.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define SKIFF_LIBRARY_POINTER(result, name, version, parameters, arguments) \
  result(*real_##name) parameters = nullptr;
#define SKIFF_LIBRARY_FUNCTION(result, name, version, parameters, arguments) \
  {#name, version, reinterpret_cast<void**>(&real_##name)},
// Hidden, so that other libraries never find it in place of the real one.
#define SKIFF_LIBRARY_FORWARDER(library, result, name, parameters, arguments) \
  extern "C" __attribute__((visibility("hidden"))) result(name) parameters {  \
    (library).Require();                                                      \
    return real_##name arguments;                                             \
  }
// NOLINTEND(bugprone-macro-parentheses)

#endif  // SKIFF_TRANSPORT_SYSTEM_SYSTEM_LIBRARY_H_
