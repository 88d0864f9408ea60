#ifndef SKIFF_TOOLS_CLIENTS_LIBISCSI_BYTES_H_
#define SKIFF_TOOLS_CLIENTS_LIBISCSI_BYTES_H_

#include <cstddef>
#include <cstdint>

namespace skiff::libiscsi {

// Big-endian numbers, as in all of SCSI.
template <typename Number>
Number LoadBig(const unsigned char* from) {
  Number number = 0;
  for (size_t i = 0; i < sizeof(Number); ++i) {
    number = static_cast<Number>(number << 8 | from[i]);
  }
  return number;
}

template <>
inline uint8_t LoadBig<uint8_t>(const unsigned char* from) {
  return *from;
}

template <typename Number>
void StoreBig(Number number, unsigned char* to) {
  for (size_t i = sizeof(Number); i > 0; --i) {
    to[i - 1] = static_cast<unsigned char>(number);
    if constexpr (sizeof(Number) > 1) number = static_cast<Number>(number >> 8);
  }
}

// An answer that may end anywhere: what is beyond reads as zero.
class Answer {
 public:
  Answer(const unsigned char* data, int size)
      : data_(data),
        size_(data == nullptr || size < 0 ? 0 : static_cast<size_t>(size)) {}

  size_t size() const { return size_; }
  const unsigned char* at(size_t offset) const { return data_ + offset; }
  template <typename Number>
  Number Get(size_t offset) const {
    return offset + sizeof(Number) > size_ ? Number{0}
                                           : LoadBig<Number>(data_ + offset);
  }
  uint8_t Byte(size_t offset) const { return Get<uint8_t>(offset); }
  // Bits of one byte: `mask` after shifting to the right.
  int Bits(size_t offset, int shift, int mask) const {
    return (Byte(offset) >> shift) & mask;
  }
  int Bit(size_t offset, int bit) const { return Bits(offset, bit, 1); }

 private:
  const unsigned char* data_;
  size_t size_;
};

}  // namespace skiff::libiscsi

#endif  // SKIFF_TOOLS_CLIENTS_LIBISCSI_BYTES_H_
