// Prints the start of a LUN: read_disk iscsi://HOST[:PORT]/TARGET/LUN
#include <cstdio>
#include <skiff/skiff.hpp>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  auto context = skiff::Context::Create();
  if (!context.ok()) return 1;
  auto disk = skiff::Disk::Open(*context, argv[1]);
  std::vector<std::byte> block(4096);
  auto status = disk.ok() ? disk->Read(0, block) : disk.status();
  if (!status.ok()) fprintf(stderr, "%s\n", status.message().c_str());
  if (!status.ok()) return 1;
  return fwrite(block.data(), 1, block.size(), stdout) == block.size() ? 0 : 1;
}
