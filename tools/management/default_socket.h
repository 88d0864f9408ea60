#ifndef SKIFF_TOOLS_MANAGEMENT_DEFAULT_SOCKET_H_
#define SKIFF_TOOLS_MANAGEMENT_DEFAULT_SOCKET_H_

namespace skiff::tools::management {

// Where skiffd is managed, if its configuration names no other socket.
inline constexpr char kDefaultSocket[] = "/run/skiff/skiffd.sock";

}  // namespace skiff::tools::management

#endif  // SKIFF_TOOLS_MANAGEMENT_DEFAULT_SOCKET_H_
