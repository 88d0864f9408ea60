#ifndef SKIFF_TOOLS_LIBRARY_TARGET_TEST_UTIL_H_
#define SKIFF_TOOLS_LIBRARY_TARGET_TEST_UTIL_H_

#include <skiff/skiff.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "tools/library/disk_test_util.h"
#include "tools/library/initiator_test_util.h"

namespace skiff::library {

// Storage of a program's own: memory, behind callbacks.
class TestStore {
 public:
  // When requests end.
  enum class Mode : uint8_t {
    kInside,  // In submit().
    kThread,  // By a thread of the store's, all that are there at once.
    kHeld,    // When the test says.
  };

  TestStore(Mode mode, uint64_t size_bytes);
  TestStore(const TestStore&) = delete;
  TestStore& operator=(const TestStore&) = delete;
  ~TestStore();

  // With the size, and the callbacks.
  static skiff_backend_ops Ops();
  skiff_backend_options Options();
  // Makes its backend.
  void Create(skiff_context* context);

  skiff_backend* backend = nullptr;
  // Before requests come.
  bool can_cancel = false;
  std::atomic<int> error = 0;  // What all requests end with.

  size_t held();
  // Ends what is held; returns how many.
  size_t Release();
  int cancels() const { return cancels_; }
  int flushes() const { return flushes_; }
  int unused() const { return unused_; }

 private:
  void Submit(const skiff_request* request);
  bool Cancel(const skiff_request* request);
  // What the request ends with.
  int Execute(const skiff_request& request);
  void Work();

  const Mode mode_;
  std::string bytes_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<const skiff_request*> waiting_;  // Under `mutex_`.
  bool ending_ = false;                       // Under `mutex_`.
  std::atomic<int> cancels_ = 0;
  std::atomic<int> flushes_ = 0;
  std::atomic<int> unused_ = 0;
  std::thread thread_;  // The last: it uses the others.
};

// A context, with a server that has a portal and a target without LUNs.
class TestServer {
 public:
  // `threads` 0: the test's thread turns the context. `options` may be null.
  // `flags`: the context's.
  explicit TestServer(uint32_t threads,
                      const skiff_server_options* options = nullptr,
                      uint32_t flags = 0);
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;
  // Closes what is left.
  ~TestServer();

  static constexpr char kName[] = "iqn.2026-11.org.example:c";

  TestContext test;
  skiff_context* const context = test.get();
  skiff_target* target = nullptr;
  skiff_server* server = nullptr;
  std::string portal;

  std::unique_ptr<TestDisk> Disk(
      uint64_t lun = 0,
      const std::string& initiator = "iqn.2026-11.org.example:tester");
  // A turn of the context, if the test's thread drives it.
  void Turn() const;
  // False: not in time.
  bool Await(const std::function<bool()>& reached) const {
    return test.Await(reached);
  }
  // Until it ended.
  bool Await(const Outcome& outcome) const {
    return test.Await([&outcome] { return outcome.times() > 0; });
  }
  void AddLun(uint64_t lun, skiff_backend* backend);
  // Lines of the log that have `text` in them.
  int Lines(const std::string& text);
  // Ends the server and the target.
  void Close();

 private:
  const uint32_t threads_;
};

}  // namespace skiff::library

#endif  // SKIFF_TOOLS_LIBRARY_TARGET_TEST_UTIL_H_
