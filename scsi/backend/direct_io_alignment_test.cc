#include "scsi/backend/direct_io_alignment.h"

#include <sys/uio.h>

#include <cstdint>

#include "gtest/gtest.h"

namespace skiff::scsi {
namespace {

alignas(4096) uint8_t memory[8192];

TEST(FitsDirectIoTest, AddressesAndLengthsHaveRulesOfTheirOwn) {
  const iovec whole[] = {{memory, 512}, {memory + 4, 1024}};
  EXPECT_TRUE(FitsDirectIo(whole, 2, 4, 512));
  EXPECT_FALSE(FitsDirectIo(whole, 2, 8, 512)) << "the second begins at 4";
  EXPECT_FALSE(FitsDirectIo(whole, 2, 4, 1024)) << "the first is half a block";
  // Aligned as memory is, though together one block.
  const iovec halves[] = {{memory, 256}, {memory + 256, 256}};
  EXPECT_FALSE(FitsDirectIo(halves, 2, 4, 512));
  // Memory of larger alignment than blocks.
  const iovec block = {memory + 4096, 512};
  EXPECT_TRUE(FitsDirectIo(&block, 1, 4096, 512));
}

TEST(FitsDirectIoTest, OneOddPieceIsEnough) {
  const iovec pieces[] = {{memory, 512}, {memory + 513, 512}, {memory, 512}};
  EXPECT_FALSE(FitsDirectIo(pieces, 3, 4, 512));
  EXPECT_TRUE(FitsDirectIo(pieces, 1, 4, 512));
}

}  // namespace
}  // namespace skiff::scsi
