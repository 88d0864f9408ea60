#include "tools/clients/nbdkit/extents.h"

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

enum {
  kCdbLength = 16,
  kOperationCode = 0x9e, /* SERVICE ACTION IN (16). */
  kServiceAction = 0x12, /* GET LBA STATUS. */
  kHeaderLength = 8,
  kDescriptorLength = 16,
  kDescriptors = 256,
  kLength = kHeaderLength + kDescriptors * kDescriptorLength,
  kCheckCondition = 2,
  kDeallocated = 1,
  kAnchored = 2,
};

static void store_be(uint8_t* to, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) {
    to[i] = (uint8_t)(value >> (8 * (bytes - 1 - i)));
  }
}

static uint64_t load_be(const uint8_t* from, int bytes) {
  uint64_t value = 0;
  for (int i = 0; i < bytes; ++i) value = value << 8 | from[i];
  return value;
}

/* How many bytes of `data` the device filled; 0: it does not answer that. */
static int ask(const struct disk* disk, uint64_t lba, uint8_t data[kLength],
               uint64_t* length) {
  uint8_t cdb[kCdbLength] = {kOperationCode, kServiceAction};
  store_be(&cdb[2], lba, 8);
  store_be(&cdb[10], kLength, 4);
  const struct iovec iov = {data, kLength};
  skiff_command command;
  SKIFF_INIT(command);
  command.cdb = cdb;
  command.cdb_length = kCdbLength;
  command.data_in = &iov;
  command.data_in_count = 1;
  skiff_command_result result;
  SKIFF_INIT(result);
  const int error =
      skiff_disk_command(disk->handle, &command, &result, NULL, NULL, NULL);
  *length = 0;
  if (error == 0) {
    *length = result.data_in_length;
  } else if (!result.answered || result.status != kCheckCondition) {
    return error;
  }
  return 0;
}

int extents_add(const struct disk* disk, uint32_t count, uint64_t offset,
                struct nbdkit_extents* extents, int* error) {
  uint8_t data[kLength];
  uint64_t length = 0;
  const uint64_t block_size = disk->info.block_size;
  uint64_t lba = offset / block_size;
  const int result = ask(disk, lba, data, &length);
  if (result != 0) {
    nbdkit_error("extents at %llu: %s", (unsigned long long)offset,
                 skiff_last_error());
    *error = -result;
    return -1;
  }
  const uint64_t end = offset + count;
  int added = 0;
  for (uint64_t at = kHeaderLength; at + kDescriptorLength <= length;
       at += kDescriptorLength) {
    const uint8_t* descriptor = &data[at];
    const uint64_t blocks = load_be(&descriptor[8], 4);
    const uint8_t status = descriptor[12] & 0x0f;
    /* nbdkit wants one behind the other, and so does the standard. */
    if (load_be(descriptor, 8) != lba || blocks == 0) break;
    if (lba * block_size >= end) break;
    /* What is not known to be zero is data: later standards have more. */
    const uint32_t type = status == kDeallocated
                              ? NBDKIT_EXTENT_HOLE | NBDKIT_EXTENT_ZERO
                          : status == kAnchored ? NBDKIT_EXTENT_ZERO
                                                : 0;
    if (nbdkit_add_extent(extents, lba * block_size, blocks * block_size,
                          type) != 0) {
      return -1;
    }
    added = 1;
    lba += blocks;
  }
  return added ? 0 : nbdkit_add_extent(extents, offset, count, 0);
}
