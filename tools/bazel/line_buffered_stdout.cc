// Linked into every GoogleTest binary: a test that crashes or hangs leaves the
// name of the test case in its log, which a full buffer would take with it.

#include <cstdio>

namespace {

const int kLineBuffered = std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);

}  // namespace
