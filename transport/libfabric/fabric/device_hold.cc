#include "transport/libfabric/fabric/device_hold.h"

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>
#include <sys/stat.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "transport/libfabric/fabric/fabric_info.h"
#include "transport/system/background.h"

namespace skiff::transport {
namespace {

// Where a connection by the domain of `info` begins, with any port; null if it
// has no address.
InfoPtr WithAddress(const fi_info& info) {
  FabricAddressOptions options;
  options.provider = info.fabric_attr->prov_name;
  options.domain = info.domain_attr->name;
  const InfoPtr hints = FabricHints(options, FI_EP_MSG, 0, 0);
  fi_info* list = nullptr;
  if (hints == nullptr || fi_getinfo(FabricApiVersion(), nullptr, nullptr, 0,
                                     hints.get(), &list) != 0) {
    return nullptr;
  }
  const InfoPtr owner(list);
  for (; list != nullptr; list = list->next) {
    if (list->src_addr != nullptr &&
        std::strcmp(list->domain_attr->name, info.domain_attr->name) == 0) {
      return InfoPtr(fi_dupinfo(list));
    }
  }
  return nullptr;
}

// Where user space finds the device, which ends some time after the event that
// it was removed: the number of its entry. Another one that has its name by
// then has another number. 0: nowhere.
ino_t EntryOf(const std::string& device) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(
           "/sys/class/infiniband_verbs", error)) {
    std::string name;
    std::ifstream(entry.path() / "ibdev") >> name;
    struct stat status;
    if (name == device && stat(entry.path().c_str(), &status) == 0) {
      return status.st_ino;
    }
  }
  return 0;
}

// Opening a domain does that.
void MakeLibrdmacmLook(fid_fabric* fabric, fi_info* info) {
  fid_domain* domain = nullptr;
  if (fi_domain(fabric, info, &domain, nullptr) == 0) fi_close(&domain->fid);
}

}  // namespace

std::unique_ptr<DeviceHold> DeviceHold::Create(fid_fabric* fabric,
                                               const fi_info& info) {
  if (std::strcmp(info.fabric_attr->prov_name, "verbs") != 0) return nullptr;
  const InfoPtr local = WithAddress(info);
  if (local == nullptr) return nullptr;
  std::unique_ptr<DeviceHold> out(new DeviceHold);
  fi_eq_attr attributes = {};
  attributes.wait_obj = FI_WAIT_NONE;
  fid_eq* events = nullptr;
  if (fi_eq_open(fabric, &attributes, &events, nullptr) != 0) return nullptr;
  out->events_.reset(events);
  fid_pep* bound = nullptr;
  if (fi_passive_ep(fabric, local.get(), &bound, nullptr) != 0) return nullptr;
  out->bound_.reset(bound);
  if (fi_pep_bind(bound, &events->fid, 0) != 0) return nullptr;
  return out;
}

bool DeviceHold::DeviceWasRemoved() {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (;;) {
    uint32_t event = 0;
    fi_eq_cm_entry entry = {};
    const ssize_t length =
        fi_eq_read(events_.get(), &event, &entry, sizeof(entry), 0);
    if (length >= 0) continue;
    if (length != -FI_EAVAIL) return false;
    fi_eq_err_entry error = {};
    if (fi_eq_readerr(events_.get(), &error, 0) < 0) return false;
    if (error.err == FI_ENODEV) return true;
  }
}

void DeviceHold::LetGo(std::unique_ptr<DeviceHold> hold, Fid<fid_fabric> fabric,
                       InfoPtr info, const LibfabricOptions& settings) {
  const absl::Time until = absl::Now() + settings.forget_removed_for;
  BackgroundThread* const thread =
      BackgroundThread::Get(absl::StrCat("forget-", info->domain_attr->name));
  thread->TryRun([hold = std::move(hold), fabric = std::move(fabric),
                  info = std::move(info), until,
                  pause = settings.forget_interval]() mutable {
    const std::string device = info->domain_attr->name;
    const ino_t entry = EntryOf(device);
    while (entry != 0 && EntryOf(device) == entry && absl::Now() < until) {
      absl::SleepFor(pause);
    }
    // The hold is for this, too, since that opens the device once more.
    MakeLibrdmacmLook(fabric.get(), info.get());
    hold.reset();
  });
}

}  // namespace skiff::transport
