#ifndef SKIFF_PROTOCOL_TARGET_ACCOUNT_LOOKUPS_H_
#define SKIFF_PROTOCOL_TARGET_ACCOUNT_LOOKUPS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace skiff::protocol {

// How many accounts are looked up at once (Authenticator::FindAccount()). A
// user database that does not answer keeps the question of each login, also
// when the login is over. Thread-safe.
class AccountLookups {
 private:
  using Count = std::atomic<uint32_t>;

 public:
  // One of them: it counts until it has ended, or is destroyed. Thread-safe.
  class Lookup {
   public:
    explicit Lookup(std::shared_ptr<Count> count)
        : count_(std::move(count)), place_(++*count_) {}
    Lookup(const Lookup&) = delete;
    Lookup& operator=(const Lookup&) = delete;
    ~Lookup() { End(); }
    void End() {
      if (!ended_.exchange(true)) --*count_;
    }
    // How many there were when it began, with it.
    uint32_t place() const { return place_; }

   private:
    const std::shared_ptr<Count> count_;
    const uint32_t place_;
    std::atomic<bool> ended_ = false;
  };

  explicit AccountLookups(uint32_t limit) : limit_(limit) {}

  // Null: the limit is reached. It may outlive this.
  std::shared_ptr<Lookup> Begin();

  uint32_t limit() const { return limit_; }
  uint32_t under_way() const { return *count_; }

 private:
  const uint32_t limit_;
  const std::shared_ptr<Count> count_ = std::make_shared<Count>(0);
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_TARGET_ACCOUNT_LOOKUPS_H_
