#ifndef SKIFF_TOOLS_LIBRARY_INITIATOR_TEST_UTIL_H_
#define SKIFF_TOOLS_LIBRARY_INITIATOR_TEST_UTIL_H_

#include <skiff/common.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "protocol/target/target_server.h"
#include "scsi/backend/backend.h"
#include "scsi/target/target.h"
#include "transport/reactor/reactor_threads.h"
#include "transport/registry.h"

namespace skiff::library {

// A target with two disks in memory, on a thread of its own, over TCP.
class RamTarget {
 public:
  static constexpr char kName[] = "iqn.2026-11.org.example:ram";
  static constexpr uint64_t kBytes = 4 << 20;

  RamTarget();
  ~RamTarget();
  RamTarget(const RamTarget&) = delete;
  RamTarget& operator=(const RamTarget&) = delete;

  // "iscsi://127.0.0.1:PORT".
  const std::string& portal() const { return portal_; }
  std::string Url(int lun = 0) const;
  // Drops all sessions, and takes no more.
  void Stop();
  // LUN 0 has another size from now on.
  void Resize(uint64_t bytes);

 private:
  class Resizable;

  transport::Registry registry_;
  std::unique_ptr<transport::ReactorThreads> threads_;
  std::shared_ptr<Resizable> disk_;
  std::shared_ptr<scsi::Target> target_;
  std::unique_ptr<protocol::TargetServer> server_;
  std::string portal_;
};

// A context, driven by the test's thread or with threads. Closes in the end.
class TestContext {
 public:
  // `flags`: SKIFF_CONTEXT_*.
  explicit TestContext(uint32_t threads, uint32_t flags = 0);
  ~TestContext();
  TestContext(const TestContext&) = delete;
  TestContext& operator=(const TestContext&) = delete;

  skiff_context* get() const { return context_; }
  // Lines of the log so far.
  std::vector<std::string> log();
  // Drives the context, or waits, until `reached` is true. False: it did not
  // become so in time.
  bool Await(const std::function<bool()>& reached) const;
  // Runs `fn` in a callback.
  void InCallback(const std::function<void()>& fn) const;

 private:
  static void Log(void* user, int level, const char* message);

  const uint32_t threads_;
  skiff_context* context_ = nullptr;
  std::mutex mutex_;
  std::vector<std::string> log_;
};

// How something ends.
class Outcome {
 public:
  // For skiff_done_fn, with this as the user.
  static void Done(void* user, int result, const char* message);

  int times() const;
  int result() const;
  std::string message() const;
  // What runs in it, once.
  std::function<void()> then;

 private:
  mutable std::mutex mutex_;
  int times_ = 0;
  int result_ = 0;
  std::string message_;
};

}  // namespace skiff::library

#endif  // SKIFF_TOOLS_LIBRARY_INITIATOR_TEST_UTIL_H_
