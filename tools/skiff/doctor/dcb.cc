#include "tools/skiff/doctor/dcb.h"

#include <linux/dcbnl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace skiff::tools {
namespace {

using Bytes = absl::Span<const uint8_t>;

constexpr int kPriorities = 8;
constexpr size_t kMaxAnswer = 8192;
constexpr char kSilent[] = "its driver does not say";

template <typename T>
void Append(const T& value, std::string* out) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void AppendAttribute(uint16_t type, absl::string_view value, std::string* out) {
  const nlattr header = {static_cast<uint16_t>(NLA_HDRLEN + value.size()),
                         type};
  Append(header, out);
  out->append(value.data(), value.size());
  out->resize(NLA_ALIGN(out->size()));
}

template <typename T>
bool Take(Bytes* from, T* value) {
  if (from->size() < sizeof(T)) return false;
  std::memcpy(value, from->data(), sizeof(T));
  from->remove_prefix(sizeof(T));
  return true;
}

// The value of an attribute; of none where it is not there, or cut.
Bytes Attribute(Bytes attributes, uint16_t type) {
  nlattr header = {};
  for (Bytes rest = attributes; Take(&rest, &header);) {
    if (header.nla_len < NLA_HDRLEN) break;
    const size_t size = header.nla_len - NLA_HDRLEN;
    if (size > rest.size()) break;
    if ((header.nla_type & NLA_TYPE_MASK) == type) return rest.first(size);
    rest.remove_prefix(std::min<size_t>(NLA_ALIGN(size), rest.size()));
  }
  return {};
}

absl::Status Silent() { return absl::UnimplementedError(kSilent); }

absl::StatusOr<uint8_t> IeeePfc(Bytes attributes) {
  const Bytes pfc =
      Attribute(Attribute(attributes, DCB_ATTR_IEEE), DCB_ATTR_IEEE_PFC);
  // Later kernels may add to it.
  if (pfc.size() < sizeof(ieee_pfc)) return Silent();
  return pfc[offsetof(ieee_pfc, pfc_en)];
}

absl::StatusOr<uint8_t> CeePfc(Bytes attributes) {
  const Bytes all = Attribute(attributes, DCB_ATTR_PFC_CFG);
  if (all.empty()) return Silent();
  uint8_t priorities = 0;
  for (int i = 0; i < kPriorities; ++i) {
    const Bytes one =
        Attribute(all, static_cast<uint16_t>(DCB_PFC_UP_ATTR_0 + i));
    if (!one.empty() && one[0] != 0) priorities |= 1u << i;
  }
  return priorities;
}

absl::StatusOr<uint8_t> Dcbx(Bytes attributes) {
  const Bytes mode = Attribute(attributes, DCB_ATTR_DCBX);
  if (mode.empty()) return Silent();
  return mode[0];
}

absl::StatusOr<uint8_t> Ask(int fd, DcbQuestion question,
                            absl::string_view interface) {
  const std::string request = DcbRequest(question, interface);
  if (send(fd, request.data(), request.size(), 0) < 0) {
    return absl::ErrnoToStatus(errno, "send");
  }
  std::array<uint8_t, kMaxAnswer> answer;
  const ssize_t size = recv(fd, answer.data(), answer.size(), 0);
  if (size < 0) return absl::ErrnoToStatus(errno, "recv");
  return ParseDcbAnswer(question,
                        Bytes(answer.data(), static_cast<size_t>(size)));
}

}  // namespace

std::string DcbRequest(DcbQuestion question, absl::string_view interface) {
  nlmsghdr header = {};
  header.nlmsg_type = RTM_GETDCB;
  header.nlmsg_flags = NLM_F_REQUEST;
  header.nlmsg_seq = static_cast<uint32_t>(question) + 1;
  dcbmsg dcb = {};
  dcb.dcb_family = AF_UNSPEC;
  dcb.cmd = question == DcbQuestion::kIeeePfc  ? DCB_CMD_IEEE_GET
            : question == DcbQuestion::kCeePfc ? DCB_CMD_PFC_GCFG
                                               : DCB_CMD_GDCBX;
  std::string message;
  Append(header, &message);
  Append(dcb, &message);
  std::string name(interface);
  name.push_back('\0');
  AppendAttribute(DCB_ATTR_IFNAME, name, &message);
  if (question == DcbQuestion::kCeePfc) {
    std::string which;
    AppendAttribute(DCB_PFC_UP_ATTR_ALL, "", &which);
    AppendAttribute(DCB_ATTR_PFC_CFG, which, &message);
  }
  header.nlmsg_len = static_cast<uint32_t>(message.size());
  std::memcpy(message.data(), &header, sizeof(header));
  return message;
}

absl::StatusOr<uint8_t> ParseDcbAnswer(DcbQuestion question, Bytes answer) {
  nlmsghdr header = {};
  if (!Take(&answer, &header) || header.nlmsg_len < sizeof(header) ||
      header.nlmsg_len - sizeof(header) > answer.size()) {
    return absl::InternalError("the kernel's answer is cut");
  }
  answer = answer.first(header.nlmsg_len - sizeof(header));
  if (header.nlmsg_type == NLMSG_ERROR) {
    int32_t error = 0;
    if (!Take(&answer, &error)) {
      return absl::InternalError("the kernel's answer is cut");
    }
    if (error == -EOPNOTSUPP) return Silent();
    return absl::ErrnoToStatus(-error, "netlink");
  }
  dcbmsg dcb = {};
  if (header.nlmsg_type != RTM_GETDCB || !Take(&answer, &dcb)) {
    return absl::InternalError(
        absl::StrCat("the kernel answers by message ", header.nlmsg_type));
  }
  switch (question) {
    case DcbQuestion::kIeeePfc:
      return IeeePfc(answer);
    case DcbQuestion::kCeePfc:
      return CeePfc(answer);
    case DcbQuestion::kDcbx:
      break;
  }
  return Dcbx(answer);
}

DcbFact ReadDcb(absl::string_view interface) {
  DcbFact fact;
  const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
  if (fd < 0) {
    fact.no_pfc = std::strerror(errno);
    return fact;
  }
  const absl::Cleanup closer = [fd] { close(fd); };
  const timeval patience = {1, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  absl::StatusOr<uint8_t> pfc = Ask(fd, DcbQuestion::kIeeePfc, interface);
  if (absl::IsUnimplemented(pfc.status())) {
    pfc = Ask(fd, DcbQuestion::kCeePfc, interface);
  }
  if (pfc.ok()) {
    fact.pfc = *pfc;
  } else {
    fact.no_pfc = std::string(pfc.status().message());
  }
  const absl::StatusOr<uint8_t> dcbx = Ask(fd, DcbQuestion::kDcbx, interface);
  if (dcbx.ok()) {
    fact.dcbx = (*dcbx & DCB_CAP_DCBX_HOST) != 0 ? DcbFact::Dcbx::kHost
                : (*dcbx & DCB_CAP_DCBX_LLD_MANAGED) != 0
                    ? DcbFact::Dcbx::kFirmware
                    : DcbFact::Dcbx::kNobody;
  }
  return fact;
}

}  // namespace skiff::tools
