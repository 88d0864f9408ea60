// The interface for C, as a program of others uses it.
#include <dlfcn.h>
#include <skiff/skiff.h>

#include <array>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "bench/compare/util.h"
#include "bench/library/disk_load.h"

namespace skiff::bench {
namespace {

// The functions that are used; of this program, if nothing else is loaded.
struct Functions {
  decltype(&skiff_context_create) context_create = skiff_context_create;
  decltype(&skiff_context_close) context_close = skiff_context_close;
  decltype(&skiff_context_poll) context_poll = skiff_context_poll;
  decltype(&skiff_disk_open) disk_open = skiff_disk_open;
  decltype(&skiff_disk_close) disk_close = skiff_disk_close;
  decltype(&skiff_disk_read) disk_read = skiff_disk_read;
  decltype(&skiff_disk_write) disk_write = skiff_disk_write;
  decltype(&skiff_last_error) last_error = skiff_last_error;
};

template <typename Function>
void Find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  if (*function == nullptr) Die(absl::StrCat("library_bench: no ", name));
}

Functions Load(const std::string& path) {
  Functions found;
  if (path.empty()) return found;
  // It stays: the program ends soon.
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) Die(absl::StrCat("library_bench: ", dlerror()));
  Find(library, "skiff_context_create", &found.context_create);
  Find(library, "skiff_context_close", &found.context_close);
  Find(library, "skiff_context_poll", &found.context_poll);
  Find(library, "skiff_disk_open", &found.disk_open);
  Find(library, "skiff_disk_close", &found.disk_close);
  Find(library, "skiff_disk_read", &found.disk_read);
  Find(library, "skiff_disk_write", &found.disk_write);
  Find(library, "skiff_last_error", &found.last_error);
  return found;
}

class LibraryLoad : public DiskLoad {
 public:
  LibraryLoad(const transport::Address& portal, const std::string& path)
      : skiff_(Load(path)) {
    skiff_context_options options;
    SKIFF_INIT(options);
    options.flags = SKIFF_CONTEXT_SPIN;
    Must(skiff_.context_create(&options, &context_));
    const std::string url =
        absl::StrCat("iscsi://", portal.HostPort(), "/", kTargetName, "/0");
    Must(skiff_.disk_open(context_, url.c_str(), nullptr, nullptr, nullptr,
                          &disk_));
    for (uint32_t i = 0; i < kMaxDepth; ++i) slots_[i] = {this, i};
  }
  ~LibraryLoad() override {
    Must(skiff_.disk_close(disk_, nullptr, nullptr));
    Must(skiff_.context_close(context_));
  }

 private:
  struct Slot {
    LibraryLoad* load = nullptr;
    uint32_t number = 0;
  };

  void Must(int result) const {
    if (result < 0) Die(absl::StrCat("library_bench: ", skiff_.last_error()));
  }
  static void OnEnd(void* user, int result, const char* message) {
    if (result != 0) Die(absl::StrCat("library_bench: ", message));
    auto* const ended = static_cast<Slot*>(user);
    ended->load->OnDone(ended->number);
  }
  void Submit(const DiskWork& work, uint32_t slot, uint64_t offset,
              void* memory) override {
    Must(work.write ? skiff_.disk_write(disk_, offset, memory, work.bytes, 0,
                                        OnEnd, &slots_[slot])
                    : skiff_.disk_read(disk_, offset, memory, work.bytes, OnEnd,
                                       &slots_[slot]));
  }
  void Poll() override { Must(skiff_.context_poll(context_)); }

  const Functions skiff_;
  skiff_context* context_ = nullptr;
  skiff_disk* disk_ = nullptr;
  std::array<Slot, kMaxDepth> slots_;
};

}  // namespace

std::unique_ptr<DiskLoad> MakeLibraryLoad(const transport::Address& portal,
                                          const std::string& path) {
  return std::make_unique<LibraryLoad>(portal, path);
}

}  // namespace skiff::bench
