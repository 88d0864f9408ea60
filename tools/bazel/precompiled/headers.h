// What many of the repository's files include: of the standard library, Abseil
// and GoogleTest only, as those do not change while a run lasts. gcc compiles
// no tests with it, and loses with GoogleTest what it gains by the others.

#ifndef SKIFF_TOOLS_BAZEL_PRECOMPILED_HEADERS_H_
#define SKIFF_TOOLS_BAZEL_PRECOMPILED_HEADERS_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#ifdef __clang__
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#endif

#endif  // SKIFF_TOOLS_BAZEL_PRECOMPILED_HEADERS_H_
