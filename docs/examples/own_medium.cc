// Serves storage of its own until its input ends: own_medium ADDRESS...
#include <cstdio>
#include <skiff/skiff.hpp>

struct Storage : skiff::Backend {
  void Submit(skiff::Request request) override {
    request.Complete(request.CopyWith(bytes.data()));
  }
  std::vector<char> bytes = std::vector<char>(16 << 20);
};

int main(int argc, char** argv) {
  skiff::ContextOptions options;
  options.threads = 2;
  options.log = [](int, const char* line) { fprintf(stderr, "%s\n", line); };
  auto context = skiff::Context::Create(options).value();
  skiff::BackendOptions size(16 << 20);
  auto storage = std::make_shared<Storage>();
  auto medium = skiff::Medium::Create(context, storage, size).value();
  const char* name = "iqn.2026-11.org.example:medium";
  auto target = skiff::Target::Create(context, name).value();
  auto server = skiff::Server::Create(context).value();
  if (!target.AddLun(0, medium).ok() || !server.AddTarget(target).ok())
    return 1;
  for (int i = 1; i < argc; ++i) {
    printf("serving at %s\n", server.Listen(argv[i]).value().c_str());
  }
  fflush(stdout);
  while (getchar() != EOF) continue;
}
