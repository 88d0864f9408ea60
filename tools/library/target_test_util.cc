#include "tools/library/target_test_util.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace skiff::library {

TestStore::TestStore(Mode mode, uint64_t size_bytes)
    : mode_(mode), bytes_(size_bytes, '\0'), thread_([this] { Work(); }) {}

TestStore::~TestStore() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

skiff_backend_ops TestStore::Ops() {
  skiff_backend_ops ops;
  SKIFF_INIT(ops);
  ops.submit = [](void* user, const skiff_request* request) {
    static_cast<TestStore*>(user)->Submit(request);
  };
  ops.cancel = [](void* user, const skiff_request* request) {
    return static_cast<TestStore*>(user)->Cancel(request) ? 1 : 0;
  };
  ops.unused = [](void* user) { ++static_cast<TestStore*>(user)->unused_; };
  return ops;
}

skiff_backend_options TestStore::Options() {
  skiff_backend_options options;
  SKIFF_INIT(options);
  options.size_bytes = bytes_.size();
  options.flags = SKIFF_BACKEND_WRITE_CACHE | SKIFF_BACKEND_THIN;
  options.description = "a store of the test's";
  options.user = this;
  return options;
}

void TestStore::Create(skiff_context* context) {
  const skiff_backend_ops ops = Ops();
  const skiff_backend_options options = Options();
  ASSERT_EQ(skiff_backend_create(context, &ops, &options, &backend), 0)
      << skiff_last_error();
}

size_t TestStore::held() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return waiting_.size();
}

void TestStore::Submit(const skiff_request* request) {
  if (mode_ == Mode::kInside) {
    EXPECT_EQ(skiff_backend_complete(backend, request->id, Execute(*request)),
              0)
        << skiff_last_error();
    return;
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    waiting_.push_back(request);
  }
  changed_.notify_one();
}

bool TestStore::Cancel(const skiff_request* request) {
  ++cancels_;
  if (!can_cancel) return false;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto it = waiting_.begin(); it != waiting_.end(); ++it) {
    if (*it != request) continue;
    waiting_.erase(it);
    return true;
  }
  return false;
}

int TestStore::Execute(const skiff_request& request) {
  if (error != 0) return error;
  char* at = bytes_.data() + request.offset;
  EXPECT_LE(request.offset + request.length, bytes_.size());
  uint64_t moved = 0;
  switch (request.op) {
    case SKIFF_REQUEST_READ:
    case SKIFF_REQUEST_WRITE:
      for (uint32_t i = 0; i < request.iov_count; ++i) {
        const iovec& piece = request.iov[i];
        const bool read = request.op == SKIFF_REQUEST_READ;
        std::memcpy(read ? piece.iov_base : at + moved,
                    read ? at + moved : piece.iov_base, piece.iov_len);
        moved += piece.iov_len;
      }
      EXPECT_EQ(moved, request.length);
      return 0;
    case SKIFF_REQUEST_FLUSH:
      ++flushes_;
      return 0;
    case SKIFF_REQUEST_UNMAP:
      std::memset(at, 0, request.length);
      return 0;
    default:
      return -EOPNOTSUPP;
  }
}

size_t TestStore::Release() {
  std::deque<const skiff_request*> taken;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    taken.swap(waiting_);
  }
  std::vector<skiff_completion> completions;
  for (const skiff_request* request : taken) {
    completions.push_back({request->id, Execute(*request), 0, 0});
  }
  size_t done = 0;
  if (!completions.empty()) {
    EXPECT_EQ(skiff_backend_complete_many(backend, completions.data(),
                                          completions.size(), &done),
              0)
        << skiff_last_error();
  }
  return done;
}

void TestStore::Work() {
  for (;;) {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] {
        return ending_ || (mode_ == Mode::kThread && !waiting_.empty());
      });
      if (ending_) return;
    }
    Release();
  }
}

TestServer::TestServer(uint32_t threads, const skiff_server_options* options,
                       uint32_t flags)
    : test(threads, flags), threads_(threads) {
  EXPECT_EQ(skiff_target_create(context, kName, nullptr, &target), 0)
      << skiff_last_error();
  EXPECT_EQ(skiff_server_create(context, options, &server), 0)
      << skiff_last_error();
  EXPECT_EQ(skiff_server_add_target(server, target, "a target"), 0)
      << skiff_last_error();
  char bound[100] = "";
  EXPECT_EQ(
      skiff_server_listen(server, "tcp://127.0.0.1:0", bound, sizeof(bound)), 0)
      << skiff_last_error();
  portal = bound;
}

TestServer::~TestServer() { Close(); }

void TestServer::Close() {
  if (server != nullptr) {
    EXPECT_EQ(skiff_server_close(server, 0, nullptr, nullptr), 0)
        << skiff_last_error();
    server = nullptr;
  }
  if (target != nullptr) {
    EXPECT_EQ(skiff_target_close(target), 0) << skiff_last_error();
    target = nullptr;
  }
}

void TestServer::Turn() const {
  if (threads_ == 0) {
    EXPECT_GE(skiff_context_poll(context), 0) << skiff_last_error();
  }
}

std::unique_ptr<TestDisk> TestServer::Disk(uint64_t lun,
                                           const std::string& initiator) {
  return std::make_unique<TestDisk>(
      portal, kName, lun, [this] { Turn(); }, initiator);
}

void TestServer::AddLun(uint64_t lun, skiff_backend* backend) {
  EXPECT_EQ(skiff_target_add_lun(target, lun, backend, nullptr), 0)
      << skiff_last_error();
}

int TestServer::Lines(const std::string& text) {
  const std::vector<std::string> log = test.log();
  return static_cast<int>(
      std::count_if(log.begin(), log.end(), [&](const std::string& line) {
        return line.find(text) != std::string::npos;
      }));
}

}  // namespace skiff::library
