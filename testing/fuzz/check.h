#ifndef SKIFF_TESTING_FUZZ_CHECK_H_
#define SKIFF_TESTING_FUZZ_CHECK_H_

#include <cstdio>
#include <cstdlib>

// A property that every input must keep, checked in every build mode.
#define SKIFF_FUZZ_CHECK(condition)                                     \
  do {                                                                  \
    if (!(condition)) {                                                 \
      std::fprintf(stderr, "%s:%d: not kept: %s\n", __FILE__, __LINE__, \
                   #condition);                                         \
      std::abort();                                                     \
    }                                                                   \
  } while (false)

#endif  // SKIFF_TESTING_FUZZ_CHECK_H_
