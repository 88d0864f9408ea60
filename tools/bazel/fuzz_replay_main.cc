// The main() of a fuzz target that is not linked with libFuzzer: feeds the
// files below its arguments to LLVMFuzzerTestOneInput(), once each.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

namespace fs = std::filesystem;

// Regular files, and links to them: a corpus in a test's runfiles is links.
std::vector<fs::path> FilesBelow(const fs::path& path) {
  if (fs::is_regular_file(path)) return {path};
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry :
       fs::recursive_directory_iterator(path)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// False if the file cannot be read.
bool Replay(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  const std::string input((std::istreambuf_iterator<char>(stream)),
                          std::istreambuf_iterator<char>());
  if (!stream.good() && !stream.eof()) return false;
  // Named first: if the input crashes the target, this is the last line.
  std::printf("%s (%zu bytes)\n", file.c_str(), input.size());
  std::fflush(stdout);
  // A copy of the exact size, so that AddressSanitizer sees the end of it.
  const std::vector<uint8_t> bytes(input.begin(), input.end());
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  size_t count = 0;
  for (int i = 1; i < argc; ++i) {
    if (!fs::exists(argv[i])) {
      std::fprintf(stderr, "no such file or directory: %s\n", argv[i]);
      return 1;
    }
    for (const fs::path& file : FilesBelow(argv[i])) {
      if (!Replay(file)) {
        std::fprintf(stderr, "cannot read %s\n", file.c_str());
        return 1;
      }
      ++count;
    }
  }
  if (count == 0) {
    std::fprintf(stderr, "usage: %s FILE_OR_DIRECTORY...\n", argv[0]);
    return 1;
  }
  std::printf("replayed %zu inputs\n", count);
  return 0;
}
