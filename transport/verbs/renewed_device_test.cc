// A device that is removed and made anew: what is of the one is not of the
// other, although both have the same name. In a guest.

#include <infiniband/verbs.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "transport/verbs/open_domains.h"

namespace skiff::transport {
namespace {

constexpr char kDevice[] = "rxe0";

// Names a device, and does not have it open.
class Listed {
 public:
  Listed() : list_(ibv_get_device_list(nullptr)) {}
  ~Listed() { ibv_free_device_list(list_); }
  Listed(const Listed&) = delete;
  Listed& operator=(const Listed&) = delete;

  ibv_device* get() const {
    for (ibv_device** at = list_; *at != nullptr; ++at) {
      if (std::string(ibv_get_device_name(*at)) == kDevice) return *at;
    }
    ADD_FAILURE() << "there is no " << kDevice;
    return nullptr;
  }

 private:
  ibv_device** const list_;
};

void Renew() {
  const std::string name = kDevice;
  for (const std::string& command :
       {"rdma link delete " + name,
        "rdma link add " + name + " type rxe netdev eth0"}) {
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
  }
}

TEST(RenewedDeviceTest, IsNotRemovedWhereItsPredecessorWas) {
  const Listed old;
  ASSERT_NE(old.get(), nullptr);
  {
    const auto domain = DomainOf(old.get());
    ASSERT_TRUE(domain.ok()) << domain.status();
    EXPECT_EQ(DomainOf(old.get()).value(), *domain);
  }
  ASSERT_NO_FATAL_FAILURE(Renew());
  const Listed renewed;
  const auto domain = DomainOf(renewed.get());
  ASSERT_TRUE(domain.ok()) << domain.status();
  // As a listener does that hears late of it.
  SetDomainRemoved(old.get());
  EXPECT_FALSE((*domain)->removed());
  // As a connection does.
  const auto late = DomainOf(old.get());
  EXPECT_EQ(late.status().message(), "rxe0 was removed");
  EXPECT_FALSE((*domain)->removed());
  EXPECT_EQ(DomainOf(renewed.get()).value(), *domain);

  SetDomainRemoved(renewed.get());
  EXPECT_TRUE((*domain)->removed());
}

}  // namespace
}  // namespace skiff::transport
