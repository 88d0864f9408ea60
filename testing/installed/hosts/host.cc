// A program in C++. What the library tells goes to an object of its own.

#include <skiff/skiff.h>

#include <cstdlib>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

struct CloseContext {
  void operator()(skiff_context* context) const {
    skiff_context_close(context);
  }
};
using Context = std::unique_ptr<skiff_context, CloseContext>;

void Check(int result, const char* what) {
  if (result < 0) {
    throw std::runtime_error(std::string(what) + ": " + skiff_last_error());
  }
}

// All calls block here, and drive the context meanwhile.
void Run(skiff_context* context) {
  constexpr char kName[] = "iqn.2026-11.org.example:host";
  skiff_ram_options ram;
  SKIFF_INIT(ram);
  ram.size_bytes = 1 << 20;
  skiff_backend* backend = nullptr;
  skiff_target* target = nullptr;
  skiff_server* server = nullptr;
  skiff_disk* disk = nullptr;
  char portal[256];
  Check(skiff_backend_create_ram(context, &ram, &backend), "backend");
  Check(skiff_target_create(context, kName, nullptr, &target), "target");
  Check(skiff_target_add_lun(target, 0, backend, nullptr), "LUN");
  Check(skiff_server_create(context, nullptr, &server), "server");
  Check(skiff_server_add_target(server, target, nullptr), "serving");
  Check(
      skiff_server_listen(server, "tcp://127.0.0.1:0", portal, sizeof(portal)),
      "portal");
  const std::string address(std::string(portal).substr(6));
  const std::string url = "iscsi://" + address + "/" + kName + "/0";
  Check(skiff_disk_open(context, url.c_str(), nullptr, nullptr, nullptr, &disk),
        "disk");

  const std::vector<char> written(8192, 'x');
  std::vector<char> read(written.size());
  Check(skiff_disk_write(disk, 4096, written.data(), written.size(),
                         SKIFF_IO_FUA, nullptr, nullptr),
        "write");
  Check(skiff_disk_read(disk, 4096, read.data(), read.size(), nullptr, nullptr),
        "read");
  if (read != written) throw std::runtime_error("read is not what was written");

  Check(skiff_disk_close(disk, nullptr, nullptr), "closing the disk");
  Check(skiff_server_close(server, 0, nullptr, nullptr), "closing the server");
  Check(skiff_target_remove_lun(target, 0, nullptr, nullptr), "removing");
  Check(skiff_target_close(target), "closing the target");
  Check(skiff_backend_close(backend), "closing the backend");
}

}  // namespace

int main() {
  try {
    skiff_context* context = nullptr;
    Check(skiff_context_create(nullptr, &context), "context");
    Run(Context(context).get());
  } catch (const std::exception& error) {
    std::cerr << "host: " << error.what() << "\n";
    return EXIT_FAILURE;
  }
  std::cout << "host: done\n";
  return EXIT_SUCCESS;
}
