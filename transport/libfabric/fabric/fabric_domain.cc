#include "transport/libfabric/fabric/fabric_domain.h"

#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <sys/mman.h>

#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "transport/libfabric/fabric/fabric_error.h"
#include "transport/libfabric/fabric/fabric_info.h"
#include "transport/libfabric/fabric/private_data_limit.h"
#include "transport/libfabric/shm/shm_peer.h"
#include "transport/log/log.h"

namespace skiff::transport {
namespace {

// Soft-iWARP numbers the pages of the queues that a process maps, and its
// library in rdma-core takes the number 0x90 (SIW_INVAL_UOBJ_KEY in
// rdma/siw-abi.h) for a failure: some thirtieth completion queue could not be
// made, with whatever errno there was. The kernel gives numbers from 0 on, and
// a queue only shows its first, so a queue that is longer hides that one. Its
// entries have 32 bytes.
constexpr size_t kPlaceholderEntries = (0x90 + 1) * 4096 / 32;

// Random keys are unlikely to be taken; this many in a row are not.
constexpr int kKeyAttempts = 16;
// The longest message over shared memory; see FabricDomain::sink().
constexpr size_t kMaxShmMessage = 1 << 20;
// Regions that were not listed, before that is said: keys are random, so that a
// few may meet in a list with room.
constexpr uint32_t kUnlistedToSay = 16;

// The largest queue that the provider gives for `info`, found by asking.
size_t LargestQueue(const fi_info& info, bool send) {
  FabricAddressOptions options;
  options.provider = info.fabric_attr->prov_name;
  options.domain = info.domain_attr->name;
  const size_t known = send ? info.tx_attr->size : info.rx_attr->size;
  for (size_t size = 65536; size > known; size /= 2) {
    const InfoPtr hints = FabricHints(options, info.ep_attr->type,
                                      send ? size : 0, send ? 0 : size);
    if (hints == nullptr) break;
    hints->addr_format = info.addr_format;
    fi_info* found = nullptr;
    if (fi_getinfo(FabricApiVersion(), nullptr, nullptr, 0, hints.get(),
                   &found) != 0) {
      continue;
    }
    const InfoPtr owner(found);
    if ((send ? found->tx_attr->size : found->rx_attr->size) >= size) {
      return size;
    }
  }
  return known;
}

// Private data at connect, of connected endpoints.
size_t PrivateDataLimit(fid_fabric* fabric, const fi_info& info) {
  const InfoPtr copy(fi_dupinfo(&info));
  if (copy == nullptr) return 0;
  free(std::exchange(copy->src_addr, nullptr));
  copy->src_addrlen = 0;
  fid_pep* raw = nullptr;
  if (fi_passive_ep(fabric, copy.get(), &raw, nullptr) != 0) return 0;
  const Fid<fid_pep> pep(raw);
  size_t limit = 0;
  size_t length = sizeof(limit);
  if (fi_getopt(&pep->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &limit,
                &length) != 0) {
    return 0;
  }
  return limit;
}

uint64_t FabricAccess(Access access, bool iwarp) {
  uint64_t out = FI_SEND | FI_RECV | FI_WRITE | FI_READ;
  // The verbs provider turns FI_READ on iWARP into remote write permission,
  // which the caller has to have asked for.
  if (iwarp && !Has(access, Access::kRemoteWrite)) {
    out &= ~static_cast<uint64_t>(FI_READ);
  }
  if (Has(access, Access::kRemoteRead)) out |= FI_REMOTE_READ;
  if (Has(access, Access::kRemoteWrite)) out |= FI_REMOTE_WRITE;
  return out;
}

}  // namespace

absl::Status FabricDomain::Open(const fi_info& info) {
  name_ = FabricName(info);
  provider_ = info.fabric_attr->prov_name;
  device_ = info.domain_attr->name;
  info_.reset(fi_dupinfo(&info));
  fi_info* const copy = info_.get();
  if (copy == nullptr) return absl::ResourceExhaustedError("out of memory");
  fid_fabric* fabric = nullptr;
  int result = fi_fabric(copy->fabric_attr, &fabric, nullptr);
  if (result != 0) {
    return FabricStatus(result, absl::StrCat(name_, ": fi_fabric"));
  }
  fabric_.reset(fabric);
  fid_domain* domain = nullptr;
  result = fi_domain(fabric, copy, &domain, nullptr);
  if (result != 0) {
    return FabricStatus(result, absl::StrCat(name_, ": fi_domain"));
  }
  domain_.reset(domain);
  hold_ = DeviceHold::Create(fabric, info);
  if (IsSoftIwarp(info)) {
    absl::Status opened = OpenPlaceholder();
    if (!opened.ok()) return opened;
    completes_before_reads_ = true;
  }
  const auto mode = static_cast<uint64_t>(info.domain_attr->mr_mode);
  local_ = (mode & FI_MR_LOCAL) != 0;
  provider_keys_ = (mode & FI_MR_PROV_KEY) != 0;
  virtual_addresses_ = (mode & FI_MR_VIRT_ADDR) != 0;
  send_passes_write_ = (info.tx_attr->msg_order & FI_ORDER_SAW) == 0;
  // The tcp provider completes a WRITE when the kernel has its data. What is
  // fenced needs to know in any case.
  asks_for_delivery_ = send_passes_write_ || absl::StartsWith(provider_, "tcp");
  random_.seed((uint64_t{std::random_device()()} << 32) |
               std::random_device()());
  datagrams_ = info.ep_attr->type == FI_EP_RDM;
  FindLimits(info);
  if (provider_ == "shm") {
    absl::Status adapted = AdaptToShm();
    if (!adapted.ok()) return adapted;
  }
  return CheckNoCache();
}

FabricDomain::~FabricDomain() {
  if (!removed()) return;
  placeholder_.reset();
  domain_.reset();
  DeviceHold::LetGo(std::move(hold_), std::move(fabric_), std::move(info_),
                    settings_);
}

bool FabricDomain::removed() const {
  if (!removed_ && hold_ != nullptr && hold_->DeviceWasRemoved()) {
    removed_ = true;
  }
  return removed_;
}

absl::Status FabricDomain::OpenPlaceholder() {
  fi_cq_attr attributes = {};
  attributes.size = kPlaceholderEntries;
  attributes.format = FI_CQ_FORMAT_CONTEXT;
  attributes.wait_obj = FI_WAIT_NONE;
  fid_cq* queue = nullptr;
  const int result = fi_cq_open(domain_.get(), &attributes, &queue, nullptr);
  if (result != 0) {
    return FabricStatus(result, absl::StrCat(name_, ": a completion queue of ",
                                             kPlaceholderEntries,
                                             " entries, which hides a "
                                             "fault of the device's library"));
  }
  placeholder_.reset(queue);
  return absl::OkStatus();
}

// libfabric's registration cache (fi_mr(3)) would register memory for every
// kind of remote access, whatever was asked for, and keep keys in use after
// their region is gone. It shows by giving one key twice.
absl::Status FabricDomain::CheckNoCache() {
  if (!provider_keys_) return absl::OkStatus();
  std::vector<char> memory(1);
  auto first = Register(memory.data(), memory.size(), Access::kRemoteRead);
  if (!first.ok()) return first.status();
  auto second = Register(memory.data(), memory.size(), Access::kRemoteRead);
  if (!second.ok()) return second.status();
  if ((*first)->remote_key().value != (*second)->remote_key().value) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      name_,
      ": libfabric's registration cache is on, which lets peers use memory "
      "that is not open to them; set FI_MR_CACHE_MAX_COUNT=0 in the "
      "environment, or make Skiff's transport before anything else uses "
      "libfabric"));
}

