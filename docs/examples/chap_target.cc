// Serves memory to one user, whose secret is the first line of its input, until
// that ends: chap_target ADDRESS NAME
#include <cstdio>
#include <future>
#include <iostream>
#include <skiff/skiff.hpp>
#include <string>
#include <vector>

struct Users : skiff::Authenticator {
  void Find(const skiff_login_attempt&, const char* name,
            skiff::Login login) override {
    const bool known = name == user;
    lookups.push_back(std::async(std::launch::async, [this, known, login] {
      return known ? login.Accept(secret) : login.Refuse();
    }));
  }
  std::string user, secret;
  std::vector<std::future<skiff::Status>> lookups;  // One thread asks.
};

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  skiff::ContextOptions options;
  options.threads = 1;
  auto context = skiff::Context::Create(options).value();
  auto medium =
      skiff::RamBackend::Create(context, skiff::RamOptions(16 << 20)).value();
  const char* name = "iqn.2026-11.org.example:chap";
  auto target = skiff::Target::Create(context, name).value();
  auto users = std::make_shared<Users>();
  users->user = argv[2];
  if (!std::getline(std::cin, users->secret)) return 2;
  auto server = skiff::Server::Create(context, {}, users).value();
  if (!target.AddLun(0, medium).ok() || !server.AddTarget(target).ok())
    return 1;
  printf("serving at %s\n", server.Listen(argv[1]).value().c_str());
  fflush(stdout);
  while (std::cin.get() != EOF) continue;
}
