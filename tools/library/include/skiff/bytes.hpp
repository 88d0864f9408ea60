/// @file
/// Memory that I/O uses: skiff::Bytes, skiff::MutableBytes, skiff::Iovecs.
#ifndef SKIFF_BYTES_HPP_
#define SKIFF_BYTES_HPP_

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <type_traits>
#include <utility>

namespace skiff {

/// Bytes of somebody else's: a span, in C++17, too. Made of a pointer and a
/// size in bytes, or of anything that std::data() and std::size() know: a
/// std::span<std::byte>, an array, a vector, a string, a skiff::Buffer.
template <typename Byte>
class BasicBytes {
 public:
  using Void = std::conditional_t<std::is_const_v<Byte>, const void, void>;

  BasicBytes() = default;
  BasicBytes(Void* data, size_t size)
      : data_(static_cast<Byte*>(data)), size_(size) {}
  /// Its elements are plain: their bytes are what is read and written.
  template <typename Container,
            typename Pointer = decltype(std::data(std::declval<Container&>())),
            typename = std::enable_if_t<
                std::is_convertible_v<Pointer, Void*> &&
                std::is_trivially_copyable_v<std::remove_pointer_t<Pointer>> &&
                !std::is_base_of_v<BasicBytes, std::decay_t<Container>>>>
  BasicBytes(Container&& container)  // NOLINT(google-explicit-constructor)
      : BasicBytes(
            std::data(container),
            std::size(container) * sizeof(std::remove_pointer_t<Pointer>)) {}

  Byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  Byte* data_ = nullptr;
  size_t size_ = 0;
};

/// Bytes that are read from.
using Bytes = BasicBytes<const std::byte>;
/// Bytes that are written to.
using MutableBytes = BasicBytes<std::byte>;

/// An array of iovecs of somebody else's. Made of a pointer and a count, or of
/// a container, such as a std::vector<iovec>.
class Iovecs {
 public:
  Iovecs() = default;
  Iovecs(const iovec* data, size_t size) : data_(data), size_(size) {}
  template <typename Container,
            typename = std::enable_if_t<
                std::is_convertible_v<
                    decltype(std::data(std::declval<const Container&>())),
                    const iovec*> &&
                !std::is_same_v<Container, Iovecs>>>
  Iovecs(const Container& container)  // NOLINT(google-explicit-constructor)
      : Iovecs(std::data(container), std::size(container)) {}

  const iovec* data() const { return data_; }
  size_t size() const { return size_; }
  const iovec* begin() const { return data_; }
  const iovec* end() const { return data_ + size_; }
  /// All of them together.
  uint64_t bytes() const {
    uint64_t sum = 0;
    for (const iovec& part : *this) sum += part.iov_len;
    return sum;
  }

 private:
  const iovec* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace skiff

#endif  // SKIFF_BYTES_HPP_