void FabricDomain::Unmap::operator()(void* memory) const {
  munmap(memory, kMaxShmMessage);
}

// Why: docs/transport-libfabric-notes.md, "what providers get wrong".
absl::Status FabricDomain::AdaptToShm() {
  RemoveShmOfTheDead();
  local_only_ = true;
  forgets_refusals_ = true;
  capabilities_.max_message_bytes = kMaxShmMessage;
  // What is longer is copied by process_vm_readv(2), and answered.
  capabilities_.eager_message_bytes = capabilities_.max_inline_bytes;
  capabilities_.serial_transfers = true;
  max_iovecs_ = capabilities_.max_receive_sges;
  void* memory = mmap(nullptr, kMaxShmMessage, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    return absl::ResourceExhaustedError(absl::StrCat(
        name_, ": no address space for ", kMaxShmMessage, " bytes"));
  }
  sink_.reset(memory);
  auto readable = ShmRegionList::Create();
  if (readable.ok()) {
    readable_ = *std::move(readable);
  } else {
    LogToProcess(
        LogLevel::kWarning,
        absl::StrCat("peers cannot read this process's memory but through the "
                     "provider, which copies twice: ",
                     readable.status().message()));
  }
  return absl::OkStatus();
}

void FabricDomain::FindLimits(const fi_info& info) {
  capabilities_ = FabricCapabilities(info);
  if (datagrams_) {
    // These providers say what they have.
    capabilities_.max_private_data_bytes = kMaxHandshakePrivateData;
    return;
  }
  capabilities_.max_send_queue =
      static_cast<uint32_t>(LargestQueue(info, /*send=*/true));
  capabilities_.max_receive_queue =
      static_cast<uint32_t>(LargestQueue(info, /*send=*/false));
  capabilities_.max_read_depth = capabilities_.max_send_queue;
  capabilities_.max_private_data_bytes = PrivateDataLimit(fabric_.get(), info);
}

uint64_t FabricDomain::NextKey() {
  std::lock_guard<std::mutex> lock(mutex_);
  // Zero is left out: it looks like no key. Unpredictable, so that a peer
  // cannot guess the keys of another's memory.
  const uint64_t mask =
      capabilities_.remote_key_bits >= 64
          ? ~uint64_t{0}
          : (uint64_t{1} << capabilities_.remote_key_bits) - 1;
  uint64_t key = 0;
  while (key == 0) key = random_() & mask;
  return key;
}

absl::StatusOr<std::unique_ptr<MemoryRegion>> FabricDomain::Register(
    void* data, size_t size, Access access) {
  if (data == nullptr || size == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        name_, ": cannot register ", size, " bytes at address ",
        absl::Hex(reinterpret_cast<uintptr_t>(data)), ": there is no memory"));
  }
  if (Has(access, Access::kRemoteRead) || Has(access, Access::kRemoteWrite)) {
    opened_ = true;
  }
  const uint64_t flags =
      FabricAccess(access, capabilities_.read_sink_needs_remote_write);
  // Only for errors: some callers register for every command.
  const auto what = [&] {
    return absl::StrCat(name_, ": cannot register ", size, " bytes");
  };
  fid_mr* region = nullptr;
  int result = -FI_ENOKEY;
  for (int i = 0; result == -FI_ENOKEY && i < kKeyAttempts; ++i) {
    result = fi_mr_reg(domain_.get(), data, size, flags, 0,
                       provider_keys_ ? 0 : NextKey(), 0, &region, nullptr);
    if (provider_keys_) break;
  }
  if (result != 0) return FabricStatus(result, what());
  Fid<fid_mr> owned(region);
  const uint64_t key = fi_mr_key(region);
  const uint8_t bits = capabilities_.remote_key_bits;
  if (key == FI_KEY_NOTAVAIL || (bits < 64 && (key >> bits) != 0)) {
    return absl::FailedPreconditionError(
        absl::StrCat(what(), ": the provider gave the key ", absl::Hex(key),
                     ", which does not fit the ", bits,
                     " bits that it promised; use another provider"));
  }
  const uint32_t listed =
      readable_ != nullptr && Has(access, Access::kRemoteRead)
          ? List(key, data, size)
          : ShmRegionList::kUnlisted;
  return std::make_unique<FabricRegion>(
      FabricRegion::Parts{shared_from_this(), data, size, access,
                          virtual_addresses_, listed},
      std::move(owned));
}

uint32_t FabricDomain::List(uint64_t key, const void* data, size_t size) {
  const uint32_t entry = readable_->Add(key, data, size);
  // A fork of the process has told its peers that it has no list.
  if (entry == ShmRegionList::kUnlisted && readable_->descriptor() >= 0 &&
      ++unlisted_ == kUnlistedToSay) {
    LogToProcess(
        LogLevel::kWarning,
        absl::StrCat("peers read some of this process's memory through the "
                     "provider only, which copies twice: its list of ",
                     ShmRegionList::kEntries, " regions had no place for ",
                     kUnlistedToSay, "; register fewer and larger ones"));
  }
  return entry;
}

}  // namespace skiff::transport
